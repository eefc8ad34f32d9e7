//! The check of a request's credentials on one core: at once where they are known, on the passwords' thread where they
//! aren't. What a refusal looks like is the transports'.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use futures::channel::oneshot;
use http::{HeaderMap, HeaderName, HeaderValue};
use silverback_model::limits::CREDENTIAL_CHECKS_MAX;
use silverback_runtime::{Peer, SideThread, SideThreadError};

use super::check_slots::CheckSlots;
use super::credentials::{Basic, Presented};
use super::doors::Doors;
use super::known::{CredentialsVerdict, DigestKey, Known};
use super::rules::{Check, Digest, Rules};
use super::scope::Scopes;

/// Hashes passwords: some 50 ms each, one after the other, so that guessing takes one CPU at most.
#[derive(Debug)]
pub(crate) struct PasswordThread {
    thread: SideThread<Known>,
    slots: Arc<CheckSlots>,
    key: DigestKey,
}

impl PasswordThread {
    /// Starts it, for all cores.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self {
            thread: SideThread::start_with("passwords", CREDENTIAL_CHECKS_MAX, Known::default())?,
            slots: Arc::default(),
            key: DigestKey::generate()?,
        })
    }

    /// What a name and a password are by these rules; `None`: whatever they are, they are wrong.
    fn claim<'a>(&self, rules: &'a Rules, basic: &[u8]) -> Option<Claim<'a>> {
        let Basic { name, password } = Basic::decode(basic)?;
        let check = rules.check(&name)?;
        let digest = self.key.digest(&check, basic);
        Some(Claim { name, password, check, digest })
    }
}

/// A name and a password, and what they are checked against.
struct Claim<'a> {
    name: String,
    password: Vec<u8>,
    check: Check<'a>,
    digest: Digest,
}

impl Claim<'_> {
    fn decide(self, verdict: CredentialsVerdict, needs: Scopes) -> Result<(), CredentialsRejected> {
        match (verdict, self.check.scopes) {
            (CredentialsVerdict::Right, Some(scopes)) => allow(scopes, needs, || self.name),
            (CredentialsVerdict::Right | CredentialsVerdict::Wrong, _) => Err(CredentialsRejected::Wrong),
        }
    }
}

/// Why a request isn't let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CredentialsRejected {
    /// It has no credentials.
    #[error(
        "this node wants credentials: a user's name and password, or a token (Authorization: Basic or Bearer)"
    )]
    Missing,
    /// Nobody has these.
    #[error("the credentials are wrong")]
    Wrong,
    /// Their owner may do other things.
    #[error("{name:?} may not do this: it takes the scope {needs}")]
    Scope { name: String, needs: Scopes },
    /// Too many passwords wait to be checked.
    #[error("too many passwords wait to be checked: send again later")]
    Busy,
    /// The check failed.
    #[error("the password could not be checked")]
    Failed,
}

/// What is known of a request's credentials at once.
pub(crate) enum CredentialsLook {
    /// Let in, or not.
    Decided(Result<(), CredentialsRejected>),
    /// A password that is to be checked.
    Unknown(PasswordCheck),
}

/// A password that is to be checked, in the words of the request.
pub(crate) struct PasswordCheck {
    basic: Vec<u8>,
    needs: Scopes,
}

/// One core's.
pub(crate) struct Gate {
    doors: RefCell<Arc<Doors>>,
    known: RefCell<Known>,
    /// Those who wait for a check that another request has asked for.
    in_flight: RefCell<HashMap<Digest, Vec<oneshot::Sender<()>>>>,
    passwords: Arc<PasswordThread>,
}

impl Gate {
    /// A core's, for these doors.
    pub(crate) fn new(doors: Arc<Doors>, passwords: Arc<PasswordThread>) -> Self {
        Self {
            doors: RefCell::new(doors),
            known: RefCell::default(),
            in_flight: RefCell::default(),
            passwords,
        }
    }

    /// Goes by other doors from now on. What is known of a user goes on to be while the password's hash is the same.
    pub(crate) fn replace(&self, doors: Arc<Doors>) {
        self.doors.replace(doors);
    }

    /// What every answer has.
    pub(crate) fn for_each_header(&self, mut each: impl FnMut(&HeaderName, &HeaderValue)) {
        self.doors.borrow().headers.iter().for_each(|(name, value)| each(name, value));
    }

    /// The schemes that it takes, for a request that had no right credentials.
    pub(crate) fn challenges(&self) -> impl Iterator<Item = HeaderValue> {
        let rules = self.rules();
        let basic = rules
            .has_users()
            .then(|| HeaderValue::from_static("Basic realm=\"silverback\", charset=\"UTF-8\""));
        let bearer = rules.has_tokens().then(|| HeaderValue::from_static("Bearer realm=\"silverback\""));
        basic.into_iter().chain(bearer)
    }

    /// Looks at a request's head. `needs`: one of these scopes.
    pub(crate) fn look(&self, headers: &HeaderMap, needs: Scopes) -> CredentialsLook {
        let doors = self.doors.borrow();
        let rules = &doors.rules;
        if rules.are_open() {
            return CredentialsLook::Decided(Ok(()));
        }
        match Presented::of(headers) {
            Presented::Nothing => CredentialsLook::Decided(Err(CredentialsRejected::Missing)),
            Presented::Unreadable => CredentialsLook::Decided(Err(CredentialsRejected::Wrong)),
            Presented::Token(text) => CredentialsLook::Decided(match rules.token(text) {
                Some(token) => allow(token.scopes, needs, || token.name.clone()),
                None => Err(CredentialsRejected::Wrong),
            }),
            Presented::Basic(basic) => self.look_at_password(rules, basic, needs),
        }
    }

