//! A place in a line, and what can be taken from there on.

/// Reads bytes from left to right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scanner<'l> {
    bytes: &'l [u8],
    at: usize,
}

impl<'l> Scanner<'l> {
    /// At the begin of `bytes`.
    pub(crate) fn new(bytes: &'l [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where it is.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Takes the next byte if it is this one.
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes the bytes that belong.
    pub(crate) fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'l [u8] {
        let rest = &self.bytes[self.at..];
        let taken = &rest[..rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    /// Takes bytes up to the first of `ends` that no backslash is before; a backslash before any other
    /// byte stands for itself.
    pub(crate) fn take_unescaped(
        &mut self,
        ends: impl Fn(u8) -> bool,
        escapable: impl Fn(u8) -> bool,
    ) -> &'l [u8] {
        let start = self.at;
        while let Some(byte) = self.peek() {
            if ends(byte) {
                break;
            }
            let escapes = byte == b'\\' && self.bytes.get(self.at + 1).is_some_and(|next| escapable(*next));
            self.at += 1 + usize::from(escapes);
        }
        &self.bytes[start..self.at]
    }

    /// Takes a text in double quotes, in which a backslash takes any byte along, and gives what is
    /// between them. `None`, and nothing is taken, where it isn't closed.
    pub(crate) fn take_quoted(&mut self) -> Option<&'l [u8]> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            match *self.bytes.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _other => at += 1,
            }
        }
        self.at = at + 1;
        Some(&self.bytes[start..at])
    }

    /// What was taken since a place.
    pub(crate) fn since(&self, start: usize) -> &'l [u8] {
        &self.bytes[start..self.at]
    }
}

/// Appends a text in which a backslash and one of `escapable` stand for that; other backslashes stay.
pub(crate) fn unescape(raw: &[u8], out: &mut Vec<u8>, meaning: impl Fn(u8) -> Option<u8>) {
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..at]);
        match rest.get(at + 1).and_then(|next| meaning(*next)) {
            Some(meant) => {
                out.push(meant);
                rest = &rest[at + 2..];
            }
            None => {
                out.push(b'\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_quoted(text: &str, expect: Option<&str>) {
        let mut scanner = Scanner::new(text.as_bytes());
        let taken = scanner.take_quoted();
        assert_eq!(taken, expect.map(str::as_bytes), "{text}");
        assert_eq!(scanner.at(), expect.map_or(0, |expect| expect.len() + 2), "{text}");
    }

    #[test]
    fn a_quoted_text_ends_at_a_quote_without_a_backslash() {
        check_quoted(r#""a b" c"#, Some("a b"));
        check_quoted(r#""a\"b""#, Some(r#"a\"b"#));
        check_quoted(r#""a\\""#, Some(r"a\\"));
        check_quoted(r#""""#, Some(""));
        for open in [r#"""#, r#""a"#, r#""a\""#, r#""a\"#] {
            check_quoted(open, None);
        }
    }

    #[test]
    fn backslashes_that_escape_nothing_stay() {
        let check = |raw: &str, expect: &str| {
            let mut out = Vec::new();
            unescape(raw.as_bytes(), &mut out, |byte| (byte == b',').then_some(byte));
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(r"a\,b", "a,b");
        check(r"\\,\n\", r"\,\n\");
        check("", "");
    }
}
