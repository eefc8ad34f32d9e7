//! Ratios beside the contender that were kept, and whether today's fall below them. It knows figures, no runs.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::measurements::{Measurements, Ratio};
use super::side::Side;
use super::writes::figure;

/// What a ratio may fall by, besides what rounds differ by.
pub const TOLERANCE: f64 = 0.1;

/// Ratios by the load's name.
pub type Kept = BTreeMap<String, KeptRatio>;

/// A ratio as it was measured once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptRatio {
    /// The median of the rounds.
    pub median: f64,
    /// The least of them.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// As many.
    pub rounds: usize,
    /// Of which code.
    pub commit: String,
}

/// A load's ratio today beside the one that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Which load.
    pub load: &'static str,
    /// The node's samples for each CPU second over the contender's.
    pub ratio: Ratio,
    kept: Option<f64>,
}

impl Judged {
    /// Of what was measured.
    pub fn of(load: &'static str, all: &Measurements, kept: &Kept) -> Self {
        let ratios = all.ratios(figure::PER_CPU_S, (load, Side::Node), (load, Side::Contender));
        Self { load, ratio: Ratio::of(&ratios), kept: kept.get(load).map(|kept| kept.median) }
    }

    /// Whether there is a ratio: no run of it has failed on each round.
    pub fn is_measured(&self) -> bool {
        self.ratio.rounds > 0
    }

    /// Whether it is less than was kept, by more than the tolerance and the rounds' spread. One that couldn't be
    /// measured is; one that nothing was kept of isn't.
    pub fn has_fallen(&self) -> bool {
        !self.is_measured() || self.kept.is_some_and(|kept| self.ratio.is_below(kept, TOLERANCE))
    }

    /// To be kept.
    pub fn to_keep(&self, commit: &str) -> (String, KeptRatio) {
        let shown = |value: f64| (value * 1e3).round() / 1e3;
        let (spread, rounds) = (self.ratio.spread, self.ratio.rounds);
        let [median, min, max] = [spread.median, spread.min, spread.max].map(shown);
        (self.load.to_owned(), KeptRatio { median, min, max, rounds, commit: commit.to_owned() })
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ratio { spread, rounds, .. } = self.ratio;
        write!(
            f,
            "{}: {:.3} ({:.3} to {:.3}, {rounds} rounds)",
            self.load, spread.median, spread.min, spread.max
        )?;
        match self.kept {
            None => write!(f, ", nothing kept to compare with"),
            Some(kept) if self.has_fallen() => write!(f, ", FALLEN from {kept:.3}"),
            Some(kept) => write!(f, ", {kept:.3} was kept"),
        }
    }
}

/// Reads what was kept; where there is no file, nothing was.
pub fn read(path: &Path) -> io::Result<Kept> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Kept::new()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Keeps ratios.
pub fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let json = serde_json::to_string_pretty(kept)?;
    fs::write(path, json + "\n")
}

#[cfg(test)]
mod tests {
    use silverback_test_support::Scratch;

    use super::*;
    use crate::founding::meter::Figures;

    fn measured(ratios: &[f64]) -> Measurements {
        let mut all = Measurements::default();
        for (round, ratio) in ratios.iter().enumerate() {
            for (side, value) in [(Side::Node, *ratio), (Side::Contender, 1.0)] {
                all.add(round, "steady-1", side, Figures::from([(figure::PER_CPU_S.to_owned(), value)]));
            }
        }
        all
    }

    fn judged(ratios: &[f64], kept: &[f64]) -> Judged {
        let kept =
            kept.iter().map(|kept| Judged::of("steady-1", &measured(&[*kept]), &Kept::new()).to_keep("abc"));
        Judged::of("steady-1", &measured(ratios), &kept.collect())
    }

    #[test]
    fn a_fall_by_a_tenth_fails_and_less_does_not() {
        assert!(!judged(&[1.2, 1.19, 1.21], &[1.25]).has_fallen());
        assert!(judged(&[1.1, 1.11, 1.1], &[1.25]).has_fallen());
    }

    #[test]
    fn nothing_kept_is_no_fall_and_nothing_measured_is() {
        assert!(!judged(&[0.1], &[]).has_fallen());
        assert!(judged(&[], &[]).has_fallen());
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let scratch = Scratch::new();
        let path = scratch.path().join("ratios.json");
        assert!(read(&path).expect("nothing is there").is_empty());
        let kept = Kept::from([judged(&[1.23456, 1.3, 1.2], &[]).to_keep("abc")]);
        write(&path, &kept).expect("a file");
        assert_eq!(read(&path).expect("the file"), kept);
        assert_eq!(kept["steady-1"].median, 1.235);
        fs::write(&path, "alas").expect("a file");
        assert!(read(&path).expect_err("no JSON").to_string().contains("ratios.json"));
    }
}
