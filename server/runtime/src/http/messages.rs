//! Where an HTTP/1 client's requests and their chunks begin and end, for what hyper doesn't report: a chunk that
//! claims more than a body may have, which would be waited for as long as any that comes slowly; and whether a client
//! that sends no more has sent its requests whole.
//!
//! Nothing is judged but that claim, and nothing copied but the beginnings of lines.

use super::targets::LinePosition;

/// So much of a line is looked at: a name that counts, and a number.
const LINE_BYTES: usize = 64;

/// Where a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    /// In a head, or before it.
    Head,
    /// In a body of a length that is known, or a chunk: so many bytes are to come.
    Bytes(u64),
    /// In the line that begins a chunk.
    Size,
    /// In what follows the last chunk.
    Trailers,
    /// After what hyper takes for no request, or a claim too large.
    Lost,
}

/// One connection's requests.
#[derive(Debug)]
pub(super) struct HttpMessages {
    chunk_bytes_max: u64,
    state: RequestState,
    line: [u8; LINE_BYTES],
    line_len: usize,
    has_line: bool,
    is_chunked: bool,
    length: u64,
    ended: u64,
}

impl HttpMessages {
    /// None has begun. A chunk may claim so many bytes.
    pub(super) fn new(chunk_bytes_max: u64) -> Self {
        Self {
            chunk_bytes_max,
            state: RequestState::Head,
            line: [0; LINE_BYTES],
            line_len: 0,
            has_line: false,
            is_chunked: false,
            length: 0,
            ended: 0,
        }
    }

