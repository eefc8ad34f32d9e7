//! How long the calling thread has run, as the kernel counts it.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Time that the calling thread has spent on a processor.
pub fn thread_cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes one `timespec` to where it is told, and nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert!(failed == 0, "every Linux has a thread's clock");
    // SAFETY: the call succeeded, so the time was written.
    let time = unsafe { time.assume_init() };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
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
