//! RE2 expressions, as the matchers of all of these protocols have them: an expression must match all
//! of a text, and its `.` matches newlines too.
//!
//! What an expression may cost is bounded here: its repetitions as in RE2, its compiled form in bytes,
//! and a search can be left and taken up again at any byte. Whose turn it is meanwhile, and who pays
//! for the memory, is the caller's affair.

mod automaton;
mod literals;
mod translate;

use std::collections::HashSet;
use std::sync::Arc;

use automaton::Automaton;
pub use automaton::{Search, SearchMemory};

use crate::printable::Quoted;

/// What a lone expression may take when compiled, in bytes.
pub(crate) const COMPILED_BYTES_MAX: usize = 512 << 10;

/// What a class takes of the bound though its compiled form may be smaller, where making it is
/// expensive: one of Unicode's, or any class that ignores case.
const WIDE_CLASS_BYTES: usize = 4 << 10;

/// An expression that is compiled within some 100 µs is no longer than this, in bytes.
const QUICK_BYTES_MAX: usize = 256;

/// An RE2 expression that must match all of a text. A clone shares its compiled form.
#[derive(Debug, Clone)]
pub struct Expression {
    form: Form,
    compiled_bytes: usize,
    matches_empty: bool,
}

#[derive(Debug, Clone)]
enum Form {
    /// One of these texts.
    Literals(Arc<HashSet<Box<str>>>),
    /// Anything else.
    Automaton(Arc<Automaton>),
}

/// Why a text isn't an expression that is matched here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expression {}: {problem}", Quoted(expression))]
pub struct ExpressionError {
    expression: String,
    problem: ExpressionErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum ExpressionErrorKind {
    #[error("{0}")]
    Syntax(String),
    #[error("compiled it exceeds the size of {bytes_max} bytes that is left for a request's expressions")]
    TooLarge { bytes_max: usize },
}

impl Expression {
    /// Compiles an expression that may take [`COMPILED_BYTES_MAX`].
    pub fn new(expression: &str) -> Result<Self, ExpressionError> {
        Self::within(expression, COMPILED_BYTES_MAX)
    }

    /// Compiles an expression that may take so many bytes.
    pub(crate) fn within(expression: &str, bytes_max: usize) -> Result<Self, ExpressionError> {
        Self::compile(expression, bytes_max)
            .map_err(|problem| ExpressionError { expression: shortened(expression), problem })
    }

    fn compile(expression: &str, bytes_max: usize) -> Result<Self, ExpressionErrorKind> {
        if let Some(literals) = literals::of(expression) {
            let matches_empty = literals.contains("");
            return Ok(Self { form: Form::Literals(Arc::new(literals)), compiled_bytes: 0, matches_empty });
        }
        let translation = translate::translate(expression)
            .map_err(|words| ExpressionErrorKind::Syntax(words.to_owned()))?;
        let wide_bytes = translation.wide_classes * WIDE_CLASS_BYTES;
        if wide_bytes > bytes_max {
            return Err(ExpressionErrorKind::TooLarge { bytes_max });
        }
        let automaton = Automaton::compile(&translation.text, bytes_max)?;
        let compiled_bytes = automaton.compiled_bytes().max(wide_bytes);
        // The library looks at what it has while it compiles, which is less than what it makes of it.
        if compiled_bytes > bytes_max {
            return Err(ExpressionErrorKind::TooLarge { bytes_max });
        }
        let matches_empty = automaton.is_match("");
        Ok(Self { form: Form::Automaton(Arc::new(automaton)), compiled_bytes, matches_empty })
    }

    /// Whether compiling it is sure to take no longer than some 100 µs: it is short, and has nothing in it
    /// that grows when it is compiled.
    pub(crate) fn is_quick_to_compile(expression: &str) -> bool {
        let has_flags = || expression.split("(?").skip(1).any(|group| !group.starts_with(':'));
        expression.len() <= QUICK_BYTES_MAX
            && !["{", "\\p", "\\P"].iter().any(|growing| expression.contains(growing))
            && !has_flags()
    }

    /// What it takes of the bound on compiled expressions.
    pub(crate) fn compiled_bytes(&self) -> usize {
        self.compiled_bytes
    }

    /// Whether it matches the empty text.
    pub(crate) fn matches_empty(&self) -> bool {
        self.matches_empty
    }

    /// The texts that it matches, where it does nothing else than name these.
    pub(crate) fn literals(&self) -> Option<&HashSet<Box<str>>> {
        match &self.form {
            Form::Literals(literals) => Some(literals),
            Form::Automaton(_) => None,
        }
    }

    /// Whether it matches all of a text.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.form {
            Form::Literals(literals) => literals.contains(text),
            Form::Automaton(automaton) => automaton.is_match(text),
        }
    }

    /// What searches in many texts keep between them takes so many bytes at most.
    pub(crate) fn search_bytes(&self) -> usize {
        match &self.form {
            Form::Literals(_) => 0,
            Form::Automaton(automaton) => automaton.search_bytes(),
        }
    }

    /// What searches in many texts keep between them.
    pub(crate) fn search_memory(&self) -> SearchMemory {
        match &self.form {
            Form::Literals(_) => SearchMemory::none(),
            Form::Automaton(automaton) => automaton.search_memory(),
        }
    }

    /// Searches on in a text until it is known whether all of it matches, or `is_out_of_time` says to
    /// stop, which is asked at the latest after some 100 µs. `None`: not known yet; the same search
    /// goes on in the same text.
    ///
    /// `memory` must be of this expression.
    pub(crate) fn search(
        &self,
        memory: &mut SearchMemory,
        search: &mut Search,
        text: &str,
        is_out_of_time: impl FnMut() -> bool,
    ) -> Option<bool> {
        match &self.form {
            Form::Literals(literals) => Some(literals.contains(text)),
            Form::Automaton(automaton) => automaton.search(memory, search, text.as_bytes(), is_out_of_time),
        }
    }
}

/// An expression in the syntax of Rust's `regex`, its groups capturing by number and by name; words for what can't
/// be expressed there. What it costs is the caller's affair.
pub fn capturing(expression: &str) -> Result<String, String> {
    let translated = translate::translate_groups(expression, translate::GroupMode::Capturing);
    translated.map(|translated| translated.text).map_err(str::to_owned)
}

/// Of an expression's text, so much is repeated in an error.
const SHOWN_BYTES_MAX: usize = 200;

fn shortened(expression: &str) -> String {
    match expression.len() > SHOWN_BYTES_MAX {
        true => format!("{}…", &expression[..expression.floor_char_boundary(SHOWN_BYTES_MAX)]),
        false => expression.to_owned(),
    }
}

#[cfg(test)]
mod tests;