    /// Requests that came whole.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Takes in what was read, and returns whether a chunk claims too much.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.state {
                RequestState::Lost => return false,
                RequestState::Bytes(left) => {
                    let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    bytes = &bytes[count..];
                    self.bytes_end(left - count as u64);
                }
                RequestState::Head | RequestState::Size | RequestState::Trailers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    self.keep(&bytes[..end.unwrap_or(bytes.len())]);
                    let Some(end) = end else { return false };
                    bytes = &bytes[end + 1..];
                    if self.line_ends() {
                        self.state = RequestState::Lost;
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Where the next byte is, if it belongs to a request's first line or to an empty one before it.
    pub(super) fn first_line(&self) -> Option<LinePosition> {
        let is_before_second = self.state == RequestState::Head && !self.has_line;
        let has_begun = self.line[..self.line_len].iter().any(|byte| *byte != b'\r');
        is_before_second.then_some(if has_begun { LinePosition::InLine } else { LinePosition::BeforeLine })
    }

    /// Whether every request whose head has ended has come whole.
    pub(super) fn is_between_bodies(&self) -> bool {
        self.state == RequestState::Head
    }

    fn bytes_end(&mut self, left: u64) {
        match (left, self.is_chunked) {
            (0, true) => self.state = RequestState::Size,
            (0, false) => self.request_ends(),
            (left, _) => self.state = RequestState::Bytes(left),
        }
    }

    fn keep(&mut self, part: &[u8]) {
        let count = part.len().min(LINE_BYTES - self.line_len);
        self.line[self.line_len..self.line_len + count].copy_from_slice(&part[..count]);
        self.line_len += count;
    }

    /// Whether the line claims too much.
    fn line_ends(&mut self) -> bool {
        let (line, len) = (self.line, std::mem::take(&mut self.line_len));
        let line = line[..len].trim_ascii_end();
        match (self.state, line.is_empty()) {
            (RequestState::Head, true) if self.has_line => self.head_ends(),
            // Before a request there may be empty ones.
            (RequestState::Head, true) => {}
            (RequestState::Head, false) => self.field(line),
            (RequestState::Size, _) => return self.chunk_begins(line),
            (RequestState::Trailers, true) => self.request_ends(),
            (RequestState::Trailers, false) | (RequestState::Bytes(_) | RequestState::Lost, _) => {}
        }
        false
    }

    fn field(&mut self, line: &[u8]) {
        self.has_line = true;
        let value = |name: &str| {
            let (head, rest) = line.split_at_checked(name.len())?;
            head.eq_ignore_ascii_case(name.as_bytes()).then(|| rest.trim_ascii())
        };
        if let Some(length) = value("content-length:") {
            let digits = std::str::from_utf8(length).unwrap_or_default();
            match digits.parse() {
                Ok(length) if line.len() < LINE_BYTES => self.length = length,
                // A number that may go on after what is looked at is another one.
                Ok(_) | Err(_) => self.state = RequestState::Lost,
            }
        } else if value("transfer-encoding:").is_some() {
            // hyper takes no other encoding than a last one of this name.
            self.is_chunked = true;
        }
    }

    fn head_ends(&mut self) {
        match (self.is_chunked, self.length) {
            (true, _) => self.state = RequestState::Size,
            (false, 0) => self.request_ends(),
            (false, length) => self.state = RequestState::Bytes(length),
        }
    }

    fn chunk_begins(&mut self, line: &[u8]) -> bool {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits == LINE_BYTES {
            // It may go on, whatever it begins with. Nobody writes so many.
            return true;
        }
        let size =
            std::str::from_utf8(&line[..digits]).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        match size {
            None => self.state = RequestState::Lost,
            Some(0) => self.state = RequestState::Trailers,
            Some(size) if size > self.chunk_bytes_max => return true,
            // The line's end after it belongs to it.
            Some(size) => self.state = RequestState::Bytes(size + 2),
        }
        false
    }

    fn request_ends(&mut self) {
        *self = Self { ended: self.ended + 1, ..Self::new(self.chunk_bytes_max) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, claims_too_much: bool) {
        for piece in [1, 2, 7, 1000] {
            let mut messages = HttpMessages::new(1000);
            let claims = bytes.as_bytes().chunks(piece).filter(|bytes| messages.read(bytes)).count();
            assert_eq!(claims, usize::from(claims_too_much), "{bytes:?} in pieces of {piece}");
        }
    }

    const CHUNKED: &str = "POST / HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn a_chunk_that_claims_too_much_is_found_wherever_it_stands() {
        let get = "\r\nGET /?ffffffff HTTP/1.1\r\nhost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\nhost: a\ncontent-length: 10\n\nffffffff\r\n";
        let chunks = "3e8\r\n".to_owned() + &"f".repeat(1000) + "\r\n5;a=ffffffff\r\n3e9\r\n\r\n";
        let end = "0\r\nx: ffffffff\r\n\r\n";
        let before = [get, post, get, CHUNKED, &*chunks, end, post, CHUNKED, &*chunks].concat();
        check(&before, false);
        for size in ["3e9", "ffffffffffffffff", "FFFF ;a"] {
            check(&(before.clone() + size + "\r\nabc"), true);
        }
    }

    #[test]
    fn where_a_request_has_ended_the_next_one_s_first_line_begins() {
        let get = "GET /?a HTTP/1.1\r\nhost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n0\r\n\r\n56789";
        let chunked = CHUNKED.to_owned() + "a\r\n0\r\n\r\n56789\r\n0\r\n\r\n";
        let (mut messages, mut ended) = (HttpMessages::new(1000), Vec::new());
        let requests = [get, post, get, post, post, &chunked, get, &chunked, post];
        for (at, byte) in requests.concat().bytes().enumerate() {
            messages.read(&[byte]);
            let is_first_byte =
                messages.first_line() == Some(LinePosition::BeforeLine) && messages.line_len == 0;
            assert!(!is_first_byte || messages.is_between_bodies());
            ended.extend(is_first_byte.then_some(at + 1));
        }
        assert_eq!(messages.ended(), requests.len() as u64);
        let ends: Vec<_> = (1..=requests.len()).map(|count| requests[..count].concat().len()).collect();
        assert_eq!(ended, ends);
    }

    #[test]
    fn a_number_that_goes_on_behind_what_is_looked_at_is_taken_for_no_other() {
        let length = format!("POST / HTTP/1.1\r\ncontent-length:{}1000\r\n\r\n", " ".repeat(46));
        let mut messages = HttpMessages::new(1000);
        assert!(!messages.read((length + &"x".repeat(100)).as_bytes()));
        assert_eq!((messages.first_line(), messages.is_between_bodies()), (None, false));
        check(&(CHUNKED.to_owned() + &"0".repeat(LINE_BYTES) + "5\r\n"), true);
        check(&(CHUNKED.to_owned() + &"0".repeat(LINE_BYTES - 2) + "5\r\n12345\r\n"), false);
    }

    #[test]
    fn a_first_line_goes_on_to_its_end_in_however_many_pieces() {
        let mut messages = HttpMessages::new(1000);
        for (byte, expect) in [
            (b'\r', Some(LinePosition::BeforeLine)),
            (b'\n', Some(LinePosition::BeforeLine)),
            (b'G', Some(LinePosition::InLine)),
            (b'\r', Some(LinePosition::InLine)),
            (b'\n', None),
        ] {
            messages.read(&[byte]);
            assert_eq!(messages.first_line(), expect, "after {byte}");
        }
    }

    #[test]
    fn what_is_no_request_is_left_to_hyper() {
        check(&(CHUNKED.to_owned() + "x\r\nffffffff\r\n"), false);
        check(&(CHUNKED.to_owned() + "1ffffffffffffffff\r\nffffffff\r\n"), false);
        check("POST / HTTP/1.1\r\ncontent-length: -1\r\ntransfer-encoding: chunked\r\n\r\nfffff\r\n", false);
        check(&("x".repeat(1000) + "\r\n\r\n" + CHUNKED + "ffff"), false);
    }
}
