//! From a request's matchers to a selection of series, as a store beside others takes them: external labels decide about
//! matchers of their names.

use silverback_proto::thanos::LabelMatcher;

use crate::api::query::Reader;
use crate::api::query::external::Narrowed;
use crate::api::query::matchers::{MatcherCompiler, op_of_number};
use crate::api::query::read_rejected::ReadRejected;
use silverback_model::UncompiledMatcher;
use silverback_model::limits::READ_MATCHERS_MAX;

/// The matchers about series' own labels.
pub(super) async fn narrowed(reader: &Reader, asked: &[LabelMatcher]) -> Result<Narrowed, ReadRejected> {
    let (mut matchers, mut compiler) = (Vec::with_capacity(asked.len()), MatcherCompiler::new(reader));
    for one in asked {
        matchers.push(compiler.compile(matcher(one).map_err(ReadRejected::BadRequest)?).await?);
    }
    reader.external.narrow(reader, matchers).await
}

/// What is asked for without a matcher about series' own labels.
pub(super) fn too_broad() -> ReadRejected {
    ReadRejected::BadRequest("no matchers specified (excluding external labels)".to_owned())
}

/// Names of labels, ascending, each once: those that series are to be without, for example.
pub(super) fn names(mut names: Vec<String>, what: &str) -> Result<Vec<Box<str>>, ReadRejected> {
    if names.len() > READ_MATCHERS_MAX {
        let count = names.len();
        let words = format!("{what} has {count} labels, at most {READ_MATCHERS_MAX} are allowed");
        return Err(ReadRejected::BadRequest(words));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(String::into_boxed_str).collect())
}

/// So many at most; `None`, for 0 and less: all.
pub(super) fn limit(limit: i64) -> Option<usize> {
    usize::try_from(limit).ok().filter(|limit| *limit > 0)
}

fn matcher(asked: &LabelMatcher) -> Result<UncompiledMatcher, String> {
    let unknown = || format!("matcher of label {:?}: there is no type {}", asked.name, asked.r#type);
    let op = op_of_number(asked.r#type).ok_or_else(unknown)?;
    Ok(UncompiledMatcher { name: asked.name.as_str().into(), op, value: asked.value.as_str().into() })
}

#[cfg(test)]
mod tests {
    use silverback_model::MatchOp;

    use super::*;

    #[test]
    fn matchers_of_all_types_are_read_and_no_other() {
        let op = |kind| {
            matcher(&LabelMatcher { r#type: kind, name: "a".into(), value: "b".into() })
                .map(|matcher| matcher.op)
        };
        use MatchOp::{Equal, NotEqual, NotRegex, Regex};
        assert_eq!(
            (0..4).map(|kind| op(kind).unwrap()).collect::<Vec<_>>(),
            [Equal, NotEqual, Regex, NotRegex]
        );
        assert!(op(4).unwrap_err().contains("no type 4"));
    }

    #[test]
    fn names_are_sorted_and_bounded() {
        let list = |count: usize| (0..count).map(|i| format!("{:03}", i % 300)).rev().collect::<Vec<_>>();
        assert_eq!(names(list(3), "x").unwrap(), ["000".into(), "001".into(), Box::<str>::from("002")]);
        assert!(names(list(257), "without").unwrap_err().to_string().contains("without has 257 labels"));
    }

    #[test]
    fn no_limit_is_all() {
        assert_eq!([-1, 0, 1, i64::MAX].map(limit), [None, None, Some(1), Some(i64::MAX as usize)]);
    }
}
