//! Bounds, and whether they hold.

use std::fmt;

/// What must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    kind: Kind,
    holds: bool,
    text: String,
}

/// What a bound is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Figures: they mean something at full length only.
    Speed,
    /// What must hold however short a run is.
    Soundness,
}

impl Bound {
    /// One that holds or doesn't, in words.
    pub fn new(kind: Kind, holds: bool, text: String) -> Self {
        Self { kind, holds, text }
    }

    /// Whether it holds, or is of no concern to who cares for soundness alone.
    pub fn is_kept(&self, care: Kind) -> bool {
        self.holds || (care == Kind::Soundness && self.kind == Kind::Speed)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", if self.holds { "holds" } else { "MISSED" }, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_judged_by_its_soundness_alone() {
        let check = |kind, holds, care| Bound::new(kind, holds, String::new()).is_kept(care);
        assert!(check(Kind::Speed, false, Kind::Soundness));
        assert!(!check(Kind::Speed, false, Kind::Speed));
        assert!(!check(Kind::Soundness, false, Kind::Soundness));
        assert!(check(Kind::Soundness, true, Kind::Speed));
    }
}
