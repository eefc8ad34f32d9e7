//! What the process takes besides, where it does more than nodes have to: a memory plan with less for series.

use super::memory::SHARD_BYTES_MIN;
use super::{MemoryLimitError, MemoryPlan};

impl MemoryPlan {
    /// The same where the process takes so many bytes besides.
    pub const fn beside(mut self, bytes: usize, cores: usize) -> Result<Self, MemoryLimitError> {
        let of_a_core = bytes.div_ceil(cores);
        if self.shard_bytes < SHARD_BYTES_MIN + of_a_core {
            let floor_bytes = Self::floor_bytes(cores) + 2 * bytes;
            return Err(MemoryLimitError { limit_bytes: self.limit_bytes, cores, floor_bytes });
        }
        self.shard_bytes -= of_a_core;
        self.uncounted_bytes += of_a_core * cores;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 12 << 20;

    #[test]
    fn series_have_less_by_what_is_taken() {
        for (limit_mib, cores) in [(217, 1), (1024, 2), (64 << 10, 16)] {
            let plain = MemoryPlan::new(limit_mib << 20, cores).unwrap();
            let plan = plain.beside(BYTES, cores).unwrap();
            let less = cores * (plain.shard_bytes - plan.shard_bytes);
            assert!((BYTES..BYTES + cores).contains(&less), "{plan:?}");
            assert_eq!(plan.uncounted_bytes - plain.uncounted_bytes, less);
        }
    }

    #[test]
    fn a_limit_that_is_too_small_is_refused_with_one_that_would_do() {
        for cores in [1, 2, 16] {
            let least = MemoryPlan::new(MemoryPlan::floor_bytes(cores), cores).unwrap();
            let bytes = cores * BYTES;
            let refused = least.beside(bytes, cores).unwrap_err();
            let raised = MemoryPlan::new(refused.floor_bytes, cores).unwrap();
            assert!(raised.beside(bytes, cores).is_ok(), "{refused}");
        }
    }
}
