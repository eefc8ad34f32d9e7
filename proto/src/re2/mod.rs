//! RE2 expressions, as the matchers of all of these protocols have them: an expression must match all
//! of a text, and its `.` matches newlines too. They are told in Rust's syntax to the `regex` crate,
//! or, where they only name texts, are looked up.

mod literals;
mod translate;

use std::collections::HashSet;
use std::ops::RangeInclusive;

use regex::bytes::{Regex, RegexBuilder};

/// An expression when compiled, in bytes, however long it is; and what a long one may take at most.
/// That is also a bound on the time of compiling.
const COMPILED_BYTES: RangeInclusive<usize> = 1 << 20..=16 << 20;
/// What each of its own bytes adds: of the expressions in a request, all together take little more
/// than so many times the request.
const COMPILED_BYTES_PER_BYTE: usize = 64;

/// An RE2 expression that must match all of a text.
#[derive(Debug, Clone)]
pub struct Expression(Form);

#[derive(Debug, Clone)]
enum Form {
    /// One of these texts.
    Literals(HashSet<Box<str>>),
    /// In Rust's syntax. (On bytes, for an ASCII `\B`; all else in it is of whole characters.)
    Regex(Regex),
}

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError(String);

impl Expression {
    /// Compiles an expression.
    pub fn new(expression: &str) -> Result<Self, ExpressionError> {
        if let Some(literals) = literals::of(expression) {
            return Ok(Self(Form::Literals(literals)));
        }
        let wrong = |words: String| ExpressionError(format!("expression {expression:?}: {words}"));
        let translated = translate::translate(expression).map_err(|words| wrong(words.to_owned()))?;
        RegexBuilder::new(&format!("^(?s:{translated})$"))
            .size_limit(compiled_bytes_max(expression))
            .build()
            .map(|regex| Self(Form::Regex(regex)))
            .map_err(|error| wrong(error.to_string()))
    }

    /// Whether it matches all of a text.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.0 {
            Form::Literals(literals) => literals.contains(text),
            Form::Regex(regex) => regex.is_match(text.as_bytes()),
        }
    }
}

fn compiled_bytes_max(expression: &str) -> usize {
    (COMPILED_BYTES.start() + expression.len() * COMPILED_BYTES_PER_BYTE).min(*COMPILED_BYTES.end())
}

impl std::error::Error for ExpressionError {}

impl std::fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
