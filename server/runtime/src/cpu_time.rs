//! How long the calling thread has run, as the kernel counts it.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Time that the calling thread has spent on a processor.
pub fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has a thread's clock").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_spends_time_and_one_that_sleeps_does_not() {
        let began = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(50));
        let slept = thread_cpu_time();
        let until = std::time::Instant::now() + Duration::from_secs(5);
        while thread_cpu_time() < slept + Duration::from_millis(20) {
            assert!(std::time::Instant::now() < until, "no time was spent in five seconds of work");
        }
        assert!(slept - began < Duration::from_millis(40), "{:?} asleep", slept - began);
    }
}
