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

/// What a ratio may fall by, besides what rounds differ by, where nothing wider is written down for its load.
pub const ALLOWANCE: f64 = 0.1;
/// So many times is the short form run before its ratios are kept.
pub const KEPT_RUNS: usize = 3;

/// What is written down of each load, by its name.
pub type Kept = BTreeMap<String, KeptLoad>;

/// What is written down of a load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptLoad {
    /// By hand: what it may fall by where that is more than [`ALLOWANCE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<Allowance>,
    /// As it was measured, once for each kind of machine: they differ by more than the code does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ratios: Vec<KeptRatio>,
}

impl KeptLoad {
    /// Keeps a ratio, in the place of an older one of the same machine.
    pub fn keep(&mut self, ratio: KeptRatio) {
        self.ratios.retain(|other| other.machine != ratio.machine);
        self.ratios.push(ratio);
        self.ratios.sort_by(|a, b| a.machine.cmp(&b.machine));
    }

    /// The least on this kind of machine, or else of all; nothing where none has measured it yet.
    fn least(&self, machine: &str) -> Option<f64> {
        let own = self.ratios.iter().find(|ratio| ratio.machine == machine).map(|ratio| ratio.least);
        own.or_else(|| self.ratios.iter().map(|ratio| ratio.least).reduce(f64::min))
    }
}

/// A wider allowance for a load that is noisier than others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowance {
    /// The part of the kept ratio that it may fall by: above 0 and below 1.
    pub part: f64,
    /// Why it needs that.
    pub why: String,
}

/// A ratio as several runs of the short form measured it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptRatio {
    /// The processor's name.
    pub machine: String,
    /// The least of `runs`: what is below it by more than the allowance isn't chance.
    pub least: f64,
    /// The median of each run's rounds.
    pub runs: Vec<f64>,
    /// Rounds of a run.
    pub rounds: usize,
    /// Of which code.
    pub commit: String,
}

impl KeptRatio {
    /// Of a load in several runs; nothing where there are none, or it couldn't be measured in one of them.
    pub fn of(load: &str, runs: &[Vec<Judged>], machine: &str, commit: &str) -> Option<Self> {
        let of_run = |run: &Vec<Judged>| {
            run.iter().find(|judged| judged.load == load && judged.is_measured()).map(|judged| judged.ratio)
        };
        let ratios: Vec<Ratio> = runs.iter().map(of_run).collect::<Option<_>>()?;
        let shown = |ratio: &Ratio| (ratio.spread.median * 1e3).round() / 1e3;
        let runs: Vec<f64> = ratios.iter().map(shown).collect();
        let least = runs.iter().copied().reduce(f64::min)?;
        let rounds = ratios.iter().map(|ratio| ratio.rounds).min()?;
        Some(Self { machine: machine.to_owned(), least, runs, rounds, commit: commit.to_owned() })
    }
}

/// A load's ratio today beside the one that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Which load.
    pub load: &'static str,
    /// The node's samples for each CPU second over the contender's.
    pub ratio: Ratio,
    /// The least that was kept.
    kept: Option<f64>,
    /// The part of it that it may fall by.
    allowance: f64,
}

impl Judged {
    /// Of what was measured on such a machine.
    pub fn of(load: &'static str, all: &Measurements, kept: &Kept, machine: &str) -> Self {
        let ratios = all.ratios(figure::PER_CPU_S, (load, Side::Node), (load, Side::Contender));
        let kept = kept.get(load);
        let allowance = kept.and_then(|kept| kept.allowance.as_ref()).map_or(ALLOWANCE, |wider| wider.part);
        let kept = kept.and_then(|kept| kept.least(machine));
        Self { load, ratio: Ratio::of(&ratios), kept, allowance }
    }

    /// Whether there is a ratio: no run of it has failed on each round.
    pub fn is_measured(&self) -> bool {
        self.ratio.rounds > 0
    }

    /// Whether it is less than the least that was kept, by more than the allowance and the rounds' spread. One that
    /// couldn't be measured is; one that nothing was kept of isn't.
    pub fn has_fallen(&self) -> bool {
        !self.is_measured() || self.kept.is_some_and(|kept| self.ratio.is_below(kept, self.allowance))
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
            Some(kept) => {
                let how = if self.has_fallen() { "FALLEN from" } else { "not below" };
                write!(f, ", {how} {kept:.3} by more than {:.0} %", self.allowance * 100.0)
            }
        }
    }
}

/// Reads what was kept; where there is no file, nothing was.
pub fn read(path: &Path) -> io::Result<Kept> {
    let wrong =
        |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()));
    let kept: Kept = match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::new()),
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    };
    for (load, Allowance { part, why }) in
        kept.iter().filter_map(|(load, kept)| Some((load, kept.allowance.as_ref()?)))
    {
        if !(*part > 0.0 && *part < 1.0) || why.trim().is_empty() {
            return Err(wrong(format!("{load}: an allowance is a part between 0 and 1, with its reason")));
        }
    }
    Ok(kept)
}

/// Keeps ratios.
pub fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let json = serde_json::to_string_pretty(kept)?;
    fs::write(path, json + "\n")
}

#[cfg(test)]
mod tests {
    use silverback_test_support::Scratch;

    use super::super::loads::SHORT;
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

