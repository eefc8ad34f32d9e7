//! Which protocol a request speaks, from its method and headers. The content type alone decides;
//! `X-Prometheus-Remote-Write-Version` says nothing that a sender could not get wrong.

use http::{HeaderMap, HeaderName, Method, header};

use super::{Version, write_rejected::WriteRejected};

const PROTOBUF: &str = "application/x-protobuf";
const PROTO_V1: &str = "prometheus.WriteRequest";
const PROTO_V2: &str = "io.prometheus.write.v2.Request";

/// The version that a request is to be read as. An absent content type or encoding is that of
/// remote write 1, as in Prometheus.
pub fn negotiate(method: &Method, headers: &HeaderMap) -> Result<Version, WriteRejected> {
    if method != Method::POST {
        return Err(WriteRejected::Method);
    }
    let encoding = header_text(headers, header::CONTENT_ENCODING)?;
    if !(encoding.is_empty() || encoding.eq_ignore_ascii_case("snappy")) {
        return Err(WriteRejected::ContentEncoding(encoding.to_owned()));
    }
    let content_type = header_text(headers, header::CONTENT_TYPE)?;
    version_of(content_type).ok_or_else(|| WriteRejected::ContentType(content_type.to_owned()))
}

/// The version that a request has whose other headers may be wrong, if its content type says one.
pub fn asked_version(headers: &HeaderMap) -> Option<Version> {
    header_text(headers, header::CONTENT_TYPE).ok().and_then(version_of)
}

/// A header's text; two headers of one name would have to be guessed between.
pub(in crate::api) fn header_text(headers: &HeaderMap, name: HeaderName) -> Result<&str, WriteRejected> {
    let mut values = headers.get_all(&name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (None, _) => Ok(""),
        (Some(Ok(text)), None) => Ok(text.trim()),
        (Some(Ok(_) | Err(_)), _) => Err(WriteRejected::Header(name)),
    }
}

fn version_of(content_type: &str) -> Option<Version> {
    if content_type.is_empty() {
        return Some(Version::V1);
    }
    let (media_type, mut rest) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !media_type.trim().eq_ignore_ascii_case(PROTOBUF) {
        return None;
    }
    let mut version = Version::V1;
    while !rest.trim().is_empty() {
        let (name, value, after) = take_parameter(rest)?;
        if name.eq_ignore_ascii_case("proto") {
            version = match &*value {
                PROTO_V1 => Version::V1,
                PROTO_V2 => Version::V2,
                _unknown_message => return None,
            };
        }
        rest = after;
    }
    Some(version)
}

/// One parameter of RFC 9110, its value a token or a quoted string, and what follows its `;`.
fn take_parameter(rest: &str) -> Option<(&str, String, &str)> {
    let rest = rest.trim_start_matches([' ', '\t', ';']);
    if rest.is_empty() {
        return Some(("", String::new(), ""));
    }
    let (name, rest) = rest.split_once('=')?;
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => take_quoted(quoted)?,
        None => {
            let end = rest.find(';').unwrap_or(rest.len());
            (rest[..end].trim_end().to_owned(), &rest[end..])
        }
    };
    let rest = rest.trim_start();
    let ends = rest.is_empty() || rest.starts_with(';');
    (is_token(name) && ends).then_some((name, value, rest))
}

fn is_token(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_ascii_whitespace() || "\";,/".contains(c))
}

