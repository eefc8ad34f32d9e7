//! A host and its port, as `Host`, `:authority` and origins have them. Knows the text alone.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What is before a path in a URL. Borrows its text: it is looked at with each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    /// The host: a name, an IPv4 address, or an IPv6 address in brackets.
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `host`, `host:port` or `[address]:port`; `None` for anything else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let host_bytes = match text.strip_prefix('[') {
            Some(inner) => {
                let (address, _) = inner.split_once(']')?;
                let (address, _zone) = address.split_once('%').unwrap_or((address, ""));
                address.parse::<Ipv6Addr>().ok()?;
                text.find(']')? + 1
            }
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_bytes);
        let port = match rest.strip_prefix(':') {
            // RFC 3986 has an empty port for the default one.
            None | Some("") => None,
            Some(digits) => Some(parse_port(digits)?),
        };
        let is_whole = rest.is_empty() || rest.starts_with(':');
        (is_whole && !host.is_empty()).then_some(Self { host, port })
    }

    /// The host without its port.
    pub(crate) fn host(&self) -> &'a str {
        self.host
    }

    /// Whether the host is an address. Nobody but its owner answers for it, as somebody else may for a name.
    pub(crate) fn is_address(&self) -> bool {
        self.host.starts_with('[') || self.host.parse::<Ipv4Addr>().is_ok()
    }

    /// Whether an origin (`https://host:port`) is of this host and port. One without a port has the scheme's.
    pub(crate) fn is_origin(&self, origin: &str) -> bool {
        let (default_port, rest) = match origin.split_once("://") {
            Some(("http", rest)) => (80, rest),
            Some(("https", rest)) => (443, rest),
            // `null`, an extension's, a file's.
            Some(_) | None => return false,
        };
        Authority::parse(rest).is_some_and(|other| {
            without_dot(self.host).eq_ignore_ascii_case(without_dot(other.host))
                && self.port.unwrap_or(default_port) == other.port.unwrap_or(default_port)
        })
    }
}

fn without_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

fn parse_port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(&str, Option<u16>)>) {
        let parsed = Authority::parse(text).map(|authority| (authority.host, authority.port));
        assert_eq!(parsed, expect, "{text:?}");
    }

    #[test]
    fn hosts_are_read_with_a_port_and_without() {
        check("node", Some(("node", None)));
        check("node:9009", Some(("node", Some(9009))));
        check("node:", Some(("node", None)));
        check("127.0.0.1:9009", Some(("127.0.0.1", Some(9009))));
        check("[::1]:9009", Some(("[::1]", Some(9009))));
        check("[fe80::1%eth0]", Some(("[fe80::1%eth0]", None)));
    }

    #[test]
    fn what_is_no_host_is_none() {
        for text in ["", ":9009", "::1", "[::1", "[]", "[::1]x", "[node]", "a:x", "a:+1", "a:65536", "a:1:2"]
        {
            check(text, None);
        }
    }

    #[test]
    fn addresses_are_told_from_names() {
        for (text, is_address) in [
            ("127.0.0.1", true),
            ("10.0.0.1:80", true),
            ("[::1]:80", true),
            ("[fe80::1%25eth0]", true),
            ("localhost", false),
            ("127.0.0.1.evil.example", false),
            ("127.1", false),
            ("2130706433", false),
        ] {
            assert_eq!(Authority::parse(text).unwrap().is_address(), is_address, "{text}");
        }
    }

    #[test]
    fn an_origin_is_the_host_s_own_by_name_and_port() {
        let check = |host: &str, origin: &str, expect: bool| {
            assert_eq!(Authority::parse(host).unwrap().is_origin(origin), expect, "{origin} of {host}");
        };
        check("127.0.0.1:9009", "http://127.0.0.1:9009", true);
        check("Node.example", "https://node.EXAMPLE", true);
        check("node.example", "http://node.example.:80", true);
        check("node.example:443", "https://node.example", true);
        check("[::1]:9009", "http://[::1]:9009", true);
        check("127.0.0.1:9009", "http://127.0.0.1:3000", false);
        check("127.0.0.1:9009", "http://localhost:9009", false);
        check("node.example", "http://node.example.evil.example", false);
        check("node.example", "http://evil.example/node.example", false);
        check("node.example:443", "http://node.example", false);
        for strange in
            ["null", "", "node.example", "chrome-extension://node.example", "http://", "HTTP://node.example"]
        {
            check("node.example", strange, false);
        }
    }
}
