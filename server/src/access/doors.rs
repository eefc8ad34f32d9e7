//! All that the files say, as it holds until they change: who may do what, how connections are encrypted, what every
//! answer has. Made of the files by reading them; nothing here watches them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use silverback_model::limits::TOKENS_MAX;

use super::access_file::{AccessFile, TokenEntry};
use super::error::AccessError;
use super::files::FileStamps;
use super::password_hash::PasswordHash;
use super::rules::{AccessToken, Digest, Rules, User, sha256};
use super::scope::Scopes;
use super::tls_section;
use super::web_file::{HttpSection, WebFile, parse};
use silverback_runtime::tls::{Role, TlsConfig, Validity};

/// A token that is shorter than this can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// A bcrypt cost from which on a password takes seconds to check.
const COST_SLOW: u32 = 15;

/// Where the files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sources {
    /// `--web-config-file`
    pub(crate) web: Option<PathBuf>,
    /// `--access-file`
    pub(crate) access: Option<PathBuf>,
}

/// What the files say.
#[derive(Debug)]
pub(crate) struct Doors {
    /// Who may do what.
    pub(crate) rules: Arc<Rules>,
    /// How connections are encrypted, if they are.
    pub(crate) tls: Option<TlsConfig>,
    /// What every answer has.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// What an operator should know.
    pub(crate) cautions: Vec<String>,
}

impl Doors {
    /// Whether no credentials are asked for.
    pub(crate) fn are_open(&self) -> bool {
        self.rules.are_open() && !self.tls.as_ref().is_some_and(TlsConfig::wants_known_clients)
    }

    /// When a certificate begins or ceases to be valid next, in ms since the Unix epoch.
    pub(crate) fn changes_after(&self, now_ms: i64) -> Option<i64> {
        self.dates().filter_map(|(_, validity)| validity.changes_after(now_ms)).min()
    }

    /// When the first of the certificates that are there for something expires, in ms since the Unix epoch.
    pub(crate) fn not_after_ms(&self, role: Role) -> Option<i64> {
        let of_role = self.dates().filter(|(its, _)| *its == role);
        of_role.map(|(_, validity)| validity.not_after_ms).min()
    }

    fn dates(&self) -> impl Iterator<Item = &(Role, Validity)> {
        self.tls.iter().flat_map(TlsConfig::dates)
    }

    /// Whether passwords and tokens cross the network for all to read.
    pub(crate) fn are_overheard(&self) -> bool {
        self.tls.is_none() && !self.rules.are_open()
    }
}

/// Reads all files.
pub(super) fn load(sources: &Sources, reading: &mut FileStamps) -> Result<Doors, AccessError> {
    let mut cautions = Vec::new();
    let (web_path, web) = match &sources.web {
        Some(path) => {
            let text = reading.text(path)?;
            (path.as_path(), parse(&text).map_err(|wrong| AccessError::new(path, wrong))?)
        }
        None => (Path::new(""), WebFile::default()),
    };
    let interval = web.rate_limit.and_then(|limit| limit.interval);
    if interval.is_some_and(|interval| !is_no_time(&interval.0)) {
        let wrong = "rate_limit: this node has no such limit: it bounds connections and memory instead \
                     (--max-connections, --memory-limit)";
        return Err(AccessError::new(web_path, wrong));
    }
    let http = web.http_server_config.unwrap_or_default();
    let headers = headers(web_path, &http)?;
    let http2 = http.http2.is_none_or(|is_on| is_on.0);
    let tls = match web.tls_server_config {
        Some(section) => tls_section::read(web_path, section, http2, reading, &mut cautions)?,
        None => None,
    };
    let mut users = users(web.basic_auth_users.0, &mut cautions);
    let tokens = match &sources.access {
        Some(path) => access(path, &mut users, reading)?,
        None => Vec::new(),
    };
    Ok(Doors { rules: Arc::new(Rules::new(users, tokens)), tls, headers, cautions })
}

/// Whether a time as Go writes it is none: `0`, `0s`.
fn is_no_time(text: &str) -> bool {
    let number = text.trim_end_matches(|unit: char| unit.is_alphabetic());
    let is_unit = |unit: &str| ["ns", "us", "µs", "ms", "s", "m", "h"].contains(&unit);
    number == "0" && (number == text || is_unit(&text[number.len()..]))
}

