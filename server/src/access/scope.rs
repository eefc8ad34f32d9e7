//! What a caller may do, in four words. Which endpoint needs which is the endpoints' to say.

use std::fmt;

/// One thing that a user or a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Send samples.
    Write,
    /// Ask for samples, series, labels, and the node's status.
    Read,
    /// Look at the admin service, move cells, delete series.
    Admin,
    /// Scrape the node's own metrics.
    Metrics,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Write, Self::Read, Self::Admin, Self::Metrics];

    /// Its word in the access file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }

    /// The scope of a word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Some of them: what a caller has, or what an endpoint takes one of.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// All of them: what a user has whom nothing limits; of an endpoint, that any credentials will do.
    pub const ALL: Self = Self::of(&Scope::ALL);

    /// These.
    pub const fn of(scopes: &[Scope]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < scopes.len() {
            bits |= scopes[at].bit();
            at += 1;
        }
        Self(bits)
    }

    /// Whether one of `needed` is among them.
    pub const fn has_one_of(self, needed: Self) -> bool {
        self.0 & needed.0 != 0
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Scope::ALL.into_iter().filter(|scope| self.0 & scope.bit() != 0).map(Scope::as_str);
        f.write_str(&words.collect::<Vec<_>>().join(" or "))
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_common_scope_is_enough_and_none_is_not() {
        let write = Scopes::of(&[Scope::Write]);
        let read_or_write = Scopes::of(&[Scope::Write, Scope::Read]);
        assert!(write.has_one_of(read_or_write) && Scopes::ALL.has_one_of(write));
        assert!(!write.has_one_of(Scopes::of(&[Scope::Admin])) && !Scopes::default().has_one_of(Scopes::ALL));
        assert_eq!(read_or_write.to_string(), "write or read");
    }

    #[test]
    fn each_word_is_its_scope_s() {
        for scope in Scope::ALL {
            assert_eq!(Scope::of_word(scope.as_str()), Some(scope));
        }
        assert_eq!(Scope::of_word("Write"), None);
    }
}
