//! What was found out about credentials, by their digest, so that a password is hashed once. Bounded: the oldest goes.

use std::collections::{HashMap, VecDeque};

use super::rules::Digest;
use silverback_model::limits::KNOWN_CREDENTIALS_MAX;

/// What is known. Right and wrong ones have places of their own: whoever guesses pushes nobody out.
#[derive(Debug, Default)]
pub(super) struct Known<T> {
    right: Oldest<T>,
    wrong: Oldest<()>,
}

/// What credentials turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict<T> {
    /// They will do; with what goes with that.
    Right(T),
    /// They won't.
    Wrong,
}

impl<T: Copy> Known<T> {
    pub(super) fn get(&self, digest: &Digest) -> Option<Verdict<T>> {
        match (self.right.entries.get(digest), self.wrong.entries.contains_key(digest)) {
            (Some(what), _) => Some(Verdict::Right(*what)),
            (None, true) => Some(Verdict::Wrong),
            (None, false) => None,
        }
    }

    pub(super) fn note(&mut self, digest: Digest, verdict: Verdict<T>) {
        match verdict {
            Verdict::Right(what) => self.right.note(digest, what),
            Verdict::Wrong => self.wrong.note(digest, ()),
        }
    }
}

/// Entries of which the oldest goes where there is no room.
#[derive(Debug, Default)]
struct Oldest<T> {
    // By a digest that nobody can foretell: where it lies, and how long a look takes, tells nothing.
    entries: HashMap<Digest, T>,
    order: VecDeque<Digest>,
}

impl<T> Oldest<T> {
    fn note(&mut self, digest: Digest, what: T) {
        if self.entries.insert(digest, what).is_none() {
            self.order.push_back(digest);
        }
        if self.order.len() > KNOWN_CREDENTIALS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn the_oldest_goes_and_wrong_ones_push_no_right_one_out() {
        let mut known = Known::default();
        known.note(digest(0), Verdict::Right(7));
        for number in 1..=3 * KNOWN_CREDENTIALS_MAX {
            known.note(digest(number), Verdict::Wrong);
        }
        assert_eq!(known.get(&digest(0)), Some(Verdict::Right(7)));
        assert_eq!(known.get(&digest(1)), None);
        assert_eq!(known.get(&digest(3 * KNOWN_CREDENTIALS_MAX)), Some(Verdict::Wrong));
        assert_eq!(known.wrong.entries.len(), KNOWN_CREDENTIALS_MAX);
        assert_eq!(known.wrong.order.len(), KNOWN_CREDENTIALS_MAX);
        known.note(digest(0), Verdict::Right(8));
        assert_eq!((known.right.order.len(), known.get(&digest(0))), (1, Some(Verdict::Right(8))));
    }
}
