//! What can be wrong with a configuration, told so that it can be put right.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}\n      {}", problem.wrong, problem.allowed)]
pub struct Fault {
    /// Where it stands: the option and its origin.
    pub place: String,
    /// What is wrong, and what is allowed instead.
    pub problem: Problem,
}

/// What is wrong with a value, wherever it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub wrong: String,
    /// What is allowed.
    pub allowed: String,
}

impl Problem {
    pub(super) fn new(wrong: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { wrong: wrong.into(), allowed: allowed.into() }
    }
}

/// All that is wrong, at least one fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultList(pub Vec<Fault>);

impl fmt::Display for FaultList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("the configuration has 1 fault:")?,
            faults => write!(f, "the configuration has {faults} faults:")?,
        }
        for (i, fault) in self.0.iter().enumerate() {
            write!(f, "\n  {}. {fault}", i + 1)?;
        }
        Ok(())
    }
}

impl std::error::Error for FaultList {}
