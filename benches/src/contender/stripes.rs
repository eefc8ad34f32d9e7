//! Shards behind locks, each with its fraction of the series-id space and its part of the log's next group.
//!
//! Every append writes, so a lock is taken for writing; only the metrics read.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use silverback_model::limits::CELL_COUNT;
use silverback_model::{SeriesId, ShardId};
use silverback_storage::message::part::PartBuffer;
use silverback_storage::message::{ShardStats, WriteBody};
use silverback_storage::shard::Shard;
use silverback_storage::shard::append::{PartOutcome, TimeBounds};
use silverback_storage::wal::record::Group;

/// Stripes at most: one for each cell.
pub const STRIPES_MAX: usize = CELL_COUNT;

/// Apart from its neighbours by two cache lines, which are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe(RwLock<Held>);

/// What is behind one lock.
#[derive(Debug)]
struct Held {
    shard: Shard,
    group: Group,
}

/// All series, over a number of locks that is a power of two.
#[derive(Debug)]
pub struct Stripes {
    stripes: Box<[Stripe]>,
    /// Cell → stripe.
    shift: u32,
}

impl Stripes {
    /// As many as asked for, rounded up to a power of two; at most [`STRIPES_MAX`].
    pub fn new(count: usize) -> Self {
        let count = count.clamp(1, STRIPES_MAX).next_power_of_two();
        let held = |i| Held { shard: Shard::new(ShardId(i as u16), usize::MAX), group: Group::default() };
        let stripe = |i| Stripe(RwLock::new(held(i)));
        let shift = CELL_COUNT.trailing_zeros() - count.trailing_zeros();
        Self { stripes: (0..count).map(stripe).collect(), shift }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.stripes.len()
    }

    /// The stripe that a series lies in.
    #[inline]
    pub fn stripe_of(&self, id: SeriesId) -> usize {
        usize::from(id.cell().0 >> self.shift)
    }

    /// Takes in one part for each stripe and empties it; reports what became of each.
    pub fn append(
        &self,
        body: &WriteBody,
        parts: &mut [PartBuffer],
        bounds: TimeBounds,
        mut told: impl FnMut(PartOutcome),
    ) {
        let mut append = |Held { shard, group }: &mut Held, part: &mut PartBuffer| {
            told(shard.append(body, &part.series, &part.samples, bounds, group));
            part.series.clear();
            part.samples.clear();
        };
        // Locks that are free first: a worker waits for another only with nothing else left to do.
        let (first, count) = (starting_stripe(), parts.len());
        for at in (0..count).map(|i| first.wrapping_add(i) % count) {
            if !parts[at].series.is_empty()
                && let Some(mut held) = self.try_lock(at)
            {
                append(&mut held, &mut parts[at]);
            }
        }
        for (at, part) in parts.iter_mut().enumerate().filter(|(_, part)| !part.series.is_empty()) {
            append(&mut self.lock(at), part);
        }
    }

    /// Each stripe's counters and sizes, one after the other.
    pub fn stats(&self) -> impl Iterator<Item = ShardStats> {
        (0..self.count()).map(|at| self.read(at).shard.stats())
    }

    /// Takes what each stripe has to be logged, and leaves it an empty group, one stripe after the other.
    pub fn swap_groups(&self, empty: &mut [Group]) {
        for (at, group) in empty.iter_mut().enumerate() {
            std::mem::swap(&mut self.lock(at).group, group);
        }
    }

    fn try_lock(&self, at: usize) -> Option<RwLockWriteGuard<'_, Held>> {
        match self.stripes[at].0.try_write() {
            Ok(held) => Some(held),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => poisoned(),
        }
    }

    fn lock(&self, at: usize) -> RwLockWriteGuard<'_, Held> {
        self.stripes[at].0.write().unwrap_or_else(|_| poisoned())
    }

    fn read(&self, at: usize) -> RwLockReadGuard<'_, Held> {
        self.stripes[at].0.read().unwrap_or_else(|_| poisoned())
    }
}

fn poisoned() -> ! {
    panic!("an append broke off midway: what this shard holds can't be trusted")
}

/// Another one for each worker, so that workers seldom go over the same stripes side by side.
fn starting_stripe() -> usize {
    static WORKERS: AtomicUsize = AtomicUsize::new(0);
    /// Apart from each other whatever the number of stripes is.
    const STEP: usize = 0x9e37_79b9_7f4a_7c15;
    thread_local!(static FIRST: usize = WORKERS.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP));
    FIRST.with(|first| *first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_stripe() {
        for count in [1, 2, 64, STRIPES_MAX] {
            let stripes = Stripes::new(count);
            let of_cell = |cell: usize| stripes.stripe_of(SeriesId((cell as u128) << 118));
            assert_eq!((0..CELL_COUNT).map(of_cell).max(), Some(count - 1));
            assert!((0..CELL_COUNT).is_sorted_by_key(of_cell));
        }
    }

    #[test]
    fn an_odd_count_is_rounded_up() {
        assert_eq!([0, 1, 3, 65, usize::MAX].map(|count| Stripes::new(count).count()), [1, 1, 4, 128, 1024]);
    }
}
