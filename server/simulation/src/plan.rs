//! What one life of a node is to go through, drawn before it begins.

use crate::disk::Faults;
use crate::random::Random;

/// One life.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub faults: Faults,
    pub trouble: Trouble,
    pub end: End,
    pub clients: usize,
    /// Parts that each client sends.
    pub parts: usize,
    /// Retention passes, jumps of the clock and reads, together.
    pub upkeep: usize,
    pub checkpoints: usize,
    /// Deletions, one after the other.
    pub deletions: usize,
    /// Bits that turn over on the disk before it begins.
    pub flips: usize,
    /// Files that somebody takes away before it begins.
    pub taken: Taken,
}

/// Files of the log that are taken away while no node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Nothing,
    /// The newest segment, and what a clean stop left.
    Newest,
    /// Whatever there is.
    All,
}

/// What is wrong with the disk besides the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Nothing,
    /// A sync or a write fails.
    Failure,
    /// It is full, and has room again later.
    Full,
}

/// How a life ends, at the crash's step or after its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// What was not synced fares as it may.
    PowerLoss,
    /// The process alone goes: the disk holds all that was written, and may lose it later.
    Kill,
}

impl Plan {
    /// A life in which nothing happens.
    pub(crate) fn quiet() -> Self {
        Self {
            faults: Faults::default(),
            trouble: Trouble::Nothing,
            end: End::PowerLoss,
            clients: 1,
            parts: 0,
            upkeep: 0,
            checkpoints: 0,
            deletions: 0,
            flips: 0,
            taken: Taken::Nothing,
        }
    }

    pub(crate) fn draw(random: &mut Random, used_bytes: usize) -> Self {
        let mut plan = Self {
            end: if random.one_in(4) { End::Kill } else { End::PowerLoss },
            clients: random.within(1..5),
            parts: random.by_magnitude(24),
            upkeep: random.below(8),
            checkpoints: random.below(5),
            ..Self::quiet()
        };
        match random.below(12) {
            0 => {
                plan.trouble = Trouble::Failure;
                plan.faults.good_syncs = Some(random.by_magnitude(64) as u64);
            }
            1 => {
                plan.trouble = Trouble::Failure;
                plan.faults.good_writes = Some(random.by_magnitude(64) as u64);
            }
            2 | 3 => {
                plan.trouble = Trouble::Full;
                plan.faults.capacity_bytes = Some(used_bytes + random.by_magnitude(1 << 20));
            }
            4 => plan.flips = random.within(1..4),
            5 => plan.taken = *random.pick(&[Taken::Newest, Taken::All]),
            _ => {}
        }
        // Whether a start reports what it lacks is known once it has come to its end.
        if plan.taken == Taken::Nothing && !random.one_in(4) {
            plan.faults.crash_at_step = Some(random.by_magnitude(1024) as u64);
        }
        if random.one_in(2) {
            plan.deletions = random.by_magnitude(6);
        }
        plan
    }
}
