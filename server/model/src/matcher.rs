//! Label matchers: `=`, `!=`, `=~`, `!~` as Prometheus means them.

use crate::re2::{COMPILED_BYTES_MAX, Expression, Search, SearchMemory};
use crate::selector::{MatchOp, UncompiledMatcher};

/// One matcher. A label that a series doesn't have counts as the empty value.
#[derive(Debug, Clone)]
pub struct Matcher {
    /// The label's name.
    pub name: Box<str>,
    /// How the value is compared.
    pub op: MatchOp,
    /// The value or the expression, as it came.
    pub value: Box<str>,
    expression: Option<Expression>,
}

impl UncompiledMatcher {
    /// Its expression, where it has one.
    pub(crate) fn expression(&self) -> Option<&str> {
        match self.op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(&self.value),
        }
    }

    /// Whether compiling it is sure to take no longer than some 100 µs.
    pub fn is_quick_to_compile(&self) -> bool {
        self.expression().is_none_or(Expression::is_quick_to_compile)
    }

    /// Compiles its expression, which may take so many bytes. What isn't one is reported in words.
    pub fn compile_within(self, bytes_max: usize) -> Result<Matcher, String> {
        let compile = |text| Expression::within(text, bytes_max).map_err(|error| format!("matcher {error}"));
        let expression = self.expression().map(compile).transpose()?;
        let Self { name, op, value } = self;
        Ok(Matcher { name, op, value, expression })
    }
}

impl Matcher {
    /// Compiles a lone matcher; an expression that isn't one is reported in words.
    pub fn new(name: &str, op: MatchOp, value: &str) -> Result<Self, String> {
        UncompiledMatcher { name: name.into(), op, value: value.into() }.compile_within(COMPILED_BYTES_MAX)
    }

    /// Whether a label with this value (empty: no such label) matches.
    pub(crate) fn matches(&self, value: &str) -> bool {
        self.decide(value, |expression| expression.is_match(value))
    }

    /// Whether a series without the label matches.
    pub fn matches_empty(&self) -> bool {
        self.decide("", Expression::matches_empty)
    }

    fn decide(&self, value: &str, is_match: impl FnOnce(&Expression) -> bool) -> bool {
        match (self.op, &self.expression) {
            (MatchOp::Equal, _) => value == &*self.value,
            (MatchOp::NotEqual, _) => value != &*self.value,
            (MatchOp::Regex, expression) => expression.as_ref().is_some_and(is_match),
            (MatchOp::NotRegex, expression) => !expression.as_ref().is_some_and(is_match),
        }
    }

    /// The one value that it wants, when it wants exactly one.
    pub fn exact_value(&self) -> Option<&str> {
        match self.op {
            MatchOp::Equal if !self.value.is_empty() => Some(&self.value),
            MatchOp::Equal | MatchOp::NotEqual | MatchOp::Regex | MatchOp::NotRegex => None,
        }
    }

    /// The values that it names, where it decides about these alone: it takes them and no other, or
    /// refuses them and no other. `None`: each value has to be looked at.
    pub fn deciding_values(&self) -> Option<impl Iterator<Item = &str>> {
        let takes_missing = self.matches_empty();
        let (one, many) = match (self.op, &self.expression) {
            (MatchOp::Equal, _) if !takes_missing => (Some(&*self.value), None),
            (MatchOp::NotEqual, _) if takes_missing => (Some(&*self.value), None),
            (MatchOp::Regex, Some(expression)) if !takes_missing => (None, Some(expression.literals()?)),
            (MatchOp::NotRegex, Some(expression)) if takes_missing => (None, Some(expression.literals()?)),
            (MatchOp::Equal | MatchOp::NotEqual | MatchOp::Regex | MatchOp::NotRegex, _) => return None,
        };
        Some(one.into_iter().chain(many.into_iter().flatten().map(|literal| &**literal)))
    }

    /// What its compiled expression takes, in bytes.
    pub fn compiled_bytes(&self) -> usize {
        self.expression.as_ref().map_or(0, Expression::compiled_bytes)
    }

