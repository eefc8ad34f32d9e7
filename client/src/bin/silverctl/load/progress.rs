//! The line on standard error that says each second how the run goes.

use std::io::{IsTerminal, stderr};
use std::time::Instant;

use super::tally::Second;
use crate::figures::grouped;

/// Overwrites itself on a terminal; elsewhere it is a line each time.
#[derive(Debug)]
pub(super) struct LoadProgress {
    begin: Instant,
    place: ProgressOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgressOutput {
    Terminal,
    Elsewhere,
}

impl LoadProgress {
    /// Times are counted since then.
    pub(super) fn begin(begin: Instant) -> Self {
        let place = if stderr().is_terminal() { ProgressOutput::Terminal } else { ProgressOutput::Elsewhere };
        Self { begin, place }
    }

    /// Prints a second. `phase` is empty for the measurement.
    pub(super) fn show(&mut self, phase: &str, second: &Second) {
        let line = line(phase, self.begin.elapsed().as_secs(), second);
        match self.place {
            ProgressOutput::Terminal => eprint!("\r\x1b[2K{line}"),
            ProgressOutput::Elsewhere => eprintln!("{line}"),
        }
    }

    /// Takes the line away, for the summary.
    pub(super) fn end(&mut self) {
        if self.place == ProgressOutput::Terminal {
            eprint!("\r\x1b[2K");
        }
    }
}

fn line(phase: &str, elapsed_s: u64, second: &Second) -> String {
    let rate = |count: u64| grouped((count as f64 / second.span_s.max(f64::MIN_POSITIVE)) as u64);
    let latency = second.latency_ms.map_or_else(
        || "no answer".to_owned(),
        |latency| format!("p50 {:.2} ms  p99 {:.2} ms", latency.p50, latency.p99),
    );
    let mut line = format!(
        "{elapsed_s:>4} s  {:>11} samples/s  {latency}  in flight {}",
        rate(second.samples_written),
        second.in_flight
    );
    if second.samples_not_written > 0 {
        line.push_str(&format!("  not written {}/s", rate(second.samples_not_written)));
    }
    if second.sent_again > 0 {
        line.push_str(&format!("  sent again {}", grouped(second.sent_again)));
    }
    if let Some(cpu_s) = second.server_cpu_s {
        line.push_str(&format!("  server {:.2} cores", cpu_s / second.span_s.max(f64::MIN_POSITIVE)));
    }
    if !phase.is_empty() {
        line.push_str(&format!("  {phase}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use silverback_load::figures::Quantiles;

    use super::*;

    #[test]
    fn a_line_tells_rates_and_what_went_wrong() {
        let latency = Quantiles { p50: 1.5, p99: 9.25, ..Quantiles::default() };
        let mut second = Second {
            span_s: 0.5,
            samples_written: 500_000,
            in_flight: 8,
            latency_ms: Some(latency),
            ..Second::default()
        };
        assert_eq!(
            line("", 12, &second),
            "  12 s    1,000,000 samples/s  p50 1.50 ms  p99 9.25 ms  in flight 8"
        );
        second.samples_not_written = 10;
        second.sent_again = 2;
        second.server_cpu_s = Some(0.4);
        second.latency_ms = None;
        let expected = "  12 s    1,000,000 samples/s  no answer  in flight 8  not written 20/s  sent again 2  \
                        server 0.80 cores  warm-up";
        assert_eq!(line("warm-up", 12, &second), expected);
    }
}