fn take_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (end, '"') => return Some((value, &text[end + 1..])),
            (_, '\\') => value.push(chars.next()?.1),
            (_, plain) => value.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content_type: &str, expect: Option<Version>) {
        assert_eq!(version_of(content_type), expect, "{content_type:?}");
    }

    #[test]
    fn the_content_type_tells_the_version() {
        check("", Some(Version::V1));
        check("application/x-protobuf", Some(Version::V1));
        check("application/x-protobuf;proto=prometheus.WriteRequest", Some(Version::V1));
        check("application/x-protobuf;proto=io.prometheus.write.v2.Request", Some(Version::V2));
    }

    #[test]
    fn parameters_are_read_as_the_standard_has_them() {
        check("Application/X-Protobuf ; Proto=\"io.prometheus.write.v2.Request\"", Some(Version::V2));
        check(
            "application/x-protobuf; charset=utf-8; proto=io.prometheus.write.v2.Request ;",
            Some(Version::V2),
        );
        check("application/x-protobuf; a=\"; proto=x\"", Some(Version::V1));
        check("application/x-protobuf; a=\"\\\"\";proto=io.prometheus.write.v2.Request", Some(Version::V2));
        check("application/x-protobuf;", Some(Version::V1));
        check("application/x-protobuf;;proto=io.prometheus.write.v2.Request", Some(Version::V2));
    }

    #[test]
    fn what_is_not_spoken_here_is_refused() {
        check("application/json", None);
        check("application/x-protobuf;proto=io.prometheus.write.v3.Request", None);
        check("application/x-protobuf;proto=IO.prometheus.write.v2.Request", None);
        check("application/x-protobuf;proto", None);
        check("application/x-protobuf;proto=\"prometheus.WriteRequest", None);
        check("application/x-protobuf;proto=\"prometheus.WriteRequest\"x", None);
        check("application/x-protobuffer", None);
    }

    fn check_headers(method: Method, headers: &[(HeaderName, &str)], expect: Result<Version, WriteRejected>) {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        assert_eq!(negotiate(&method, &headers), expect, "{method} {headers:?}");
    }

    #[test]
    fn only_posts_in_snappy_are_taken() {
        use header::{CONTENT_ENCODING, CONTENT_TYPE};
        check_headers(Method::POST, &[], Ok(Version::V1));
        check_headers(Method::POST, &[(CONTENT_ENCODING, "snappy")], Ok(Version::V1));
        check_headers(Method::POST, &[(CONTENT_ENCODING, " Snappy")], Ok(Version::V1));
        check_headers(Method::GET, &[], Err(WriteRejected::Method));
        for other in ["gzip", "identity", "snappy, gzip", "zstd"] {
            let refused = WriteRejected::ContentEncoding(other.to_owned());
            check_headers(Method::POST, &[(CONTENT_ENCODING, other)], Err(refused));
        }
        let refused = WriteRejected::ContentType("text/plain".to_owned());
        check_headers(Method::POST, &[(CONTENT_TYPE, "text/plain")], Err(refused));
    }

    #[test]
    fn a_content_type_says_the_version_of_a_request_that_is_refused_for_another_header() {
        let asked = |content_type: &str| {
            let mut headers = HeaderMap::new();
            headers.append(header::CONTENT_ENCODING, "gzip".parse().unwrap());
            headers.append(header::CONTENT_TYPE, content_type.parse().unwrap());
            assert!(negotiate(&Method::POST, &headers).is_err());
            asked_version(&headers)
        };
        assert_eq!(asked(&format!("{PROTOBUF};proto={PROTO_V2}")), Some(Version::V2));
        assert_eq!(asked(PROTOBUF), Some(Version::V1));
        assert_eq!(asked("text/plain"), None);
    }

    #[test]
    fn a_header_that_stands_twice_is_refused() {
        let mut headers = HeaderMap::new();
        headers.append(header::CONTENT_TYPE, PROTOBUF.parse().unwrap());
        headers.append(header::CONTENT_TYPE, "text/plain".parse().unwrap());
        let refused = Err(WriteRejected::Header(header::CONTENT_TYPE));
        assert_eq!(negotiate(&Method::POST, &headers), refused);
    }

    #[test]
    fn the_version_header_decides_nothing() {
        let version = HeaderName::from_static("x-prometheus-remote-write-version");
        check_headers(Method::POST, &[(version, "2.0.0")], Ok(Version::V1));
    }
}
