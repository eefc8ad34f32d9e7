//! What a request says of who sends it: its `Authorization` header taken apart. Whether it is true isn't known here.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use silverback_model::limits::CREDENTIAL_BYTES_MAX;

/// What a request presents. Borrows of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presented<'a> {
    /// No such header.
    Nothing,
    /// Two of them, too long a one, or another scheme.
    Unreadable,
    /// `Basic`: base64 of a name, a colon and a password.
    Basic(&'a [u8]),
    /// `Bearer`; or `Token`, as InfluxDB's senders say it.
    Token(&'a [u8]),
}

impl<'a> Presented<'a> {
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (first, second) = (values.next(), values.next());
        match (first, second) {
            (None, _) => Self::Nothing,
            // Nobody has to know which of them counts.
            (Some(_), Some(_)) => Self::Unreadable,
            (Some(value), None) if value.len() > CREDENTIAL_BYTES_MAX => Self::Unreadable,
            (Some(value), None) => Self::of_value(value.as_bytes()),
        }
    }

    fn of_value(value: &'a [u8]) -> Self {
        let Some(space) = value.iter().position(|byte| *byte == b' ') else { return Self::Unreadable };
        let (scheme, rest) = value.split_at(space);
        let rest = rest.trim_ascii();
        if rest.is_empty() {
            Self::Unreadable
        } else if scheme.eq_ignore_ascii_case(b"basic") {
            Self::Basic(rest)
        } else if scheme.eq_ignore_ascii_case(b"bearer") || scheme.eq_ignore_ascii_case(b"token") {
            Self::Token(rest)
        } else {
            Self::Unreadable
        }
    }
}

/// A name and a password.
pub(super) struct Basic {
    pub(super) name: String,
    pub(super) password: Vec<u8>,
}

impl Basic {
    /// Reads what `Basic` is followed by. The first colon ends the name: a password may have more of them.
    pub(super) fn decode(base64: &[u8]) -> Option<Self> {
        let text = BASE64.decode(base64).ok()?;
        let colon = text.iter().position(|byte| *byte == b':')?;
        let name = str::from_utf8(&text[..colon]).ok()?.to_owned();
        Some(Self { name, password: text[colon + 1..].to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(values: &[&str], expect: Presented<'_>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(Presented::of(&headers), expect, "{values:?}");
    }

    #[test]
    fn a_header_is_read_by_its_scheme_in_any_case() {
        check(&[], Presented::Nothing);
        check(&["Basic YTpi"], Presented::Basic(b"YTpi"));
        check(&["basic  YTpi"], Presented::Basic(b"YTpi"));
        check(&["Bearer abc"], Presented::Token(b"abc"));
        check(&["Token abc"], Presented::Token(b"abc"));
        let long = format!("Bearer {}", "x".repeat(CREDENTIAL_BYTES_MAX));
        for unreadable in ["", "Basic", "Basic ", "Bearer", "Digest username=a", "YTpi", &long] {
            check(&[unreadable], Presented::Unreadable);
        }
        check(&["Bearer abc", "Bearer abc"], Presented::Unreadable);
    }

    #[test]
    fn the_first_colon_ends_the_name() {
        let decode = |text: &str| {
            let basic = Basic::decode(BASE64.encode(text).as_bytes())?;
            Some((basic.name, String::from_utf8(basic.password).unwrap()))
        };
        assert_eq!(decode("a:b:c"), Some(("a".into(), "b:c".into())));
        assert_eq!(decode(":"), Some((String::new(), String::new())));
        assert_eq!(decode("no colon"), None);
        assert!(
            Basic::decode(b"!").is_none() && Basic::decode(BASE64.encode(b"\xff:a").as_bytes()).is_none()
        );
    }
}
