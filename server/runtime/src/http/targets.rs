//! What a request's first line may hold that other servers take as it is, and hyper doesn't: a query with raw
//! quotes, as Prometheus' documents show it to be typed. It is percent-encoded before hyper reads it.
//!
//! It knows lines and bytes, no requests: where one begins is the connection's to know.

/// Where what comes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePosition {
    /// Before a request's first line: there may be empty ones.
    BeforeLine,
    /// In that line.
    InLine,
}

/// Whether Go's servers take it in a target and `http` doesn't, or takes what follows for a fragment, which no target
/// has. What is no text in UTF-8 stays refused.
fn is_raw(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`' | b'^' | b'{' | b'}' | b'#')
}

/// The same bytes with the first line's raw ones percent-encoded. `None`: there are none, or it would grow by more than
/// `growth_max` bytes.
pub(super) fn encoded(bytes: &[u8], place: LinePosition, growth_max: usize) -> Option<Vec<u8>> {
    let begin = match place {
        LinePosition::BeforeLine => bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?,
        LinePosition::InLine => 0,
    };
    let length = bytes[begin..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - begin);
    let (line, rest) = bytes[begin..].split_at(length);
    let raw = line.iter().filter(|byte| is_raw(**byte)).count();
    if raw == 0 || 2 * raw > growth_max {
        return None;
    }
    let mut encoded = Vec::with_capacity(bytes.len() + 2 * raw);
    encoded.extend_from_slice(&bytes[..begin]);
    for byte in line {
        if is_raw(*byte) {
            encoded.extend_from_slice(&percent_encoded(*byte));
        } else {
            encoded.push(*byte);
        }
    }
    encoded.extend_from_slice(rest);
    Some(encoded)
}

fn percent_encoded(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_in(place: LinePosition, bytes: &str, expect: Option<&str>) {
        let encoded = encoded(bytes.as_bytes(), place, 100).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(encoded.as_deref(), expect, "{bytes:?}");
    }

    fn check(bytes: &str, expect: Option<&str>) {
        check_in(LinePosition::BeforeLine, bytes, expect);
    }

    #[test]
    fn quotes_braces_and_their_like_are_encoded_in_the_first_line_alone() {
        check(
            "GET /a?match[]=up{a=\"b\"} HTTP/1.1\r\nhost: \"x\"\r\n\r\n{\"}",
            Some("GET /a?match[]=up%7Ba=%22b%22%7D HTTP/1.1\r\nhost: \"x\"\r\n\r\n{\"}"),
        );
        check("\r\n\nGET /<>`^# HTTP/1.1\n", Some("\r\n\nGET /%3C%3E%60%5E%23 HTTP/1.1\n"));
    }

    #[test]
    fn a_line_that_came_in_part_goes_on_to_its_end_and_no_further() {
        check_in(LinePosition::InLine, "=\"b", Some("=%22b"));
        check_in(LinePosition::InLine, "\"\r\nhost: \"x\"\r\n", Some("%22\r\nhost: \"x\"\r\n"));
        for end in ["\r\n", "\n"] {
            check_in(LinePosition::InLine, &format!("{end}host: \"x\"\r\n\r\n"), None);
        }
    }

    #[test]
    fn what_needs_no_encoding_stays_as_it_is() {
        check("GET /a?match[]=up%7Ba=%22b%22%7D&b=|\\~%ff HTTP/1.1\r\nhost: \"x\"\r\n\r\n", None);
        check("", None);
        check("\r\n\r\n", None);
    }

    #[test]
    fn what_a_line_grows_by_has_a_bound() {
        let quotes = |count: usize| encoded("\"".repeat(count).as_bytes(), LinePosition::InLine, 100);
        assert_eq!(quotes(50).unwrap().len(), 150);
        assert_eq!(quotes(51), None);
    }
}
