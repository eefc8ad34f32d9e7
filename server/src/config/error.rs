//! What can be wrong with a configuration, in words by which it can be put right.

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {}\n      {}", problem.wrong, problem.allowed)]
pub struct ConfigError {
    /// Where it is: the option and its origin.
    pub place: String,
    /// What is wrong, and what is allowed instead.
    pub problem: ValueError,
}

/// What is wrong with a value, wherever it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueError {
    /// What is wrong.
    pub wrong: String,
    /// What is allowed.
    pub allowed: String,
}

impl ValueError {
    pub(super) fn new(wrong: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { wrong: wrong.into(), allowed: allowed.into() }
    }
}

/// All that is wrong, at least one fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration has {} fault{}:{}", .0.len(), if .0.len() == 1 { "" } else { "s" }, told(.0))]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// The faults with their numbers, a line each.
fn told(faults: &[ConfigError]) -> String {
    let numbered = (1..).zip(faults);
    numbered.map(|(number, fault)| format!("\n  {number}. {fault}")).collect()
}
