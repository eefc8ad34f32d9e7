//! The users and tokens that there are, and what each may do. Made once of the files, and the same until they change.
//! It holds no password and no token: hashes alone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use super::scope::Scopes;

/// What stands for something secret: SHA-256 of a token, or a keyed hash of a name and a password.
pub(super) type Digest = [u8; 32];

/// Who there is.
pub(crate) struct Rules {
    users: BTreeMap<String, User>,
    /// The one of them whose hash takes longest to check.
    dearest: Option<User>,
    tokens: Vec<AccessToken>,
}

/// One of the web configuration file's users.
#[derive(Clone)]
pub(super) struct User {
    /// bcrypt's hash of the password, ...
    pub(super) hash: Arc<str>,
    /// ... and its cost.
    pub(super) cost: u32,
    pub(super) scopes: Scopes,
}

/// What the password is checked against that comes with a name.
pub(super) struct Check<'a> {
    /// The user; where there is none of that name the most expensive one, whatever comes of it.
    pub(super) against: &'a User,
    /// What the user may do; `None`: there is none.
    pub(super) scopes: Option<Scopes>,
    /// What a refusal takes as long as, so that its time gives no user away.
    pub(super) cost_max: u32,
}

/// One of the access file's tokens.
pub(super) struct AccessToken {
    pub(super) name: String,
    pub(super) sha256: Digest,
    pub(super) scopes: Scopes,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens: Vec<_> = self.tokens.iter().map(|token| &token.name).collect();
        f.debug_struct("Rules").field("users", &self.users.keys()).field("tokens", &tokens).finish()
    }
}

impl Rules {
    /// Rules for these.
    pub(super) fn new(users: BTreeMap<String, User>, tokens: Vec<AccessToken>) -> Self {
        let dearest = users.values().max_by_key(|user| user.cost).cloned();
        Self { users, dearest, tokens }
    }

    /// Whether there is nobody to tell from others: no credentials are asked for.
    pub(crate) fn are_open(&self) -> bool {
        self.users.is_empty() && self.tokens.is_empty()
    }

    /// A user who may do everything by these, and by the former ones couldn't: an access file that was cut off names
    /// nobody after its end.
    pub(super) fn freed_user(&self, former: &Self) -> Option<&str> {
        let is_freed = |name: &str, user: &User| {
            let was_bound = former.users.get(name).is_some_and(|former| former.scopes != Scopes::ALL);
            was_bound && user.scopes == Scopes::ALL
        };
        self.users.iter().find(|(name, user)| is_freed(name, user)).map(|(name, _)| name.as_str())
    }

    /// Whether passwords will do.
    pub(crate) fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Whether tokens will do.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// How a password of that name is checked; `None` where there are no users.
    pub(super) fn check(&self, name: &str) -> Option<Check<'_>> {
        let (user, dearest) = (self.users.get(name), self.dearest.as_ref()?);
        let scopes = user.map(|user| user.scopes);
        Some(Check { against: user.unwrap_or(dearest), scopes, cost_max: dearest.cost })
    }

    /// The token that this is. All are compared, to the end each.
    pub(super) fn token(&self, text: &[u8]) -> Option<&AccessToken> {
        let sha256 = sha256(text);
        let mut found = None;
        for token in &self.tokens {
            if bool::from(token.sha256.ct_eq(&sha256)) {
                found = Some(token);
            }
        }
        found
    }
}

/// A token's hash.
pub(super) fn sha256(text: &[u8]) -> Digest {
    digest(&SHA256, text).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::scope::Scope;

    fn rules(tokens: &[&str]) -> Rules {
        let token = |text: &&str| AccessToken {
            name: format!("of {text}"),
            sha256: sha256(text.as_bytes()),
            scopes: Scopes::of(&[Scope::Write]),
        };
        Rules::new(BTreeMap::new(), tokens.iter().map(token).collect())
    }

    #[test]
    fn a_token_is_found_by_all_of_its_text() {
        let rules = rules(&["one-token-of-some-length", "another-token-of-length"]);
        assert_eq!(rules.token(b"another-token-of-length").unwrap().name, "of another-token-of-length");
        for other in [&b"another-token-of-lengt"[..], b"another-token-of-length ", b""] {
            assert!(rules.token(other).is_none());
        }
        assert!(!rules.are_open() && self::rules(&[]).are_open());
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        let shown = format!("{:?}", rules(&["a-very-secret-token-text"]));
        assert!(shown.contains("of a-very") && !shown.contains("sha256"), "{shown}");
    }
}
