//! The access file: bearer tokens, and what users may do of whom the web configuration file says nothing but a
//! password. It holds no token: tokens have files of their own, or are there as their SHA-256.

use serde::Deserialize;
use serde::de::Error;

use super::scope::{Scope, Scopes};
use super::shown::{A_SCOPE, SCOPES};
use super::text::{List, Names, YamlText, read_text};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "fields with values")]
pub(super) struct AccessFile {
    pub(super) users: Names<ScopeWords>,
    pub(super) tokens: List<TokenEntry>,
}

/// One token.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "fields with values")]
pub(super) struct TokenEntry {
    pub(super) name: YamlText,
    pub(super) scopes: ScopeWords,
    #[serde(default)]
    pub(super) token_file: Option<YamlText>,
    #[serde(default)]
    pub(super) token_sha256: Option<YamlText>,
}

/// A list of scopes, not empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopeWords(pub(super) Scopes);

impl<'de> Deserialize<'de> for ScopeWords {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let List(words) = List::<ScopeWord>::deserialize(from)?;
        let scopes: Vec<_> = words.iter().map(|word| word.0).collect();
        match scopes.is_empty() {
            true => Err(D::Error::invalid_length(0, &SCOPES)),
            false => Ok(Self(Scopes::of(&scopes))),
        }
    }
}

/// One scope.
#[derive(Debug)]
struct ScopeWord(Scope);

impl<'de> Deserialize<'de> for ScopeWord {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_text(from, A_SCOPE, |word| Scope::of_word(&word).map(Self))
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
            (&file.tokens.0[0].name.0[..], file.tokens.0[0].scopes.0),
            ("agents", Scopes::of(&[Scope::Write]))
        );
    }

    #[test]
    fn what_is_no_scope_is_refused_with_its_place() {
        for (text, words) in [
            ("users:\n  alice: [write, everything]\n", ["users: it should be a scope", "line 2 column 18"]),
            ("users:\n  alice: []\n", ["list of scopes", "line 2"]),
            (
                "tokens:\n  - name: a\n    s3cret: s3cret\n    scopes: [read]\n",
                ["an unknown field; allowed: name, scopes, token_file, token_sha256", "line 3"],
            ),
            ("tokens:\n  - name: a\n", ["field scopes is missing", "line"]),
            ("tokens: s3cret\n", ["should be a list", "tokens"]),
            ("tokens: [s3cret]\n", ["should be fields with values", "line 1"]),
            ("tokens:\n  - name: a\n    scopes: s3cret\n", ["tokens: scopes: it should be a list", "line 3"]),
            ("users:\n  alice: [s3cret]\n", ["should be a scope", "line 2"]),
        ] {
            let fault = parse::<AccessFile>(text).unwrap_err();
            assert!(words.iter().all(|word| fault.contains(word)), "{text:?}: {fault}");
            assert!(!fault.contains("s3cret"), "{fault}");
        }
    }
}
