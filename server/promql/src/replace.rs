//! A regular expression with groups, and a template in which their texts are put.

use regex::{Regex, RegexBuilder};

/// What a text may come to, in bytes: eight times what a label value that is written may have. Texts that are put into
/// each other double each time.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;

/// The text would be longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextLengthError;

/// What the compiled expression may take, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Both.
pub(crate) struct Replacement {
    expression: Regex,
    template: String,
}

impl Replacement {
    /// Of an RE2 expression that has to match all of a text, and a template with `$1`, `${1}` and `$name`.
    pub(crate) fn new(expression: &str, template: &str) -> Result<Self, String> {
        let translated = silverback_model::re2::capturing(expression)?;
        let expression = RegexBuilder::new(&format!("^(?s:{translated})$"))
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { expression, template: template.to_owned() })
    }

    /// The template with the groups' texts; `None`: the text doesn't match.
    pub(crate) fn replaced(&self, text: &str) -> Result<Option<String>, TextLengthError> {
        let Some(captures) = self.expression.captures(text) else { return Ok(None) };
        let longest = captures.iter().flatten().map(|group| group.len()).max().unwrap_or(0);
        let groups = self.template.matches('$').count();
        // Before it is made: groups that are named thousands of times are never put together.
        if self.template.len().saturating_add(groups.saturating_mul(longest)) > 16 * TEXT_BYTES_MAX {
            return Err(TextLengthError);
        }
        let mut out = String::new();
        captures.expand(&self.template, &mut out);
        if out.len() > TEXT_BYTES_MAX { Err(TextLengthError) } else { Ok(Some(out)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_put_by_number_and_by_name() {
        let check = |expression, template, text, expect: Option<&str>| {
            let replacement = Replacement::new(expression, template).expect("an expression");
            assert_eq!(replacement.replaced(text).unwrap().as_deref(), expect);
        };
        check("(.*):(.*)", "$2-${1}x", "a:b", Some("b-ax"));
        check("(?P<host>.*):.*", "$host", "a:b", Some("a"));
        check("a", "b", "aa", None);
        check("(.*)", "$2$$", "x", Some("$"));
        check(".*", "n", "two\nlines", Some("n"));
        assert!(Replacement::new("(", "").is_err());
    }

    #[test]
    fn a_text_has_a_bound_and_what_is_far_beyond_it_is_not_made() {
        let replaced = |groups: usize, length: usize| {
            let replacement = Replacement::new("(.*)", &"$1".repeat(groups)).expect("an expression");
            replacement.replaced(&"x".repeat(length)).map(|text| text.map(|text| text.len()))
        };
        assert_eq!(replaced(2, TEXT_BYTES_MAX / 2), Ok(Some(TEXT_BYTES_MAX)));
        assert_eq!(replaced(2, TEXT_BYTES_MAX / 2 + 1), Err(TextLengthError));
        assert_eq!(replaced(40_000, TEXT_BYTES_MAX), Err(TextLengthError));
    }
}
