//! The slots of passwords that wait to be checked, all of the node, and how addresses share them: none may have more
//! than it leaves. No core waits for another here.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use silverback_model::limits::CREDENTIAL_CHECKS_MAX;
use silverback_runtime::Peer;

/// Nobody has it.
const FREE: u64 = 0;

/// All slots.
#[derive(Debug)]
pub(super) struct CheckSlots {
    /// What stands for the address that has it, or [`FREE`].
    held: [AtomicU64; CREDENTIAL_CHECKS_MAX],
    hasher: RandomState,
}

/// One slot; another one has it when this is dropped.
#[derive(Debug)]
pub(super) struct CheckLease {
    all: Arc<CheckSlots>,
    at: usize,
}

impl Default for CheckSlots {
    fn default() -> Self {
        Self { held: [const { AtomicU64::new(FREE) }; CREDENTIAL_CHECKS_MAX], hasher: RandomState::new() }
    }
}

impl CheckSlots {
    /// A slot; `None` where all are taken, or where its address has as many as are left for others.
    pub(super) fn take(self: &Arc<Self>, from: Peer) -> Option<CheckLease> {
        // By a hash with a key of this process' own: nobody finds addresses that share one, and none has FREE.
        let whose = self.hasher.hash_one(from) | 1;
        let is_taken =
            |held: &AtomicU64| held.compare_exchange(FREE, whose, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let at = self.held.iter().position(is_taken)?;
        let lease = CheckLease { all: Arc::clone(self), at };
        // With this one: of two cores that take one at once the later sees both.
        let (own, free) = (self.count(whose), self.count(FREE));
        (own <= free + 1).then_some(lease)
    }

    fn count(&self, whose: u64) -> usize {
        self.held.iter().filter(|held| held.load(Ordering::SeqCst) == whose).count()
    }
}

impl Drop for CheckLease {
    fn drop(&mut self) {
        self.all.held[self.at].store(FREE, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::of(Some(text.parse().unwrap()))
    }

    /// As many slots as it gets.
    fn take_all(all: &Arc<CheckSlots>, from: &str) -> Vec<CheckLease> {
        std::iter::from_fn(|| all.take(peer(from))).collect()
    }

    #[test]
    fn an_address_gets_half_of_what_is_left_and_of_ipv6_a_network_does() {
        let all = Arc::<CheckSlots>::default();
        let flood = take_all(&all, "10.0.0.1");
        assert_eq!(flood.len(), CREDENTIAL_CHECKS_MAX / 2);
        let network = take_all(&all, "2001:db8::1");
        assert_eq!(network.len(), CREDENTIAL_CHECKS_MAX / 4);
        assert!(all.take(peer("2001:db8::2")).is_none());
        assert!(all.take(peer("10.0.0.1")).is_none() && all.take(peer("10.0.0.2")).is_some());
        drop(network);
        assert!(all.take(peer("2001:db8::2")).is_some());
        drop(flood);
        assert_eq!(all.count(FREE), CREDENTIAL_CHECKS_MAX);
    }

    #[test]
    fn there_are_no_more_slots_whoever_asks() {
        let all = Arc::<CheckSlots>::default();
        let taken: Vec<_> = (0..=u8::MAX).filter_map(|n| all.take(peer(&format!("10.0.0.{n}")))).collect();
        assert_eq!((taken.len(), all.count(FREE)), (CREDENTIAL_CHECKS_MAX, 0));
    }

    #[test]
    fn cores_that_ask_at_once_get_no_more_than_one_would() {
        let all = Arc::<CheckSlots>::default();
        let most = std::thread::scope(|scope| {
            let cores: Vec<_> = (0..4).map(|_| scope.spawn(|| take_all(&all, "10.0.0.1"))).collect();
            let taken: Vec<_> = cores.into_iter().flat_map(|core| core.join().unwrap()).collect();
            taken.len()
        });
        assert!((1..=CREDENTIAL_CHECKS_MAX / 2).contains(&most), "{most}");
        assert_eq!(all.count(FREE), CREDENTIAL_CHECKS_MAX);
    }
}
