//! What a stretch of work took of time, CPU and context switches. It knows nothing of the work.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use silverback_load::usage::own_cpu_s;

/// Measured figures by their names.
pub type Figures = BTreeMap<String, f64>;

/// Of the figures of every row that counts its operations.
pub mod figure {
    /// How many there were.
    pub const OPERATIONS: &str = "operations";
    /// For each second of the wall's clock.
    pub const PER_S: &str = "per_s";
    /// Time of the wall's clock.
    pub const NS: &str = "ns";
    /// CPU time of the whole process.
    pub const CPU_NS: &str = "cpu_ns";
    /// Context switches, wanted and forced ones.
    pub const SWITCHES: &str = "switches";
}

/// Measures from the first of several threads that begins until the last that ends.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Span>);

#[derive(Debug, Default, Clone, Copy)]
struct Span {
    first: Option<Reading>,
    last: Option<Reading>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    cpu_s: f64,
    switches: f64,
}

impl Reading {
    fn now() -> io::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        Ok(Self { at: Instant::now(), cpu_s: own_cpu_s(), switches: switches as f64 })
    }
}

impl Meter {
    /// A thread begins its work.
    pub fn begin(&self) {
        let now = Reading::now().expect("a process can ask for its own usage");
        self.span(|span| span.first = span.first.or(Some(now)));
    }

    /// A thread has done its work.
    pub fn end(&self) {
        let now = Reading::now().expect("a process can ask for its own usage");
        self.span(|span| span.last = Some(now));
    }

    /// What `operations` took, each.
    ///
    /// # Panics
    /// If nobody began or nobody ended.
    pub fn figures(&self, operations: u64) -> Figures {
        let Span { first: Some(first), last: Some(last) } = self.span(|span| *span) else {
            panic!("what was never begun and ended has no figures")
        };
        let (wall_s, count) = ((last.at - first.at).as_secs_f64(), operations as f64);
        let figures = [
            (figure::OPERATIONS, count),
            (figure::PER_S, count / wall_s),
            (figure::NS, wall_s * 1e9 / count),
            (figure::CPU_NS, (last.cpu_s - first.cpu_s) * 1e9 / count),
            (figure::SWITCHES, (last.switches - first.switches) / count),
        ];
        figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn span<T>(&self, with: impl FnOnce(&mut Span) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_that_begins_and_the_last_that_ends_count() {
        let meter = Meter::default();
        meter.begin();
        std::thread::sleep(Duration::from_millis(20));
        meter.begin();
        meter.end();
        meter.end();
        let figures = meter.figures(1000);
        assert!(figures[figure::NS] >= 20_000.0 && figures[figure::PER_S] <= 50_000.0, "{figures:?}");
    }
}
