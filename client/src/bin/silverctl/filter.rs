//! Which series and which samples a command takes of what it reads from files: what a node does with
//! matchers, done here.

use std::ops::RangeInclusive;

use silverback_client::{Matcher, MatcherKind, Selector};
use silverback_model::re2::Expression;

use crate::error::{Context, Done};

/// Matchers and a range of times.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    tests: Vec<(String, Test)>,
    range_ms: RangeInclusive<i64>,
}

#[derive(Debug, Clone)]
enum Test {
    Equal(String),
    NotEqual(String),
    Regex(Expression),
    NotRegex(Expression),
}

impl Filter {
    /// Of a selector; every series where there is none.
    pub(crate) fn new(selector: Option<&Selector>, range_ms: RangeInclusive<i64>) -> Done<Self> {
        let matchers = selector.map_or(&[][..], |selector| selector);
        let test = |matcher: &Matcher| Ok((matcher.name.clone(), Test::of(matcher)?));
        Ok(Self { tests: matchers.iter().map(test).collect::<Done<_>>()?, range_ms })
    }

    /// Whether a series is taken, by its labels' values; a label that it doesn't have is empty.
    pub(crate) fn takes_series<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.tests.iter().all(|(name, test)| test.holds(value_of(name)))
    }

    /// Whether a sample of that time is taken.
    pub(crate) fn takes_time(&self, at_ms: i64) -> bool {
        self.range_ms.contains(&at_ms)
    }

    /// Whether any sample between two times may be taken.
    pub(crate) fn touches(&self, min_ms: i64, max_ms: i64) -> bool {
        min_ms <= *self.range_ms.end() && *self.range_ms.start() <= max_ms
    }
}

impl Test {
    fn of(matcher: &Matcher) -> Done<Self> {
        let value = matcher.value.clone();
        let expression = || {
            let expression = Expression::new(&matcher.value);
            expression.context(|| format!("{matcher} isn't a regular expression"))
        };
        Ok(match matcher.kind {
            MatcherKind::Equal => Self::Equal(value),
            MatcherKind::NotEqual => Self::NotEqual(value),
            MatcherKind::Regex => Self::Regex(expression()?),
            MatcherKind::NotRegex => Self::NotRegex(expression()?),
        })
    }

    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Equal(expect) => value == expect,
            Self::NotEqual(expect) => value != expect,
            Self::Regex(expression) => expression.is_match(value),
            Self::NotRegex(expression) => !expression.is_match(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(selector: &str, expect: bool) {
        let selector: Selector = selector.parse().unwrap();
        let filter = Filter::new(Some(&selector), 0..=10).unwrap();
        let value_of = |name: &str| match name {
            "__name__" => "up",
            "job" => "node",
            _other => "",
        };
        assert_eq!(filter.takes_series(value_of), expect, "{selector:?}");
    }

    #[test]
    fn a_series_is_taken_if_every_matcher_holds() {
        check("up", true);
        check("down", false);
        check(r#"{job="node", instance=""}"#, true);
        check(r#"{job!="node"}"#, false);
        check(r#"{job=~"n.*|x"}"#, true);
        check(r#"{job=~"nod"}"#, false);
        check(r#"{job!~"{id}"}"#, true);
        check(r#"{job!~"nod"}"#, true);
        check(r#"up{job!~"no.e"}"#, false);
    }

    #[test]
    fn both_ends_of_the_range_are_in_it() {
        let filter = Filter::new(None, 5..=10).unwrap();
        assert!(filter.takes_time(5) && filter.takes_time(10));
        assert!(!filter.takes_time(4) && !filter.takes_time(11));
        assert!(filter.touches(0, 5) && filter.touches(10, 20) && !filter.touches(0, 4));
    }

    #[test]
    fn what_is_no_regular_expression_is_told() {
        for selector in [r#"{job=~"("}"#, r#"{job=~"a)|(b"}"#] {
            let selector: Selector = selector.parse().unwrap();
            assert!(Filter::new(Some(&selector), 0..=1).is_err());
        }
    }
}
