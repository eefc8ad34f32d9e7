//! Runs many seeds on two threads, and prints how to run the one again that fails.

use std::cell::{Cell, RefCell};
use std::ops::{AddAssign, Range};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::thread;

use crate::trace::Shown;

const THREADS: usize = 2;

/// A seed for which something did not hold, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub seed: u64,
    pub told: String,
}

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs one seed, and panics where something does not hold.
pub(crate) type Run<Tally> = fn(u64, Shown) -> Tally;

/// Runs the seeds; the lowest that fails is reported.
pub(crate) fn run_all<Tally>(run: Run<Tally>, seeds: Range<u64>) -> Result<Tally, Failure>
where
    Tally: Default + AddAssign + Send,
{
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<Failure>> = Mutex::default();
    let total: Mutex<Tally> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            match run_one(run, seed, Shown::Hidden) {
                Ok(tally) => *total.lock().unwrap() += tally,
                Err(told) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    let mut failed = failed.lock().unwrap();
                    if failed.as_ref().is_none_or(|other| other.seed > seed) {
                        *failed = Some(Failure { seed, told });
                    }
                }
            }
        }
    };
    thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    match failed.into_inner().unwrap() {
        Some(failure) => Err(failure),
        None => Ok(total.into_inner().unwrap()),
    }
}

/// Runs so many seeds at most, until one fails in words that contain these. Otherwise the words of those that
/// failed: what a defect does first depends on all that is drawn.
pub(crate) fn find<Tally>(run: Run<Tally>, seeds: u64, expect: &str) -> Result<Failure, String>
where
    Tally: Default + AddAssign + Send,
{
    let (mut from, mut others) = (0, String::new());
    while let Err(failure) = run_all(run, from..seeds) {
        if failure.told.contains(expect) {
            return Ok(failure);
        }
        from = failure.seed + 1;
        others += &failure.to_string();
    }
    Err(format!("of {seeds} seeds none fails with {expect:?}, but these: {others}"))
}

/// Runs one seed and catches what it panics with.
pub(crate) fn run_one<Tally>(run: Run<Tally>, seed: u64, shown: Shown) -> Result<Tally, String> {
    keep_panics_quiet();
    IS_RUNNING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(seed, shown)));
    IS_RUNNING.set(false);
    result.map_err(|_| PANIC.take())
}

/// Panics of runs are results: they are kept, not printed.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| match IS_RUNNING.get() {
            true => PANIC.set(panic.to_string()),
            false => others(panic),
        }));
    });
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, told } = self;
        write!(f, "{told}\n\n    SIMULATION_SEED={seed} cargo test -p silverback-simulation\n")
    }
}
