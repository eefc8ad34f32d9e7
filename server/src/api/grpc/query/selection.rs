//! From a request's matchers and range to what is selected.

use silverback_proto::v1::{self, MatcherKind, TimeRange};

use crate::api::read_fault::ReadFault;
use crate::api::selector::Breadth;
use crate::limits::READ_MATCHERS_MAX;
use crate::message::Selection;
use crate::model::{MatchOp, Matcher};
use crate::runtime::Slicer;

/// What is selected; without a range, of any time. Expressions are compiled in slices.
pub async fn selection(
    slicer: &Slicer,
    asked: &[v1::Matcher],
    range: Option<TimeRange>,
    breadth: Breadth,
) -> Result<Selection, ReadFault> {
    if asked.len() > READ_MATCHERS_MAX {
        let words =
            format!("the request has {} matchers, at most {READ_MATCHERS_MAX} are allowed", asked.len());
        return Err(ReadFault::BadRequest(words));
    }
    let mut matchers = Vec::with_capacity(asked.len());
    let mut slice = slicer.begin().await;
    for one in asked {
        matchers.push(matcher(one).map_err(ReadFault::BadRequest)?);
        slice.breathe().await;
    }
    check_breadth(&matchers, breadth)?;
    let TimeRange { min_ms, max_ms } = range.unwrap_or(TimeRange { min_ms: i64::MIN, max_ms: i64::MAX });
    Ok(Selection { matchers: matchers.into(), min_ms, max_ms })
}

fn check_breadth(matchers: &[Matcher], breadth: Breadth) -> Result<(), ReadFault> {
    match breadth {
        Breadth::Narrowed if matchers.iter().all(Matcher::matches_empty) => {
            Err(ReadFault::BadRequest("at least one matcher must not match the empty value".to_owned()))
        }
        Breadth::Narrowed | Breadth::Any => Ok(()),
    }
}

fn matcher(asked: &v1::Matcher) -> Result<Matcher, String> {
    let unknown = |_| format!("matcher of label {:?}: there is no kind {}", asked.name, asked.kind);
    let op = match MatcherKind::try_from(asked.kind).map_err(unknown)? {
        MatcherKind::Unspecified | MatcherKind::Equal => MatchOp::Equal,
        MatcherKind::NotEqual => MatchOp::NotEqual,
        MatcherKind::Regex => MatchOp::Regex,
        MatcherKind::NotRegex => MatchOp::NotRegex,
    };
    Matcher::new(&asked.name, op, &asked.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: i32, value: &str) -> v1::Matcher {
        v1::Matcher { kind, name: "a".into(), value: value.into() }
    }

    #[test]
    fn matchers_of_all_kinds_are_read() {
        let ops: Vec<_> = (0..5).map(|kind| matcher(&asked(kind, "b|c")).unwrap().op).collect();
        use MatchOp::{Equal, NotEqual, NotRegex, Regex};
        assert_eq!(ops, [Equal, Equal, NotEqual, Regex, NotRegex]);
    }

    #[test]
    fn a_matcher_that_means_nothing_is_told() {
        assert!(matcher(&asked(5, "x")).unwrap_err().contains("no kind 5"));
        assert!(matcher(&asked(3, "(")).unwrap_err().contains("\"(\""));
    }

    fn check_breadth_of(matchers: &[v1::Matcher], is_narrow: bool) {
        let matchers: Vec<_> = matchers.iter().map(|asked| matcher(asked).unwrap()).collect();
        assert_eq!(check_breadth(&matchers, Breadth::Narrowed).is_ok(), is_narrow, "{matchers:?}");
        assert!(check_breadth(&matchers, Breadth::Any).is_ok());
    }

    #[test]
    fn one_matcher_must_refuse_the_empty_value() {
        check_breadth_of(&[], false);
        check_breadth_of(&[asked(1, ""), asked(3, ".*"), asked(2, "x")], false);
        check_breadth_of(&[asked(3, ".*"), asked(3, ".+")], true);
    }
}
