//! How much a selector may match. What its text means is [`silverback_model::selector`]'s.

use silverback_model::Matcher;
pub(crate) use silverback_model::selector::{ParsedMatcher, SelectorError, parse_selector};

/// Whether a selector may match every series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// One matcher at least must refuse the empty value, as Prometheus wants it for `match[]`.
    Narrowed,
    /// Any selector will do.
    Any,
}

impl Breadth {
    /// Refuses matchers that may match too much.
    pub(crate) fn check(self, matchers: &[Matcher]) -> Result<(), &'static str> {
        match self {
            Self::Narrowed if matchers.iter().all(Matcher::matches_empty) => {
                Err("at least one matcher must not match the empty value")
            }
            Self::Narrowed | Self::Any => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
