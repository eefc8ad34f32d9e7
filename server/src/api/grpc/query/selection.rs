//! From a request's matchers and range to what is selected.

use silverback_proto::v1::{self, MatcherKind, TimeRange};

use crate::api::query::Reader;
use crate::api::query::matchers::MatcherCompiler;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::selector::Breadth;
use silverback_model::{MatchOp, UncompiledMatcher};
use silverback_storage::message::Selection;

/// What is selected; without a range, of any time.
pub(crate) async fn selection(
    reader: &Reader,
    asked: &[v1::Matcher],
    range: Option<TimeRange>,
    breadth: Breadth,
) -> Result<Selection, ReadRejected> {
    let mut matchers = Vec::with_capacity(asked.len());
    let mut compiler = MatcherCompiler::new(reader);
    for one in asked {
        matchers.push(compiler.compile(matcher(one).map_err(ReadRejected::BadRequest)?).await?);
    }
    breadth.check(&matchers).map_err(|problem| ReadRejected::BadRequest(problem.to_owned()))?;
    let TimeRange { min_ms, max_ms } = range.unwrap_or(TimeRange { min_ms: i64::MIN, max_ms: i64::MAX });
    Ok(Selection { matchers: matchers.into(), min_ms, max_ms })
}

fn matcher(asked: &v1::Matcher) -> Result<UncompiledMatcher, String> {
    let unknown = |_| format!("matcher of label {:?}: there is no kind {}", asked.name, asked.kind);
    let op = match MatcherKind::try_from(asked.kind).map_err(unknown)? {
        MatcherKind::Unspecified | MatcherKind::Equal => MatchOp::Equal,
        MatcherKind::NotEqual => MatchOp::NotEqual,
        MatcherKind::Regex => MatchOp::Regex,
        MatcherKind::NotRegex => MatchOp::NotRegex,
    };
    Ok(UncompiledMatcher { name: asked.name.as_str().into(), op, value: asked.value.as_str().into() })
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
    }

    fn check_breadth(matchers: &[v1::Matcher], is_narrow: bool) {
        let compile = |asked| matcher(asked).unwrap().compile_within(1 << 20).unwrap();
        let matchers: Vec<_> = matchers.iter().map(compile).collect();
        assert_eq!(Breadth::Narrowed.check(&matchers).is_ok(), is_narrow, "{matchers:?}");
        assert!(Breadth::Any.check(&matchers).is_ok());
    }

    #[test]
    fn one_matcher_must_refuse_the_empty_value() {
        check_breadth(&[], false);
        check_breadth(&[asked(1, ""), asked(3, ".*"), asked(2, "x")], false);
        check_breadth(&[asked(3, ".*"), asked(3, ".+")], true);
    }
}
