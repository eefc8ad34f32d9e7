//! `tls_server_config`: what of it means TLS, and its files, made into the settings of encrypted connections.

use std::path::Path;

use silverback_model::clock::Clock;
use silverback_model::utc::format_rfc3339;
use silverback_runtime::tls::{
    CertificateStatus, ClientCertificates, Role, TlsConfig, TlsSettings, TlsVersions, Validity,
};

use super::error::AccessError;
use super::files::FileStamps;
use super::text::YamlText;
use super::web_file::TlsSection;

const SECTION: &str = "tls_server_config";

/// What connections are encrypted by; `None`: the section says nothing of that, so they aren't.
pub(super) fn read(
    path: &Path,
    section: TlsSection,
    http2: bool,
    reading: &mut FileStamps,
    cautions: &mut Vec<String>,
) -> Result<Option<TlsConfig>, AccessError> {
    let fault = |wrong: String| AccessError::new(path, format!("{SECTION}: {wrong}"));
    let TlsSection { cert, key, client_ca, cert_file, key_file, client_auth_type, client_ca_file, .. } =
        &section;
    let key_inline = key.as_ref().map(|key| key.0.as_str());
    let is_set = [cert, client_ca, cert_file, key_file, client_auth_type, client_ca_file]
        .into_iter()
        .map(text_of)
        .chain([key_inline.filter(|key| !key.is_empty())])
        .any(|value| value.is_some());
    if !is_set {
        return Ok(None);
    }
    let mut pem = |field: &str, file: Option<&str>, inline: Option<&str>| match (file, inline) {
        // As in Prometheus the file counts where there are both.
        (Some(file), _) => reading.text_named(path, &format!("{SECTION}: {field}"), file).map(Some),
        (None, inline) => Ok(inline.filter(|text| !text.is_empty()).map(str::to_owned)),
    };
    let cert_pem = pem("cert_file", text_of(cert_file), text_of(cert))?;
    let key_pem = pem("key_file", text_of(key_file), key_inline)?;
    let ca_pem = pem("client_ca_file", text_of(client_ca_file), text_of(client_ca))?;
    let settings = TlsSettings {
        cert_pem: cert_pem.ok_or_else(|| fault("cert_file, or cert, is missing".to_owned()))?,
        key_pem: key_pem.ok_or_else(|| fault("key_file, or key, is missing".to_owned()))?,
        clients: clients(text_of(client_auth_type), ca_pem).map_err(fault)?,
        client_allowed_sans: section.client_allowed_sans.map(|sans| texts(Some(sans))),
        versions: versions(section.min_version, section.max_version, cautions).map_err(fault)?,
        cipher_suites: texts(section.cipher_suites),
        curves: texts(section.curve_preferences),
        prefers_own_order: section.prefer_server_cipher_suites.is_none_or(|prefers| prefers.0),
        http2,
    };
    let now_ms = Clock::System.now_ms();
    let tls = TlsConfig::new(&settings, now_ms, cautions).map_err(|wrong| fault(wrong.to_string()))?;
    cautions.extend(tls.dates().iter().filter_map(|(role, validity)| caution(*role, validity, now_ms)));
    Ok(Some(tls))
}

/// What an operator should know of a certificate that isn't valid.
fn caution(role: Role, validity: &Validity, now_ms: i64) -> Option<String> {
    let [from, to] = [validity.not_before_ms, validity.not_after_ms].map(format_rfc3339);
    let status = match validity.status_at(now_ms) {
        CertificateStatus::Valid => return None,
        CertificateStatus::NotYetValid => format!("isn't valid before {from} (it ends at {to})"),
        CertificateStatus::Expired => format!("expired at {to} (it began at {from})"),
    };
    Some(match role {
        Role::Server => format!("the node's certificate {status}: clients that verify it turn away"),
        Role::Chain => format!("a certificate that the node sends with its own {status}"),
        Role::ClientCa => format!("a client CA's certificate {status}: its clients are refused"),
    })
}

fn text_of(text: &Option<YamlText>) -> Option<&str> {
    text.as_ref().map(|text| text.0.as_str()).filter(|text| !text.is_empty())
}

fn texts(list: Option<Vec<YamlText>>) -> Vec<String> {
    list.unwrap_or_default().into_iter().map(|text| text.0).collect()
}

/// By Go's names.
fn clients(kind: Option<&str>, ca_pem: Option<String>) -> Result<ClientCertificates, String> {
    match kind {
        None | Some("NoClientCert") if ca_pem.is_some() => {
            Err("there is a client_ca and no client_auth_type that asks for certificates of it".to_owned())
        }
        None | Some("NoClientCert") => Ok(ClientCertificates::None),
        Some("RequestClientCert") => Ok(ClientCertificates::Requested),
        Some("RequireAnyClientCert" | "RequireClientCert") => Ok(ClientCertificates::AnyRequired),
        Some("VerifyClientCertIfGiven") => Ok(ClientCertificates::KnownIfGiven(ca_pem)),
        Some("RequireAndVerifyClientCert") => Ok(ClientCertificates::KnownRequired(ca_pem)),
        Some(_unshown) => Err("client_auth_type: it isn't one; allowed: NoClientCert, RequestClientCert, \
             RequireAnyClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert"
            .to_owned()),
    }
}

/// A version of TLS, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TlsVersion {
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

/// The version by Go's name that a field has.
fn version(field: &str, name: &str) -> Result<TlsVersion, String> {
    match name {
        "TLS10" => Ok(TlsVersion::Tls10),
        "TLS11" => Ok(TlsVersion::Tls11),
        "TLS12" => Ok(TlsVersion::Tls12),
        "TLS13" => Ok(TlsVersion::Tls13),
        _unshown => Err(format!("{field}: it isn't a version of TLS; allowed: TLS10, TLS11, TLS12, TLS13")),
    }
}

/// The versions from the one to the other, as far as they are spoken here.
fn versions(
    min: Option<YamlText>,
    max: Option<YamlText>,
    cautions: &mut Vec<String>,
) -> Result<TlsVersions, String> {
    let min = min.map(|name| version("min_version", &name.0)).transpose()?;
    let max = max.map(|name| version("max_version", &name.0)).transpose()?;
    let (min, max) = (min.unwrap_or(TlsVersion::Tls12), max.unwrap_or(TlsVersion::Tls13));
    if min < TlsVersion::Tls12 && max >= TlsVersion::Tls12 {
        cautions.push("min_version: nothing below TLS12 is spoken here: it is TLS12".to_owned());
    }
    match (min, max) {
        (_, TlsVersion::Tls10 | TlsVersion::Tls11) => {
            Err("max_version: nothing below TLS12 is spoken here; allowed: TLS12, TLS13".to_owned())
        }
        (TlsVersion::Tls13, TlsVersion::Tls12) => Err("min_version is above max_version".to_owned()),
        (TlsVersion::Tls13, TlsVersion::Tls13) => Ok(TlsVersions::Tls13),
        (TlsVersion::Tls10 | TlsVersion::Tls11 | TlsVersion::Tls12, TlsVersion::Tls12) => {
            Ok(TlsVersions::Tls12)
        }
        (TlsVersion::Tls10 | TlsVersion::Tls11 | TlsVersion::Tls12, TlsVersion::Tls13) => {
            Ok(TlsVersions::Tls12AndTls13)
        }
    }
}
