//! Work of a known length: so much of a CPU, however long the kernel lets others have it meanwhile. A
//! look at the wall's clock instead would count their time as work.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Duration;

use silverback_load::usage::thread_cpu_s;

/// Turns of the loop that a measurement takes: milliseconds.
const MEASURED_TURNS: u64 = 4 << 20;
const MEASUREMENTS: usize = 5;

/// Turns in a nanosecond, by the fastest of a few measurements.
static TURNS_PER_NS: LazyLock<f64> = LazyLock::new(|| {
    let measure = |_| {
        let before = thread_cpu_s();
        turn(MEASURED_TURNS);
        MEASURED_TURNS as f64 / ((thread_cpu_s() - before) * 1e9)
    };
    (0..MEASUREMENTS).map(measure).fold(0.0, f64::max)
});

/// Measures how fast this CPU is, so that the first piece of work doesn't take the time for it.
pub(super) fn measure() {
    LazyLock::force(&TURNS_PER_NS);
}

/// Works for so much CPU time.
pub(super) fn work_for(work: Duration) {
    turn((work.as_nanos() as f64 * *TURNS_PER_NS) as u64);
}

/// Each turn waits for the one before it, so that no processor does two at once.
fn turn(turns: u64) {
    let mut state = black_box(1_u64);
    for _ in 0..turns {
        state = black_box(state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1);
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_about_the_cpu_time_that_it_is_asked_for() {
        measure();
        let before = thread_cpu_s();
        work_for(Duration::from_millis(20));
        let took_ms = (thread_cpu_s() - before) * 1e3;
        // Whoever has the other half of the same core meanwhile makes this one up to twice as slow or as fast as measured.
        assert!((8.0..50.0).contains(&took_ms), "{took_ms} ms");
    }
}
