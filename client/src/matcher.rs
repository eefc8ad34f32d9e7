//! Matchers: what a label of a series must be. Whether a regular expression is one, the node says.

/// How a label's value is compared.
pub use silverback_model::selector::MatchOp as MatcherKind;

use silverback_model::printable::{LabelName, Quoted};
use silverback_proto::v1;

/// What one label must be. A series without the label has the empty value.
///
/// ```
/// use silverback_client::Matcher;
///
/// let matchers = [Matcher::equal("__name__", "up"), Matcher::not_regex("job", "test-.*")];
/// assert_eq!(matchers[1].to_string(), r#"job!~"test-.*""#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matcher {
    /// How the value is compared.
    pub kind: MatcherKind,
    /// The label's name; `__name__` is the metric's.
    pub name: String,
    /// A text, or an RE2 regular expression that must match all of the label's value.
    pub value: String,
}

impl Matcher {
    /// The label has this value.
    pub fn equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind: MatcherKind::Equal, name: name.into(), value: value.into() }
    }

    /// The label has any other value.
    pub fn not_equal(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { kind: MatcherKind::NotEqual, name: name.into(), value: value.into() }
    }

    /// The regular expression matches all of the value.
    pub fn regex(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { kind: MatcherKind::Regex, name: name.into(), value: pattern.into() }
    }

    /// The regular expression doesn't match all of the value.
    pub fn not_regex(name: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { kind: MatcherKind::NotRegex, name: name.into(), value: pattern.into() }
    }

    pub(crate) fn to_message(&self) -> v1::Matcher {
        let kind = match self.kind {
            MatcherKind::Equal => v1::MatcherKind::Equal,
            MatcherKind::NotEqual => v1::MatcherKind::NotEqual,
            MatcherKind::Regex => v1::MatcherKind::Regex,
            MatcherKind::NotRegex => v1::MatcherKind::NotRegex,
        };
        v1::Matcher { kind: kind.into(), name: self.name.clone(), value: self.value.clone() }
    }
}

/// As PromQL writes it.
impl std::fmt::Display for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}", LabelName(&self.name), self.kind.operator(), Quoted(&self.value))
    }
}
