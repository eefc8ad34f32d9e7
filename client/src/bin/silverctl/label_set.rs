//! A series' labels as they were read: sorted, each name once, and shown as PromQL writes them.

use std::fmt;

use silverback_model::printable::{LabelName, Quoted, is_bare_name};

/// The label that holds the metric's name.
pub(crate) const METRIC_NAME: &str = "__name__";

/// Labels, names ascending. An empty value is the same as no such label, and isn't kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct LabelSet(Vec<(String, String)>);

/// Why labels make no series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LabelSetError {
    /// There is no `__name__`.
    #[error("the metric's name is missing")]
    NoMetricName,
    /// A label's name is empty.
    #[error("a label's name is empty")]
    EmptyName,
    /// A label occurs twice.
    #[error("label {0:?} occurs twice")]
    Twice(String),
}

impl LabelSet {
    /// Sorts labels and checks them.
    pub(crate) fn new(mut labels: Vec<(String, String)>) -> Result<Self, LabelSetError> {
        labels.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = labels.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(LabelSetError::Twice(pair[0].0.clone()));
        }
        if labels.first().is_some_and(|(name, _)| name.is_empty()) {
            return Err(LabelSetError::EmptyName);
        }
        labels.retain(|(_, value)| !value.is_empty());
        let labels = Self(labels);
        if labels.get(METRIC_NAME).is_empty() { Err(LabelSetError::NoMetricName) } else { Ok(labels) }
    }

    /// Labels that a node gave, which knows no wrong ones.
    pub(crate) const fn trusted(labels: Vec<(String, String)>) -> Self {
        Self(labels)
    }

    /// A label's value; empty where it has none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value)
    }

    /// The same labels of a metric that is derived from theirs.
    #[must_use]
    pub(crate) fn with_metric_suffix(mut self, suffix: &str) -> Self {
        let name = self.0.iter_mut().find(|(name, _)| name == METRIC_NAME);
        name.into_iter().for_each(|(_, metric)| metric.push_str(suffix));
        self
    }

    /// Names and values.
    pub(crate) fn as_slice(&self) -> &[(String, String)] {
        &self.0
    }
}

/// `up{job="node"}`, or `{"a name", job="node"}` where the name has to be quoted in PromQL.
impl fmt::Display for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = self.get(METRIC_NAME);
        // Rules' names have colons.
        let is_bare = is_bare_name(&metric.replace(':', "_"));
        let mut labels: Vec<String> = Vec::new();
        if is_bare {
            f.write_str(metric)?;
        } else if !metric.is_empty() {
            labels.push(Quoted(metric).to_string());
        }
        let others = self.0.iter().filter(|(name, _)| name != METRIC_NAME);
        labels.extend(others.map(|(name, value)| format!("{}={}", LabelName(name), Quoted(value))));
        if is_bare && labels.is_empty() { Ok(()) } else { write!(f, "{{{}}}", labels.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(labels: &[(&str, &str)]) -> Result<LabelSet, LabelSetError> {
        LabelSet::new(labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    fn check(labels: &[(&str, &str)], expect: &str) {
        assert_eq!(set(labels).unwrap().to_string(), expect);
    }

    #[test]
    fn labels_are_shown_as_promql_writes_them() {
        check(&[(METRIC_NAME, "up")], "up");
        check(&[("z", "1"), (METRIC_NAME, "a:b"), ("a", "")], r#"a:b{z="1"}"#);
        check(&[(METRIC_NAME, "my.name"), ("a b", "q\"\\\n\x1b")], r#"{"my.name", "a b"="q\"\\\n\u001b"}"#);
        check(&[(METRIC_NAME, "x"), ("a", "\u{9b}2J\u{202e}")], r#"x{a="\u009b2J\u202e"}"#);
    }

    #[test]
    fn labels_that_make_no_series_are_told() {
        assert_eq!(set(&[("a", "b")]), Err(LabelSetError::NoMetricName));
        assert_eq!(set(&[(METRIC_NAME, "")]), Err(LabelSetError::NoMetricName));
        assert_eq!(set(&[(METRIC_NAME, "x"), ("", "b")]), Err(LabelSetError::EmptyName));
        assert_eq!(set(&[("a", "1"), (METRIC_NAME, "x"), ("a", "2")]), Err(LabelSetError::Twice("a".into())));
    }
}
