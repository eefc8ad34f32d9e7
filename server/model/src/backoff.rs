//! How long to wait after failures in a row: twice as long each time up to a bound, and less by chance, so that those who
//! failed at the same moment don't come back at the same moment.

use std::time::Duration;

/// The wait after one more failure, of which there were `failures` in a row before: between half and all of `min`
/// doubled so often, at most `max`. The `random` number says how much less than all.
pub fn after_failure(min: Duration, max: Duration, failures: u32, random: u64) -> Duration {
    let longest = min.saturating_mul(1 << failures.min(30)).min(max);
    longest - longest.mul_f64(random as f64 / u64::MAX as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_less_a_half_by_chance() {
        let waits = |random| [0, 1, 2, 3, 4, u32::MAX].map(|failures| of_failures(failures, random));
        assert_eq!(waits(0), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(waits(u64::MAX), [50, 100, 200, 400, 500, 500]);
    }

    fn of_failures(failures: u32, random: u64) -> u128 {
        after_failure(Duration::from_millis(100), Duration::from_secs(1), failures, random).as_millis()
    }
}
