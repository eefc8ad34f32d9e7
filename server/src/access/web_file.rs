//! Prometheus' web configuration file as it is written: the schema of its exporter toolkit. Every field is known, every
//! other refused, with its place. What its values mean for TLS and for users is not known here.

use serde::Deserialize;

use super::password_hash::PasswordHash;
use super::shown::shown;
use super::text::{Names, Secret, YamlBool, YamlText};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "fields with values")]
pub(super) struct WebFile {
    pub(super) tls_server_config: Option<TlsSection>,
    pub(super) http_server_config: Option<HttpSection>,
    pub(super) basic_auth_users: Names<PasswordHash>,
    pub(super) rate_limit: Option<RateSection>,
}

/// `tls_server_config`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "fields with values")]
pub(super) struct TlsSection {
    pub(super) cert: Option<YamlText>,
    pub(super) key: Option<Secret>,
    pub(super) client_ca: Option<YamlText>,
    pub(super) cert_file: Option<YamlText>,
    pub(super) key_file: Option<YamlText>,
    pub(super) client_auth_type: Option<YamlText>,
    pub(super) client_ca_file: Option<YamlText>,
    pub(super) cipher_suites: Option<Vec<YamlText>>,
    pub(super) curve_preferences: Option<Vec<YamlText>>,
    pub(super) min_version: Option<YamlText>,
    pub(super) max_version: Option<YamlText>,
    pub(super) prefer_server_cipher_suites: Option<YamlBool>,
    pub(super) client_allowed_sans: Option<Vec<YamlText>>,
}

/// `http_server_config`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "fields with values")]
pub(super) struct HttpSection {
    pub(super) http2: Option<YamlBool>,
    /// One of nothing is empty.
    pub(super) headers: Names<Option<YamlText>>,
}

/// `rate_limit`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "fields with values")]
pub(super) struct RateSection {
    #[serde(rename = "burst")]
    _burst: Option<i64>,
    pub(super) interval: Option<YamlText>,
}

