//! Expressions that only name texts, such as `pod-1|pod-2`: what a dashboard sends for "all", by the
//! thousand. No regular expression is compiled of them.

use std::collections::HashSet;

/// What means something else than itself, at some place at least.
const SPECIAL: &str = "\\.+*?()[]{}^$";

/// The texts that an expression names, if it does nothing else. Parentheses around all of it may be.
pub(crate) fn of(expression: &str) -> Option<HashSet<Box<str>>> {
    let bare = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let mut chars = bare.map_or(expression, |bare| bare.strip_prefix("?:").unwrap_or(bare)).chars();
    let (mut literals, mut literal) = (HashSet::new(), String::new());
    while let Some(c) = chars.next() {
        match c {
            '|' => {
                literals.insert(std::mem::take(&mut literal).into());
            }
            '\\' => literal.push(chars.next().filter(char::is_ascii_punctuation)?),
            special if SPECIAL.contains(special) => return None,
            plain => literal.push(plain),
        }
    }
    literals.insert(literal.into());
    Some(literals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, expect: Option<&[&str]>) {
        let expect = expect.map(|literals| literals.iter().map(|&literal| literal.into()).collect());
        assert_eq!(of(expression), expect, "{expression:?}");
    }

    #[test]
    fn texts_are_named_side_by_side() {
        check("", Some(&[""]));
        check("a", Some(&["a"]));
        check("pod-1|pod-2|", Some(&["pod-1", "pod-2", ""]));
        check("(a|b)", Some(&["a", "b"]));
        check("(?:a|ä)", Some(&["a", "ä"]));
        check(r"10\.0\.0\.1:9100|a\|b|\)", Some(&["10.0.0.1:9100", "a|b", ")"]));
    }

    #[test]
    fn whatever_may_mean_more_is_left_to_the_regular_expression() {
        for more in ["a.", "a*", "(a)|(b)", "a)|(b", "[a]", "a{2}", "(?i)a", "^a", r"\d", r"a\", r"(a\)", "("]
        {
            check(more, None);
        }
    }
}