    /// What [`Self::searching`] takes, in bytes.
    pub fn search_bytes(&self) -> usize {
        self.expression.as_ref().map_or(0, Expression::search_bytes)
    }

    /// Matches many values one after the other, each in as many steps as it takes.
    pub fn searching(&self) -> Searching<'_> {
        let memory = self.expression.as_ref().map(Expression::search_memory);
        Searching { matcher: self, memory, search: Search::default() }
    }
}

/// A matcher at work on values, with what it keeps between them.
#[derive(Debug)]
pub struct Searching<'a> {
    matcher: &'a Matcher,
    memory: Option<SearchMemory>,
    search: Search,
}

impl Searching<'_> {
    /// Whether a value matches; `None` where the time was over before that was known: asked again, with
    /// the same value, it goes on.
    pub fn matches(&mut self, value: &str, is_out_of_time: impl FnMut() -> bool) -> Option<bool> {
        let (Some(memory), Some(expression)) = (&mut self.memory, &self.matcher.expression) else {
            return Some(self.matcher.matches(value));
        };
        let found = expression.search(memory, &mut self.search, value, is_out_of_time)?;
        self.search = Search::default();
        Some(self.matcher.decide(value, |_| found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(op: MatchOp, pattern: &str, value: &str, expect: bool) {
        let matcher = Matcher::new("l", op, pattern).unwrap();
        assert_eq!(matcher.matches(value), expect, "{op:?} {pattern:?} on {value:?}");
    }

    #[test]
    fn expressions_are_anchored_at_both_ends() {
        check(MatchOp::Regex, "a|b", "ab", false);
        check(MatchOp::Regex, "a|b", "b", true);
        check(MatchOp::Regex, "a.*", "a\nb", true);
        check(MatchOp::Regex, "/users/{id}.*", "/users/{id}/a", true);
        check(MatchOp::NotRegex, "a.*", "a1", false);
        check(MatchOp::Regex, ".*", "", true);
        check(MatchOp::Equal, "", "", true);
        check(MatchOp::NotEqual, "x", "", true);
    }

    fn check_deciding(op: MatchOp, value: &str, expect: Option<&[&str]>) {
        let matcher = Matcher::new("l", op, value).unwrap();
        let found = matcher.deciding_values().map(|values| {
            let mut values: Vec<_> = values.collect();
            values.sort_unstable();
            values
        });
        assert_eq!(found.as_deref(), expect, "{op:?} {value:?}");
    }

    #[test]
    fn values_that_are_named_decide_alone_where_no_other_does() {
        check_deciding(MatchOp::NotEqual, "x", Some(&["x"]));
        check_deciding(MatchOp::NotEqual, "", None);
        check_deciding(MatchOp::Equal, "", None);
        check_deciding(MatchOp::Regex, "a|b", Some(&["a", "b"]));
        check_deciding(MatchOp::Regex, "a|", None);
        check_deciding(MatchOp::NotRegex, "a|b", Some(&["a", "b"]));
        check_deciding(MatchOp::NotRegex, "a|", None);
        check_deciding(MatchOp::Regex, "a.*", None);
    }

    #[test]
    fn values_that_are_searched_in_steps_match_as_those_that_are_searched_at_once() {
        let matcher = Matcher::new("l", MatchOp::NotRegex, "((a?b?){300}|c)*").unwrap();
        let mut searching = matcher.searching();
        for value in [&"ab".repeat(2000), "c", "", &"abx".repeat(1000), "x"] {
            let found = std::iter::repeat_with(|| searching.matches(value, || true)).flatten().next();
            assert_eq!(found, Some(matcher.matches(value)), "{value}");
        }
    }

    #[test]
    fn a_broken_expression_is_told() {
        assert!(Matcher::new("l", MatchOp::Regex, "a)|(b").is_err(), "as a whole it isn't one");
        assert!(Matcher::new("l", MatchOp::Regex, "(").unwrap_err().contains("\"(\""));
    }
}