    fn look_at_password(&self, rules: &Rules, basic: &[u8], needs: Scopes) -> CredentialsLook {
        let Some(claim) = self.passwords.claim(rules, basic) else {
            return CredentialsLook::Decided(Err(CredentialsRejected::Wrong));
        };
        match self.known.borrow().get(&claim.digest) {
            Some(verdict) => CredentialsLook::Decided(claim.decide(verdict, needs)),
            None => CredentialsLook::Unknown(PasswordCheck { basic: basic.to_owned(), needs }),
        }
    }

    /// Has a password checked that came from there, once for all requests that wait for the same.
    pub(crate) async fn verify(&self, check: PasswordCheck, from: Peer) -> Result<(), CredentialsRejected> {
        let PasswordCheck { basic, needs } = check;
        loop {
            let rules = self.rules();
            if rules.are_open() {
                return Ok(());
            }
            let Some(claim) = self.passwords.claim(&rules, &basic) else {
                return Err(CredentialsRejected::Wrong);
            };
            let known = self.known.borrow().get(&claim.digest);
            if let Some(verdict) = known {
                return claim.decide(verdict, needs);
            }
            match self.lead(claim.digest) {
                Err(led) => {
                    // The header is enough for one that waits: the password isn't kept twice.
                    drop(claim);
                    // Whoever leads may leave: then another one does.
                    let _ended = led.await;
                }
                Ok(_leading) => self.hash(claim, from).await?,
            }
        }
    }

    /// Whose credentials these are, for the log. They were let in.
    pub(crate) fn name_of(&self, headers: &HeaderMap) -> Option<String> {
        match Presented::of(headers) {
            Presented::Token(text) => self.rules().token(text).map(|token| token.name.clone()),
            Presented::Basic(basic) => Basic::decode(basic).map(|basic| basic.name),
            Presented::Nothing | Presented::Unreadable => None,
        }
    }

    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.doors.borrow().rules)
    }

    /// Hashes a password and notes what came of it.
    async fn hash(&self, claim: Claim<'_>, from: Peer) -> Result<(), CredentialsRejected> {
        let Some(slot) = self.passwords.slots.take(from) else { return Err(CredentialsRejected::Busy) };
        let Claim { password, check: Check { against, scopes, cost_max }, digest, .. } = claim;
        let (hash, cost) = (Arc::clone(&against.hash), against.cost);
        let checked = self.passwords.thread.run_with(move |results| {
            // It has it until its turn has come, though whoever sent it may have left.
            let _slot = slot;
            // Another core may have asked the same.
            results.get(&digest).unwrap_or_else(|| {
                let matches = bcrypt::verify(&password, &hash).unwrap_or(false);
                let verdict = if matches && scopes.is_some() {
                    CredentialsVerdict::Right
                } else {
                    CredentialsVerdict::Wrong
                };
                if verdict == CredentialsVerdict::Wrong {
                    spend_as_at(cost_max, cost);
                }
                results.note(digest, verdict);
                verdict
            })
        });
        let verdict = checked.await.map_err(|error| match error {
            SideThreadError::Busy => CredentialsRejected::Busy,
            SideThreadError::Panicked => CredentialsRejected::Failed,
        })?;
        self.known.borrow_mut().note(digest, verdict);
        Ok(())
    }

    /// The lead of a check, or the end of another's that goes on.
    fn lead(&self, digest: Digest) -> Result<Leading<'_>, oneshot::Receiver<()>> {
        let mut in_flight = self.in_flight.borrow_mut();
        match in_flight.get_mut(&digest) {
            Some(waiting) => {
                let (ended, led) = oneshot::channel();
                // Whoever left waits no more: a client that comes again and again makes the list no longer.
                if waiting.len().is_power_of_two() {
                    waiting.retain(|sender| !sender.is_canceled());
                }
                waiting.push(ended);
                Err(led)
            }
            None => {
                in_flight.insert(digest, Vec::new());
                Ok(Leading { gate: self, digest })
            }
        }
    }
}

/// The lead of a check; who waits for it goes on when this is dropped.
struct Leading<'a> {
    gate: &'a Gate,
    digest: Digest,
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        drop(self.gate.in_flight.borrow_mut().remove(&self.digest));
    }
}

/// Takes as long, after a check at the one cost, as one at a higher cost would have taken altogether.
fn spend_as_at(cost_max: u32, cost: u32) {
    // Each cost takes twice the time of the one before: 2ⁿ + (2ⁿ + … + 2ᵐ⁻¹) = 2ᵐ.
    for spent in cost..cost_max {
        let _hash = std::hint::black_box(bcrypt::bcrypt(spent, [0; 16], b"nobody's"));
    }
}

fn allow(has: Scopes, needs: Scopes, name: impl FnOnce() -> String) -> Result<(), CredentialsRejected> {
    if has.has_one_of(needs) { Ok(()) } else { Err(CredentialsRejected::Scope { name: name(), needs }) }
}

/// A gate as the handlers of a core have it; `None` where no file says who there is.
pub(crate) type CoreGate = Option<Rc<Gate>>;