/// Users as Prometheus has them: each may do everything.
fn users(written: BTreeMap<String, PasswordHash>, cautions: &mut Vec<String>) -> BTreeMap<String, User> {
    let mut users = BTreeMap::new();
    for (name, PasswordHash { text, cost }) in written {
        if cost >= COST_SLOW {
            cautions.push(format!(
                "the password of {name:?} takes seconds to check: its bcrypt cost is {cost}, and 10 to 12 will do"
            ));
        }
        users.insert(name, User { hash: text.0.into(), cost, scopes: Scopes::ALL });
    }
    users
}

/// What the access file says of users, and its tokens.
fn access(
    path: &Path,
    users: &mut BTreeMap<String, User>,
    reading: &mut FileStamps,
) -> Result<Vec<AccessToken>, AccessError> {
    let text = reading.text(path)?;
    let file: AccessFile = parse(&text).map_err(|wrong| AccessError::new(path, wrong))?;
    for (name, scopes) in &file.users.0 {
        let user = users.get_mut(name).ok_or_else(|| {
            AccessError::new(path, format!("users: {name:?} has no password in the web configuration file"))
        })?;
        user.scopes = scopes.0;
    }
    if file.tokens.0.len() > TOKENS_MAX {
        return Err(AccessError::new(path, format!("tokens: there are more than {TOKENS_MAX}")));
    }
    let (mut tokens, mut names, mut hashes) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for entry in &file.tokens.0 {
        let name = &entry.name.0;
        let wrong = |wrong: String| AccessError::new(path, format!("tokens: {name:?}: {wrong}"));
        let sha256 = token_hash(path, entry, reading)?.map_err(wrong)?;
        if users.contains_key(name) || !names.insert(name.clone()) {
            return Err(wrong("another token, or a user, has this name".to_owned()));
        }
        if !hashes.insert(sha256) {
            return Err(wrong("another one has the same token".to_owned()));
        }
        tokens.push(AccessToken { name: name.clone(), sha256, scopes: entry.scopes.0 });
    }
    Ok(tokens)
}

/// A token's hash; the outer fault is of its own file.
fn token_hash(
    path: &Path,
    entry: &TokenEntry,
    reading: &mut FileStamps,
) -> Result<Result<Digest, String>, AccessError> {
    Ok(match (&entry.token_file, &entry.token_sha256) {
        (Some(file), None) => {
            let text =
                reading.text_named(path, &format!("tokens: {:?}: token_file", entry.name.0), &file.0)?;
            let token = text.trim();
            if token.len() < TOKEN_BYTES_MIN {
                Err(format!(
                    "token_file: a token has {TOKEN_BYTES_MIN} characters at least (openssl rand -hex 32)"
                ))
            } else if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                Err("token_file: a token is one line of letters, digits and signs".to_owned())
            } else {
                Ok(sha256(token.as_bytes()))
            }
        }
        (None, Some(hex)) => unhex(&hex.0)
            .ok_or_else(|| "token_sha256: a SHA-256 has 64 digits of base 16 (sha256sum)".to_owned()),
        (Some(_), Some(_)) | (None, None) => Err("either token_file or token_sha256 is wanted".to_owned()),
    })
}

fn unhex(text: &str) -> Option<Digest> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut digest = Digest::default();
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

/// The headers that Prometheus allows, with the values that it does.
fn headers(path: &Path, http: &HttpSection) -> Result<Vec<(HeaderName, HeaderValue)>, AccessError> {
    const ALLOWED: [(&str, &[&str]); 5] = [
        ("Strict-Transport-Security", &[]),
        ("X-Content-Type-Options", &["nosniff"]),
        ("X-Frame-Options", &["deny", "sameorigin"]),
        ("X-XSS-Protection", &[]),
        ("Content-Security-Policy", &[]),
    ];
    let mut headers = Vec::new();
    for (name, value) in &http.headers.0 {
        let value = value.as_ref().map_or("", |value| &value.0);
        let fault = |wrong: String| AccessError::new(path, format!("http_server_config: headers: {wrong}"));
        let (name, values) = ALLOWED.into_iter().find(|(known, _)| known == name).ok_or_else(|| {
            let names = ALLOWED.map(|(name, _)| name).join(", ");
            fault(format!("there is one that can't be set; allowed: {names}"))
        })?;
        if !values.is_empty() && !values.contains(&value) {
            return Err(fault(format!("{name}: it has another value; allowed: {}", values.join(", "))));
        }
        let value = HeaderValue::from_str(value).map_err(|error| fault(format!("{name}: {error}")))?;
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| fault(error.to_string()))?;
        headers.push((name, value));
    }
    Ok(headers)
}
