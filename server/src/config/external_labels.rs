//! Labels that a node's series have for those that read it beside others, as Thanos Query does: what
//! `--external-labels` lists, and the names of the two that the node adds.
//!
//! Knows names and values. What becomes of them in an answer is the API's.

use silverback_model::Labels;

use super::error::ValueError;

/// More than anybody tells nodes apart by.
const COUNT_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 1024;

const ALLOWED: &str = "allowed: NAME=VALUE with a name of letters, digits and _ that begins with neither a digit nor \
                       __, such as cluster=eu-1, each name once, at most 32; a value has 1 to 1024 bytes and no comma";
const NAME_ALLOWED: &str = "allowed: a name of letters, digits and _ that begins with neither a digit nor __, such as \
                            replica";

/// Labels with their values, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExternalLabels(Labels);

impl ExternalLabels {
    /// The labels.
    pub(crate) fn labels(&self) -> &Labels {
        &self.0
    }

    /// Whether one has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    pub(super) fn parse(texts: &[String]) -> Result<Self, ValueError> {
        // A list that is set to nothing, as templates do it.
        let texts = if texts.iter().all(|text| text.trim().is_empty()) { &[] } else { texts };
        if texts.len() > COUNT_MAX {
            return Err(ValueError::new(format!("{} labels were given", texts.len()), ALLOWED));
        }
        let labels: Vec<_> = texts.iter().map(|text| parse_label(text)).collect::<Result<_, _>>()?;
        let labels = Labels::from_pairs(labels);
        if let Some(pair) = labels.0.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(ValueError::new(format!("{} occurs twice", pair[0].0), ALLOWED));
        }
        Ok(Self(labels))
    }

    pub(super) fn show(&self) -> Vec<String> {
        self.0.0.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }
}

fn parse_label(text: &str) -> Result<(&str, &str), ValueError> {
    let wrong = || ValueError::new(format!("{text:?} isn't a label"), ALLOWED);
    let (name, value) = text.trim().split_once('=').ok_or_else(wrong)?;
    let value = unquoted(value);
    let is_value = (1..=VALUE_BYTES_MAX).contains(&value.len()) && !value.contains(',');
    if is_value && is_name(name) { Ok((name, value)) } else { Err(wrong()) }
}

/// Thanos' and Prometheus' flags have values in quotes.
fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// Names that begin with `__` say what a series is: with one that all have, none could be distinguished from others.
fn is_name(text: &str) -> bool {
    let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !text.starts_with("__");
    begins && text.len() <= NAME_BYTES_MAX && text.chars().all(belongs)
}

/// One label's name.
pub(super) fn parse_name(text: &str) -> Result<String, ValueError> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(ValueError::new(format!("{text:?} isn't a label's name"), NAME_ALLOWED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &[&str]) -> Result<ExternalLabels, ValueError> {
        ExternalLabels::parse(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    fn check(list: &[&str], expect: &[&str]) {
        let labels = parse(list).unwrap();
        assert_eq!(labels.show(), expect, "{list:?}");
        assert_eq!(parse(expect).unwrap(), labels, "what is shown is read again");
    }

    #[test]
    fn labels_are_sorted_by_their_names() {
        check(&[], &[]);
        check(&[""], &[]);
        check(&["zone=b", "cluster=eu-1"], &["cluster=eu-1", "zone=b"]);
        check(&["_a1=\"x=y\"", " A= v"], &["A= v", "_a1=x=y"]);
    }

    #[test]
    fn what_is_no_label_is_refused_and_told() {
        let long = format!("a={}", "x".repeat(VALUE_BYTES_MAX + 1));
        for bad in ["a", "a=", "a=\"\"", "=b", "1a=b", "a-b=c", "höhe=1", "__name__=up", "a=b,c", "", &long]
        {
            let problem = parse(&["good=1", bad]).unwrap_err();
            assert!(problem.wrong.contains("isn't a label"), "{bad}: {}", problem.wrong);
        }
        assert!(parse(&["a=1", "b=2", "a=3"]).unwrap_err().wrong.contains("a occurs twice"));
        let many: Vec<String> = (0..=COUNT_MAX).map(|i| format!("l{i}=1")).collect();
        assert!(ExternalLabels::parse(&many).unwrap_err().wrong.contains("33 labels"));
    }

    #[test]
    fn a_name_is_one_that_any_label_may_have() {
        assert_eq!(parse_name("replica").ok().as_deref(), Some("replica"));
        for bad in ["", "__replica", "a b", "9", "a=b"] {
            assert!(parse_name(bad).unwrap_err().wrong.contains("isn't a label's name"), "{bad}");
        }
    }
}
