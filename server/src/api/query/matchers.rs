//! Compiles the matchers of one read: within bounds for all of them together, and without holding the
//! core. Where they came from, and what they select, is the caller's.

use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use silverback_model::limits::EXPRESSION_BYTES_MAX;
use silverback_model::{MatchOp, Matcher, UncompiledMatcher};

/// A matcher's type by the number that it has in remote read and in Thanos' protocol; `None`: there is no such type.
pub(crate) fn op_of_number(number: i32) -> Option<MatchOp> {
    match number {
        0 => Some(MatchOp::Equal),
        1 => Some(MatchOp::NotEqual),
        2 => Some(MatchOp::Regex),
        3 => Some(MatchOp::NotRegex),
        _unknown => None,
    }
}

/// Compiles one request's matchers.
pub(crate) struct MatcherCompiler<'a> {
    reader: &'a Reader,
    bytes_left: usize,
}

/// Why a matcher wasn't compiled.
#[derive(Debug)]
pub(crate) enum MatcherError {
    /// It isn't one, or is too large beside the request's others: why, in words.
    Invalid(String),
    /// It has nothing to do with the matcher.
    Failed(ReadRejected),
}

impl From<MatcherError> for ReadRejected {
    fn from(error: MatcherError) -> Self {
        match error {
            MatcherError::Invalid(words) => Self::BadRequest(words),
            MatcherError::Failed(fault) => fault,
        }
    }
}

impl<'a> MatcherCompiler<'a> {
    /// For a request's matchers.
    pub(crate) fn new(reader: &'a Reader) -> Self {
        Self { reader, bytes_left: EXPRESSION_BYTES_MAX }
    }

    /// Compiles one. What may take long is done beside the executors.
    pub(crate) async fn compile(&mut self, matcher: UncompiledMatcher) -> Result<Matcher, MatcherError> {
        let bytes_max = self.bytes_left;
        let compiled = match matcher.is_quick_to_compile() {
            true => {
                let _slice = self.reader.slicer.begin().await;
                matcher.compile_within(bytes_max)
            }
            false => {
                let compile = move || matcher.compile_within(bytes_max);
                let compiled = self.reader.compiler.run(compile).await;
                compiled.map_err(|error| MatcherError::Failed(error.into()))?
            }
        };
        let compiled = compiled.map_err(MatcherError::Invalid)?;
        self.bytes_left -= compiled.compiled_bytes();
        Ok(compiled)
    }
}
