//! Label matchers: `=`, `!=`, `=~`, `!~` as Prometheus means them.

use regex::Regex;

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
    regex: Option<Regex>,
}

impl Matcher {
    /// Compiles a matcher; an expression that isn't one is told in words.
    pub fn new(name: &str, op: MatchOp, value: &str) -> Result<Self, String> {
        let regex = match op {
            MatchOp::Equal | MatchOp::NotEqual => None,
            MatchOp::Regex | MatchOp::NotRegex => Some(anchored(value)?),
        };
        Ok(Self { name: name.into(), op, value: value.into(), regex })
    }

    /// Whether a label with this value (empty: no such label) matches.
    pub fn matches(&self, value: &str) -> bool {
        let regex_matches = || self.regex.as_ref().is_some_and(|r| r.is_match(value));
        match self.op {
            MatchOp::Equal => value == &*self.value,
            MatchOp::NotEqual => value != &*self.value,
            MatchOp::Regex => regex_matches(),
            MatchOp::NotRegex => !regex_matches(),
        }
    }

    /// Whether a series without the label matches.
    pub fn matches_empty(&self) -> bool {
        self.matches("")
    }
}

/// Fully anchored, `.` matching newlines too, with a bound on the compiled size.
fn anchored(expression: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(&format!("^(?s:{expression})$"))
        .size_limit(1 << 20)
        .build()
        .map_err(|error| format!("matcher expression {expression:?}: {error}"))
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
        check(MatchOp::NotRegex, "a.*", "a1", false);
        check(MatchOp::Regex, ".*", "", true);
        check(MatchOp::Equal, "", "", true);
        check(MatchOp::NotEqual, "x", "", true);
    }

    #[test]
    fn a_broken_expression_is_told() {
        assert!(Matcher::new("l", MatchOp::Regex, "(").unwrap_err().contains("\"(\""));
    }
}
