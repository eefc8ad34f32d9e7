//! Runs the rows of a comparison: each in a process of its own, so that none finds what another left
//! behind, and in turn, so that what else runs on the machine hits all of them.

use std::error::Error;
use std::process::{Command, Stdio};

use super::Job;
use super::events;
use super::meter::{Figures, figure};
use super::results::{Comparison, Results};

/// Measures every row `rounds` times, and counts its events once.
pub fn measure(comparison: &Comparison, rounds: usize) -> Result<Results, Box<dyn Error>> {
    let mut results = Results::of(comparison);
    for round in 0..rounds {
        for (row, measured) in comparison.rows.iter().zip(&mut results.rows) {
            eprintln!("{}: round {} of {rounds}: {}, {}", comparison.name, round + 1, row.setting, row.side);
            measured.add(in_own_process(&row.job)?);
        }
    }
    let events = if comparison.counts_events { events::countable() } else { Vec::new() };
    for (row, measured) in comparison.rows.iter().zip(&mut results.rows) {
        let json = serde_json::to_string(&row.job)?;
        let program = std::env::current_exe()?;
        let counts = events::count(&events, |perf| perf.arg(&program).args(["founding", "--side", &json]))?;
        let operations = measured.median(figure::OPERATIONS);
        let each = |(name, count): (&str, f64)| (name.to_owned(), count / operations);
        measured.add(counts.into_iter().map(each).collect());
    }
    Ok(results)
}

/// Runs a row in a process of its own.
fn in_own_process(job: &Job) -> Result<Figures, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["founding", "--side", &serde_json::to_string(job)?])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{job:?}: {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
