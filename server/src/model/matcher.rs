//! Label matchers: `=`, `!=`, `=~`, `!~` as Prometheus means them.

use silverback_proto::re2::Expression;

/// The four kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

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

impl Matcher {
    /// Compiles a matcher; an expression that isn't one is told in words.
    pub fn new(name: &str, op: MatchOp, value: &str) -> Result<Self, String> {
        let expression = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => {
                Some(Expression::new(value).map_err(|error| format!("matcher {error}"))?)
            }
        };
        Ok(Self { name: name.into(), op, value: value.into(), expression })
    }

    /// Whether a label with this value (empty: no such label) matches.
    pub fn matches(&self, value: &str) -> bool {
        let expression_matches = || self.expression.as_ref().is_some_and(|e| e.is_match(value));
        match self.op {
            MatchOp::Equal => value == &*self.value,
            MatchOp::NotEqual => value != &*self.value,
            MatchOp::Regex => expression_matches(),
            MatchOp::NotRegex => !expression_matches(),
        }
    }

    /// Whether a series without the label matches.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
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

    #[test]
    fn a_broken_expression_is_told() {
        assert!(Matcher::new("l", MatchOp::Regex, "a)|(b").is_err(), "as a whole it isn't one");
        assert!(Matcher::new("l", MatchOp::Regex, "(").unwrap_err().contains("\"(\""));
    }
}
