//! A regular expression with groups, and a template in which their texts are put.

use regex::{Captures, Regex, RegexBuilder};

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
    pub(crate) fn replaced(&self, text: &str) -> Option<String> {
        let captures: Captures<'_> = self.expression.captures(text)?;
        let mut out = String::new();
        captures.expand(&self.template, &mut out);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_put_by_number_and_by_name() {
        let check = |expression, template, text, expect: Option<&str>| {
            let replacement = Replacement::new(expression, template).expect("an expression");
            assert_eq!(replacement.replaced(text).as_deref(), expect);
        };
        check("(.*):(.*)", "$2-${1}x", "a:b", Some("b-ax"));
        check("(?P<host>.*):.*", "$host", "a:b", Some("a"));
        check("a", "b", "aa", None);
        check("(.*)", "$2$$", "x", Some("$"));
        check(".*", "n", "two\nlines", Some("n"));
        assert!(Replacement::new("(", "").is_err());
    }
}