/// Reads YAML into a structure with defaults, of which nothing is the default; a fault has its line and column.
pub(super) fn parse<T: Default + serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    match serde_yaml_ng::from_str(text) {
        Ok(serde_yaml_ng::Value::Null) => Ok(T::default()),
        Ok(serde_yaml_ng::Value::Mapping(_)) => serde_yaml_ng::from_str(text).map_err(|error| shown(&error)),
        Ok(_) => Err("it is not a mapping".to_owned()),
        Err(error) => Err(format!("it is not YAML: {}", shown(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::access_file::AccessFile;
    use super::*;

    fn check_refused(text: &str, words: &[&str]) {
        let fault = parse::<WebFile>(text).unwrap_err();
        assert!(words.iter().all(|word| fault.contains(word)), "{text:?}: {fault}");
        assert!(!fault.contains("hunter2"), "a secret is repeated: {fault}");
    }

    #[test]
    fn every_field_of_the_toolkit_is_known() {
        let text = "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: NoClientCert\n  \
            client_ca_file: c\n  client_allowed_sans: [d, e]\n  min_version: TLS12\n  max_version: TLS13\n  \
            cipher_suites: [f]\n  prefer_server_cipher_suites: false\n  curve_preferences: [g]\n\
            http_server_config:\n  http2: false\n  headers:\n    X-XSS-Protection: 1\n\
            basic_auth_users:\n  alice: HASH\n  7: HASH\n";
        let hash = bcrypt::hash("secret", 4).unwrap();
        let file = parse::<WebFile>(&text.replace("HASH", &hash)).unwrap();
        let (tls, http) = (file.tls_server_config.unwrap(), file.http_server_config.unwrap());
        assert_eq!(tls.min_version.map(|version| version.0).as_deref(), Some("TLS12"));
        let header = http.headers.0["X-XSS-Protection"].as_ref();
        assert_eq!((http.http2, header.map(|text| &text.0[..])), (Some(YamlBool(false)), Some("1")));
        assert_eq!(file.basic_auth_users.0["7"].text.0, hash);
        for nothing in ["", "# nothing\n", "tls_server_config:\nbasic_auth_users:\n"] {
            let file = parse::<WebFile>(nothing).unwrap();
            assert!(file.tls_server_config.is_none() && file.basic_auth_users.0.is_empty());
        }
    }

    #[test]
    fn a_fault_has_its_field_and_its_place() {
        check_refused(
            "tls_server_config:\n  cert_file: a\n  hunter2: b\n",
            &["tls_server_config: ", "line 3 column 3"],
        );
        check_refused(
            "hunter2:\n  a: b\n",
            &["unknown field", "tls_server_config, http_server_config", "line 1"],
        );
        check_refused("hunter2\nmore hunter2\n", &["not a mapping"]);
        check_refused("tls_server_config: {hunter2: a\n", &["not YAML", "line"]);
        check_refused("basic_auth_users: hunter2\n", &["basic_auth_users: ", "names with values", "line 1"]);
        check_refused("basic_auth_users:\n  hunter2: [a]\n", &["basic_auth_users: ", "bcrypt", "line 2"]);
        check_refused("basic_auth_users:\n  a: 7\n  hunter2: hunter2\n", &["bcrypt", "line 2 column 6"]);
        check_refused("basic_auth_users:\n  hunter2: b\n  hunter2: c\n", &["duplicate", "line 2"]);
        check_refused("tls_server_config:\n  key: {a: hunter2}\n", &["tls_server_config: key: ", "line 2"]);
        check_refused("tls_server_config:\n  cert_file: a\n  cert_file: b\n", &["duplicate"]);
        check_refused(
            "http_server_config:\n  http2: hunter2\n",
            &["http2: ", "true or false", "line 2 column 10"],
        );
    }

    #[test]
    fn a_secret_that_stands_anywhere_is_not_shown_and_no_type_is_named() {
        let sections = ["tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"];
        let fields = [
            "tls_server_config:\n  cert_file",
            "tls_server_config:\n  cipher_suites",
            "tls_server_config:\n  client_allowed_sans",
            "tls_server_config:\n  prefer_server_cipher_suites",
            "http_server_config:\n  http2",
            "http_server_config:\n  headers",
            "http_server_config:\n  headers:\n    X-Frame-Options",
            "basic_auth_users:\n  alice",
            "rate_limit:\n  burst",
        ];
        let values = [
            "hunter2",
            "\"hunter2`, expected hunter2\"",
            "'hunter2: unknown field `hunter2`, expected hunter2'",
            "[hunter2]",
            "[[hunter2]]",
            "{hunter2: hunter2}",
            "{hunter2: {hunter2: hunter2}}",
            "{hunter2: [hunter2], hunter2: a}",
            "{[hunter2]: hunter2}",
            "!hunter2 a",
            "!hunter2 {a: b}",
            "!!int hunter2",
            "!!bool hunter2",
            "!!float hunter2",
            "!!null hunter2",
            "!!hunter2 [a]",
            "*hunter2",
            "&hunter2 [*hunter2]",
            "[hunter2",
            "{hunter2",
            "'hunter2",
            "hunter2: hunter2",
            "\n\thunter2",
            "%hunter2",
            "@hunter2",
            "|hunter2",
            "{<<: hunter2}",
            "{<<: [hunter2]}",
            "-hunter2",
            "\n- hunter2",
            "\n    hunter2: a",
        ];
        let mut refused = 0;
        for field in sections.iter().chain(&fields).chain(&["hunter2", "users", "tokens"]) {
            for value in values {
                let text = format!("{field}: {value}\n");
                let faults = [parse::<WebFile>(&text).err(), parse::<AccessFile>(&text).err()];
                refused += faults.iter().flatten().count();
                for fault in faults.iter().flatten() {
                    let shows = |word| fault.contains(word);
                    assert!(!shows("hunter2") && !shows("Section") && !shows("struct"), "{text:?}: {fault}");
                }
            }
        }
        assert!(refused > 600, "{refused}");
    }
}
