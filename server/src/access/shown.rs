//! What is wrong with a file that can't be read into its structure, in words that have nothing of it: what is where a
//! section, a field's name or a value of another kind belongs may be a secret. Knows what serde and its YAML say.

use serde_yaml_ng::Error;

/// The fields of both files: of all that an error repeats these alone are shown.
const FIELDS: [&str; 27] = [
    "tls_server_config",
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_auth_type",
    "client_ca_file",
    "cipher_suites",
    "curve_preferences",
    "min_version",
    "max_version",
    "prefer_server_cipher_suites",
    "client_allowed_sans",
    "http_server_config",
    "http2",
    "headers",
    "basic_auth_users",
    "rate_limit",
    "burst",
    "interval",
    "users",
    "tokens",
    "name",
    "scopes",
    "token_file",
    "token_sha256",
];

pub(super) const FIELDS_WITH_VALUES: &str = "fields with values";
pub(super) const NAMES_WITH_VALUES: &str = "names with values";
pub(super) const PLAIN_TEXT: &str = "plain text";
pub(super) const A_LIST: &str = "a list";
pub(super) const TRUE_OR_FALSE: &str = "true or false";
pub(super) const A_HASH: &str = "a bcrypt hash (htpasswd -nBC 10 NAME)";
pub(super) const A_SCOPE: &str = "a scope (write, read, admin, metrics)";
pub(super) const SCOPES: &str = "a list of scopes that isn't empty (write, read, admin, metrics)";

/// What may be expected, and the words for it.
const EXPECTED: [(&str, &str); 14] = [
    (FIELDS_WITH_VALUES, FIELDS_WITH_VALUES),
    (NAMES_WITH_VALUES, NAMES_WITH_VALUES),
    (PLAIN_TEXT, PLAIN_TEXT),
    (A_LIST, A_LIST),
    (TRUE_OR_FALSE, TRUE_OR_FALSE),
    (A_HASH, A_HASH),
    (A_SCOPE, A_SCOPE),
    (SCOPES, SCOPES),
    ("i64", "a whole number"),
    // serde's and YAML's own.
    ("a sequence", A_LIST),
    ("a boolean", TRUE_OR_FALSE),
    ("an integer", "a whole number"),
    ("a float", "a number"),
    ("null", "nothing"),
];

/// What is wrong, and where: the section and the field as far as they are known ones, the line and the column.
pub(super) fn shown(error: &Error) -> String {
    let text = error.to_string();
    let at = error.location().map(|at| format!(" at line {} column {}", at.line(), at.column()));
    let at = at.unwrap_or_default();
    let said = text.strip_suffix(&at).unwrap_or(&text);
    match wrong(said) {
        Some(wrong) => format!("{}{wrong}{at}", path(said)),
        // The parser of YAML has fixed words, with the place in them. What quotes a file, or leads to a value, isn't its.
        None if !said.contains(['"', '`']) && !said.contains("invalid ") => text,
        None => format!("{}it can't be read{at}", path(said)),
    }
}

/// What serde says after the path.
fn wrong(said: &str) -> Option<String> {
    let is_expected = |(words, _): &&(&str, &str)| {
        said.strip_suffix(words).is_some_and(|before| before.ends_with(", expected "))
    };
    if let Some((_, words)) = EXPECTED.iter().find(is_expected) {
        return Some(format!("it should be {words}"));
    }
    if let Some(field) = FIELDS.iter().find(|field| said.ends_with(&format!("missing field `{field}`"))) {
        return Some(format!("the field {field} is missing"));
    }
    if said.contains("unknown field `") {
        let (_, allowed) = said.rsplit_once("`, expected ")?;
        let allowed: Vec<_> = allowed.split('`').filter_map(known).collect();
        return Some(format!("an unknown field; allowed: {}", allowed.join(", ")));
    }
    said.contains("duplicate ").then(|| "a duplicate name".to_owned())
}

/// The known fields that lead to the place, each with a colon.
fn path(said: &str) -> String {
    let (path, _) = said.split_once(": ").unwrap_or_default();
    let parts = path.split(['.', '[']).map(|part| match part.strip_suffix(']') {
        Some(_number) => Some(""),
        None => known(part),
    });
    let known = parts.map_while(|part| part).filter(|part| !part.is_empty());
    known.map(|field| format!("{field}: ")).collect()
}

fn known(name: &str) -> Option<&'static str> {
    FIELDS.into_iter().find(|field| *field == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::access_file::AccessFile;
    use super::super::web_file::WebFile;
    use super::*;

    /// The fields that serde says it would have known.
    fn allowed<T: serde::de::DeserializeOwned>(text: &str) -> Vec<String> {
        let Err(error) = serde_yaml_ng::from_str::<T>(text) else { panic!("{text:?} holds") };
        let said = error.to_string();
        let (_, allowed) = said.split_once("`, expected ").unwrap_or_else(|| panic!("{said}"));
        // Every second piece is between two quotes.
        allowed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn all_fields_of_both_files_are_known_and_no_others() {
        let of_files = [
            allowed::<WebFile>("x: 1"),
            allowed::<WebFile>("tls_server_config: {x: 1}"),
            allowed::<WebFile>("http_server_config: {x: 1}"),
            allowed::<WebFile>("rate_limit: {x: 1}"),
            allowed::<AccessFile>("x: 1"),
            allowed::<AccessFile>("tokens: [{x: 1}]"),
        ];
        let of_files: BTreeSet<String> = of_files.into_iter().flatten().collect();
        assert_eq!(of_files, FIELDS.map(str::to_owned).into());
    }
}
