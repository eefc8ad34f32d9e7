//! How many samples a node still has after it was killed, beside those that it acknowledged.

use std::fs;
use std::io::{self, BufRead};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use silverback_load::replay::report::RunReport;

/// What to compare.
#[derive(Debug, Clone, clap::Args)]
pub struct KeptOptions {
    /// Reports of the runs that filled the node
    #[arg(long = "run", required = true)]
    pub runs: Vec<PathBuf>,
    /// Who was killed, for the report
    #[arg(long)]
    pub contestant: String,
}

/// Samples before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptReport {
    /// Who.
    pub contestant: String,
    /// Acknowledged before it was killed.
    pub acknowledged: u64,
    /// Found afterwards.
    pub found: u64,
}

/// Counts an export beside what the runs had acknowledged.
pub fn compare(options: &KeptOptions, export: impl BufRead) -> io::Result<KeptReport> {
    let mut acknowledged = 0;
    for path in &options.runs {
        let run: RunReport = serde_json::from_slice(&fs::read(path)?)?;
        acknowledged += run.main.samples_acked + run.warmup.map_or(0, |warmup| warmup.samples_acked);
    }
    let found = count_exported(export)?;
    Ok(KeptReport { contestant: options.contestant.clone(), acknowledged, found })
}

/// Samples in an export: lines of JSON, each with its `timestamps`.
fn count_exported(mut export: impl BufRead) -> io::Result<u64> {
    const TIMESTAMPS: &str = "\"timestamps\":[";
    let (mut samples, mut line) = (0, String::new());
    loop {
        line.clear();
        if export.read_line(&mut line)? == 0 {
            return Ok(samples);
        }
        let Some((_, timestamps)) = line.split_once(TIMESTAMPS) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("no series of an export: {line}"),
            ));
        };
        let listed = timestamps.split(']').next().unwrap_or_default();
        samples +=
            if listed.is_empty() { 0 } else { 1 + listed.bytes().filter(|b| *b == b',').count() as u64 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_all_lines_are_counted() {
        let export = concat!(
            r#"{"metric":{"__name__":"a","b":"x,y"},"values":[1,2,"NaN"],"timestamps":[10,20,30]}"#,
            "\n",
            r#"{"metric":{"__name__":"c"},"values":[1],"timestamps":[10]}"#,
            "\n",
            r#"{"metric":{"__name__":"d"},"values":[],"timestamps":[]}"#,
            "\n",
        );
        assert_eq!(count_exported(export.as_bytes()).expect("an export"), 4);
    }

    #[test]
    fn an_answer_that_is_no_export_is_an_error() {
        assert!(count_exported("not found\n".as_bytes()).is_err());
    }
}
