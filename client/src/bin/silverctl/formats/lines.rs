//! Lines of a stream, each at most so long.

use std::io::{self, BufRead};

/// A line in bytes: JSON lines hold a whole series.
pub(super) const LINE_BYTES_MAX: usize = 64 << 20;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine<'a> {
    /// Without its end.
    Whole(&'a [u8]),
    /// It was longer than a line may be; the rest of it is skipped.
    TooLong,
}

/// The lines of a stream.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    line_bytes_max: usize,
    /// Of the line that was read last, from 1.
    pub number: u64,
    /// Read so far.
    pub bytes: u64,
}

impl<R: BufRead> Lines<R> {
    /// From the stream's begin.
    pub(crate) const fn new(input: R) -> Self {
        Self { input, line: Vec::new(), line_bytes_max: LINE_BYTES_MAX, number: 0, bytes: 0 }
    }

    /// The next line; `None` at the end.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<InputLine<'_>>> {
        self.line.clear();
        let (mut is_too_long, mut is_any) = (false, false);
        loop {
            let piece = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            if piece.is_empty() {
                break;
            }
            is_any = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let text = &piece[..end.unwrap_or(piece.len())];
            is_too_long |= self.line.len() + text.len() > self.line_bytes_max;
            if !is_too_long {
                self.line.extend_from_slice(text);
            }
            let consumed = text.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            self.bytes += consumed as u64;
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(is_any);
        Ok(match (is_any, is_too_long) {
            (false, _) => None,
            (true, true) => Some(InputLine::TooLong),
            (true, false) => Some(InputLine::Whole(&self.line)),
        })
    }
}

impl<S: io::Read> Lines<io::BufReader<S>> {
    /// Whether the next line may have to be waited for.
    pub(crate) fn is_drained(&self) -> bool {
        self.input.buffer().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[Option<&str>]) {
        for buffer in [1, 3, 64] {
            let input = io::BufReader::with_capacity(buffer, text.as_bytes());
            let mut lines = Lines { line_bytes_max: 5, ..Lines::new(input) };
            for (index, expect) in expect.iter().enumerate() {
                let expect = expect.map_or(InputLine::TooLong, |line| InputLine::Whole(line.as_bytes()));
                assert_eq!(lines.next_line().unwrap(), Some(expect), "{text:?}");
                assert_eq!(lines.number, index as u64 + 1);
            }
            assert_eq!(lines.next_line().unwrap(), None);
            assert_eq!(lines.bytes, text.len() as u64);
        }
    }

    #[test]
    fn lines_end_with_a_line_feed_or_with_the_stream() {
        check("", &[]);
        check("a", &[Some("a")]);
        check("a\n\nbc\n", &[Some("a"), Some(""), Some("bc")]);
    }

    #[test]
    fn a_line_that_is_too_long_costs_no_other() {
        check("12345\n123456\nab\n1234567", &[Some("12345"), None, Some("ab"), None]);
    }
}
