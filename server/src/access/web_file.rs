//! Prometheus' web configuration file as it is written: the schema of its exporter toolkit. Every field is known, every
//! other refused, with its place. What its values mean for TLS and for users is not known here.

use serde::Deserialize;

use super::text::{Names, Secret, Text, YamlBool};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WebFile {
    pub(super) tls_server_config: Option<TlsSection>,
    pub(super) http_server_config: Option<HttpSection>,
    pub(super) basic_auth_users: Names<Secret>,
    pub(super) rate_limit: Option<RateSection>,
}

/// `tls_server_config`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsSection {
    pub(super) cert: Option<Text>,
    pub(super) key: Option<Secret>,
    pub(super) client_ca: Option<Text>,
    pub(super) cert_file: Option<Text>,
    pub(super) key_file: Option<Text>,
    pub(super) client_auth_type: Option<Text>,
    pub(super) client_ca_file: Option<Text>,
    pub(super) cipher_suites: Option<Vec<Text>>,
    pub(super) curve_preferences: Option<Vec<Text>>,
    pub(super) min_version: Option<Text>,
    pub(super) max_version: Option<Text>,
    pub(super) prefer_server_cipher_suites: Option<YamlBool>,
    pub(super) client_allowed_sans: Option<Vec<Text>>,
}

/// `http_server_config`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpSection {
    pub(super) http2: Option<YamlBool>,
    /// One of nothing is empty.
    pub(super) headers: Names<Option<Text>>,
}

/// `rate_limit`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RateSection {
    #[serde(rename = "burst")]
    _burst: Option<i64>,
    pub(super) interval: Option<Text>,
}

/// Reads YAML into a structure with defaults, of which nothing is the default; a fault has its line and column.
pub(super) fn parse<T: Default + serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    match serde_yaml_ng::from_str(text) {
        Ok(serde_yaml_ng::Value::Null) => Ok(T::default()),
        Ok(serde_yaml_ng::Value::Mapping(_)) => {
            serde_yaml_ng::from_str(text).map_err(|error| error.to_string())
        }
        // serde would repeat what is there, which may be a secret.
        Ok(_) => Err("it is not a mapping".to_owned()),
        Err(error) => Err(format!("it is not YAML: {error}")),
    }
}

#[cfg(test)]
mod tests {
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
            basic_auth_users:\n  alice: $2y$x\n  7: $2y$y\n";
        let file = parse::<WebFile>(text).unwrap();
        let (tls, http) = (file.tls_server_config.unwrap(), file.http_server_config.unwrap());
        assert_eq!(tls.min_version.map(|version| version.0).as_deref(), Some("TLS12"));
        let header = http.headers.0["X-XSS-Protection"].as_ref();
        assert_eq!((http.http2, header.map(|text| &text.0[..])), (Some(YamlBool(false)), Some("1")));
        assert_eq!(file.basic_auth_users.0["7"].0, "$2y$y");
        for nothing in ["", "# nothing\n", "tls_server_config:\nbasic_auth_users:\n"] {
            let file = parse::<WebFile>(nothing).unwrap();
            assert!(file.tls_server_config.is_none() && file.basic_auth_users.0.is_empty());
        }
    }

    #[test]
    fn a_fault_has_its_field_and_its_place_and_no_secret() {
        check_refused(
            "tls_server_config:\n  cert_filse: a\n",
            &["tls_server_config", "cert_filse", "line 2"],
        );
        check_refused("junk\nmore junk\n", &["not a mapping"]);
        check_refused("basic_auth_users: hunter2\n", &["basic_auth_users", "line 1"]);
        check_refused("basic_auth_users:\n  a: [hunter2]\n", &["basic_auth_users", "line 2"]);
        check_refused("basic_auth_users:\n  a: b\n  a: hunter2\n", &["duplicate", "line 2"]);
        check_refused("tls_server_config:\n  key: {a: hunter2}\n", &["key", "line 2"]);
        check_refused("tls_server_config:\n  cert_file: a\n  cert_file: b\n", &["cert_file"]);
    }
}
