//! The access file: bearer tokens, and what users may do of whom the web configuration file says nothing but a
//! password. It holds no token: tokens have files of their own, or stand there as their SHA-256.

use serde::Deserialize;
use serde::de::Error;

use super::scope::{Scope, Scopes};
use super::text::{Fields, List, Names, Text};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AccessFile {
    pub(super) users: Names<ScopeWords>,
    pub(super) tokens: List<Fields<TokenEntry>>,
}

/// One token.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenEntry {
    pub(super) name: Text,
    pub(super) scopes: ScopeWords,
    #[serde(default)]
    pub(super) token_file: Option<Text>,
    #[serde(default)]
    pub(super) token_sha256: Option<Text>,
}

/// A list of scopes, not empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopeWords(pub(super) Scopes);

impl<'de> Deserialize<'de> for ScopeWords {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        const ALLOWED: &str = "allowed: write, read, admin, metrics";
        let List(words) = List::<Text>::deserialize(from)?;
        // Not shown: it may be a token that stands where scopes should.
        let scope = |(at, Text(word)): (usize, &Text)| {
            let wrong = || D::Error::custom(format!("number {} of the list is no scope; {ALLOWED}", at + 1));
            Scope::of_word(word).ok_or_else(wrong)
        };
        let scopes = words.iter().enumerate().map(scope).collect::<Result<Vec<_>, _>>()?;
        match scopes.is_empty() {
            true => Err(D::Error::custom(format!("the list of scopes is empty; {ALLOWED}"))),
            false => Ok(Self(Scopes::of(&scopes))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::web_file::parse;
    use super::*;

    #[test]
    fn users_and_tokens_have_scopes() {
        let file = parse::<AccessFile>(
            "users:\n  alice: [read, metrics]\ntokens:\n  - name: agents\n    token_file: agents.token\n    scopes: [write]\n",
        )
        .unwrap();
        assert_eq!(file.users.0["alice"].0, Scopes::of(&[Scope::Read, Scope::Metrics]));
        assert_eq!(
            (&file.tokens.0[0].0.name.0[..], file.tokens.0[0].0.scopes.0),
            ("agents", Scopes::of(&[Scope::Write]))
        );
    }

    #[test]
    fn what_is_no_scope_is_refused_with_its_place() {
        for (text, words) in [
            ("users:\n  alice: [write, everything]\n", ["number 2 of the list is no scope", "line 2"]),
            ("users:\n  alice: []\n", ["scopes is empty", "line 2"]),
            (
                "tokens:\n  - name: a\n    token: s3cret\n    scopes: [read]\n",
                ["unknown field `token`", "line"],
            ),
            ("tokens:\n  - name: a\n", ["missing field `scopes`", "line"]),
            ("tokens: s3cret\n", ["a list is wanted", "tokens"]),
            ("tokens: [s3cret]\n", ["fields with values are wanted", "line 1"]),
            ("tokens:\n  - name: a\n    scopes: s3cret\n", ["a list is wanted", "line"]),
            ("users:\n  alice: [s3cret]\n", ["number 1 of the list is no scope", "line 2"]),
        ] {
            let fault = parse::<AccessFile>(text).unwrap_err();
            assert!(words.iter().all(|word| fault.contains(word)), "{text:?}: {fault}");
            assert!(!fault.contains("s3cret"), "{fault}");
        }
    }
}
