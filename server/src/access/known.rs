//! What was found out about credentials, by their digest, so that a password is hashed once. Bounded: the oldest goes.

use std::collections::{HashSet, VecDeque};
use std::io;

use ring::hmac;
use ring::rand::SystemRandom;
use silverback_model::limits::KNOWN_CREDENTIALS_MAX;

use super::rules::{Check, Digest};

/// What digests are made by: nobody can compute one without this process' key.
#[derive(Debug)]
pub(super) struct DigestKey(hmac::Key);

impl DigestKey {
    pub(super) fn generate() -> io::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        key.map(Self).map_err(|_unspecified| io::Error::other("the system has no random numbers for a key"))
    }

    /// What stands for a name and a password as a request has them, `name:password` in base64, beside the hash that they
    /// are checked against: so what was found out holds as long as that is the user's, whatever else the files come to
    /// say, and no longer.
    pub(super) fn digest(&self, check: &Check<'_>, basic: &[u8]) -> Digest {
        let mut context = hmac::Context::with_key(&self.0);
        // The dearest hash stands for those who aren't there, too, and their password is wrong in any case.
        context.update(&[u8::from(check.scopes.is_some())]);
        context.update(check.against.hash.as_bytes());
        // No hash has one in it.
        context.update(b"\n");
        context.update(basic);
        context.sign().as_ref().try_into().expect("HMAC-SHA256 has 32 bytes")
    }
}

/// What is known. Right and wrong ones have places of their own: whoever guesses pushes nobody out.
#[derive(Debug, Default)]
pub(super) struct Known {
    right: Oldest,
    wrong: Oldest,
}

/// What credentials turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialsVerdict {
    /// They will do.
    Right,
    /// They won't.
    Wrong,
}

impl Known {
    pub(super) fn get(&self, digest: &Digest) -> Option<CredentialsVerdict> {
        match (self.right.entries.contains(digest), self.wrong.entries.contains(digest)) {
            (true, _) => Some(CredentialsVerdict::Right),
            (false, true) => Some(CredentialsVerdict::Wrong),
            (false, false) => None,
        }
    }

    pub(super) fn note(&mut self, digest: Digest, verdict: CredentialsVerdict) {
        match verdict {
            CredentialsVerdict::Right => self.right.note(digest),
            CredentialsVerdict::Wrong => self.wrong.note(digest),
        }
    }
}

/// Entries of which the oldest goes where there is no room.
#[derive(Debug, Default)]
struct Oldest {
    // By a digest that nobody can foretell: where it is, and how long a look takes, gives nothing away.
    entries: HashSet<Digest>,
    order: VecDeque<Digest>,
}

impl Oldest {
    fn note(&mut self, digest: Digest) {
        if self.entries.insert(digest) {
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
    use super::super::rules::User;
    use super::super::scope::Scopes;
    use super::*;

    fn digest(number: usize) -> Digest {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn the_oldest_goes_and_wrong_ones_push_no_right_one_out() {
        let mut known = Known::default();
        known.note(digest(0), CredentialsVerdict::Right);
        for number in 1..=3 * KNOWN_CREDENTIALS_MAX {
            known.note(digest(number), CredentialsVerdict::Wrong);
        }
        assert_eq!(known.get(&digest(0)), Some(CredentialsVerdict::Right));
        assert_eq!(known.get(&digest(1)), None);
        assert_eq!(known.get(&digest(3 * KNOWN_CREDENTIALS_MAX)), Some(CredentialsVerdict::Wrong));
        assert_eq!(known.wrong.entries.len(), KNOWN_CREDENTIALS_MAX);
        assert_eq!(known.wrong.order.len(), KNOWN_CREDENTIALS_MAX);
        known.note(digest(0), CredentialsVerdict::Right);
        assert_eq!(known.right.order.len(), 1);
    }

    #[test]
    fn digests_of_other_hashes_and_of_other_credentials_differ() {
        let (one, other) = (DigestKey::generate().unwrap(), DigestKey::generate().unwrap());
        let [alice, changed] =
            ["$2y$a", "$2y$b"].map(|hash| User { hash: hash.into(), cost: 4, scopes: Scopes::ALL });
        let of = |against, scopes| Check { against, scopes, cost_max: 4 };
        let (user, nobody) = (of(&alice, Some(Scopes::ALL)), of(&alice, None));
        let digest = one.digest(&user, b"YTpi");
        assert_eq!(digest, one.digest(&of(&alice, Some(Scopes::default())), b"YTpi"));
        for different in [
            one.digest(&user, b"YTpj"),
            one.digest(&nobody, b"YTpi"),
            one.digest(&of(&changed, Some(Scopes::ALL)), b"YTpi"),
            other.digest(&user, b"YTpi"),
        ] {
            assert_ne!(digest, different);
        }
    }
}