    fn judged(ratios: &[f64], kept: &Kept) -> Judged {
        Judged::of("steady-1", &measured(ratios), kept, "EPYC")
    }

    /// What is kept of runs, each of so many rounds.
    fn ratio_of(runs: &[&[f64]]) -> Option<KeptRatio> {
        let runs: Vec<_> = runs.iter().map(|rounds| vec![judged(rounds, &Kept::new())]).collect();
        KeptRatio::of("steady-1", &runs, "EPYC", "abc")
    }

    fn kept(runs: &[&[f64]], allowance: Option<f64>) -> Kept {
        let allowance = allowance.map(|part| Allowance { part, why: "it is noisy".to_owned() });
        Kept::from([(
            "steady-1".to_owned(),
            KeptLoad { allowance, ratios: ratio_of(runs).into_iter().collect() },
        )])
    }

    #[test]
    fn the_least_of_several_runs_is_kept_and_nothing_where_one_failed() {
        let ratio = ratio_of(&[&[2.5, 2.6, 2.4], &[2.23456], &[2.6, 2.6, 9.0]]).expect("all were measured");
        assert_eq!((ratio.least, ratio.runs, ratio.rounds), (2.235, vec![2.5, 2.235, 2.6], 1));
        assert_eq!(ratio_of(&[&[2.5], &[], &[2.6]]), None);
        assert_eq!(ratio_of(&[]), None);
    }

    #[test]
    fn a_machine_s_ratio_takes_the_place_of_its_older_one_and_another_machine_goes_by_the_least() {
        let of = |machine: &str, runs: &[&[f64]]| KeptRatio {
            machine: machine.to_owned(),
            ..ratio_of(runs).expect("it was measured")
        };
        let mut load = KeptLoad::default();
        assert_eq!(load.least("EPYC"), None);
        for (machine, ratio, [xeon, epyc, other]) in
            [("Xeon", 1.2, [1.2, 1.2, 1.2]), ("EPYC", 1.5, [1.2, 1.5, 1.2]), ("Xeon", 1.4, [1.4, 1.5, 1.4])]
        {
            load.keep(of(machine, &[&[ratio]]));
            assert_eq!(
                ["Xeon", "EPYC", "Opteron"].map(|machine| load.least(machine)),
                [xeon, epyc, other].map(Some)
            );
        }
        let machines: Vec<&str> = load.ratios.iter().map(|ratio| ratio.machine.as_str()).collect();
        assert_eq!(machines, ["EPYC", "Xeon"]);
    }

    #[test]
    fn a_fall_by_a_tenth_below_the_least_fails_and_less_does_not() {
        let kept = kept(&[&[1.4], &[1.25], &[1.3]], None);
        assert!(!judged(&[1.14, 1.13, 1.15], &kept).has_fallen());
        assert!(judged(&[1.1, 1.11, 1.1], &kept).has_fallen());
        let words = judged(&[1.1, 1.11, 1.1], &kept).to_string();
        assert!(words.ends_with("FALLEN from 1.250 by more than 10 %"), "{words}");
    }

    #[test]
    fn a_noisier_load_may_fall_by_what_is_written_down_for_it() {
        let kept = kept(&[&[1.25]], Some(0.2));
        assert!(!judged(&[1.1, 1.11, 1.1], &kept).has_fallen());
        assert!(judged(&[0.98, 0.99, 0.98], &kept).has_fallen());
    }

    #[test]
    fn nothing_kept_is_no_fall_and_nothing_measured_is() {
        assert!(!judged(&[0.1], &Kept::new()).has_fallen());
        assert!(judged(&[], &Kept::new()).has_fallen());
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let scratch = Scratch::new();
        let path = scratch.path().join("ratios.json");
        assert!(read(&path).expect("nothing is there").is_empty());
        let kept = kept(&[&[1.23456, 1.3, 1.2]], Some(0.25));
        write(&path, &kept).expect("a file");
        assert_eq!(read(&path).expect("the file"), kept);
        fs::write(&path, "alas").expect("a file");
        assert!(read(&path).expect_err("no JSON").to_string().contains("ratios.json"));
    }

    #[test]
    fn an_allowance_is_a_part_and_has_a_reason() {
        let scratch = Scratch::new();
        let path = scratch.path().join("ratios.json");
        for wrong in
            [r#"{"part": 1.0, "why": "x"}"#, r#"{"part": 0, "why": "x"}"#, r#"{"part": 0.2, "why": " "}"#]
        {
            fs::write(&path, format!(r#"{{"steady-1": {{"allowance": {wrong}}}}}"#)).expect("a file");
            let error = read(&path).expect_err("no allowance").to_string();
            assert!(error.contains("steady-1: an allowance"), "{error}");
        }
    }

    #[test]
    fn the_kept_file_has_a_ratio_of_each_load_of_the_short_form_and_of_no_other() {
        let kept = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/ratios.json"))).expect("the file");
        let has_ratio = |load: &str| kept.get(load).is_some_and(|load| load.least("").is_some());
        assert!(SHORT.iter().all(|load| has_ratio(load)), "nothing to compare with: {kept:?}");
        assert!(kept.keys().all(|load| SHORT.contains(&load.as_str())), "{kept:?}");
    }
}
