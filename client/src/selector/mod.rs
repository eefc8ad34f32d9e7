//! PromQL's series selectors: `up{job="x", le=~"a|b"}`, `{__name__=~"node_.+"}`,
//! `{"my.name", "a label"="b"}`.
//!
//! Knows nothing else of PromQL: no range, no offset, no expression.

use std::ops::Deref;
use std::str::FromStr;

pub use silverback_model::selector::SelectorError;

use silverback_model::selector::{UncompiledMatcher, parse_selector};

use crate::matcher::Matcher;

/// The matchers of a series selector, read from its text, in the order in which they are there.
///
/// ```
/// use silverback_client::{Matcher, Selector};
///
/// let selector: Selector = r#"up{job="a", instance!~"10[.].*"}"#.parse()?;
/// assert_eq!(
///     *selector,
///     [
///         Matcher::equal("__name__", "up"),
///         Matcher::equal("job", "a"),
///         Matcher::not_regex("instance", "10[.].*"),
///     ]
/// );
/// # Ok::<(), silverback_client::SelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Matcher>);

impl Deref for Selector {
    type Target = [Matcher];

    fn deref(&self) -> &[Matcher] {
        &self.0
    }
}

impl From<Selector> for Vec<Matcher> {
    fn from(selector: Selector) -> Self {
        selector.0
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let matchers = parse_selector(text, usize::MAX)?.into_iter().map(|parsed| {
            let UncompiledMatcher { name, op, value } = parsed.matcher;
            Matcher { kind: op, name: name.into(), value: value.into() }
        });
        Ok(Self(matchers.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[Matcher]) {
        let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(&*selector, expect, "{text}");
    }

    fn check_fault(text: &str, position: usize, problem: &str) {
        let error = text.parse::<Selector>().expect_err(text);
        assert_eq!((error.position, error.problem.as_str()), (position, problem), "{text}");
    }

    fn named(name: &str) -> Matcher {
        Matcher::equal("__name__", name)
    }

    #[test]
    fn a_selector_is_read_as_promql_reads_it() {
        check("up", &[named("up")]);
        check(" node:up:sum ", &[named("node:up:sum")]);
        check("up{}", &[named("up")]);
        check("{}", &[]);
        check(r#"{job="a",x=~"b.*"}"#, &[Matcher::equal("job", "a"), Matcher::regex("x", "b.*")]);
        check(
            "up { a != 'b' , c !~ `d\\.` , }",
            &[named("up"), Matcher::not_equal("a", "b"), Matcher::not_regex("c", "d\\.")],
        );
        check(r#"{"my.name", "a label"="b"}"#, &[named("my.name"), Matcher::equal("a label", "b")]);
        check(r#"{__name__=~"node_.+"}"#, &[Matcher::regex("__name__", "node_.+")]);
    }

    #[test]
    fn what_is_no_selector_is_told_with_its_place() {
        check_fault("", 1, "expected a metric name or {, found the end");
        check_fault(r#"up{__name__="x"}"#, 4, "the metric name is before the braces already");
    }

    #[test]
    fn a_selector_is_the_text_of_its_matchers() {
        let text = r#"{__name__="up",a!="q\"\\\n",b=~"c",d!~"e"}"#;
        let selector: Selector = text.parse().unwrap();
        let matchers: Vec<_> = selector.iter().map(Matcher::to_string).collect();
        assert_eq!(format!("{{{}}}", matchers.join(",")), text);
    }
}
