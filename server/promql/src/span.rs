//! Where in an expression's text something is, and how it is shown to a person: line and column from 1.

/// A range of bytes in an expression's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TextSpan {
    /// Of the first byte.
    pub start: u32,
    /// After the last byte.
    pub end: u32,
}

impl TextSpan {
    /// From the first byte's place to the place after the last.
    pub(crate) const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// From this one's start to that one's end.
    pub(crate) const fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }
}

/// `line:column` of a byte in a text, both from 1; the column counts bytes, as Prometheus does.
pub(crate) fn line_and_column(text: &str, at: u32) -> String {
    let before = &text.as_bytes()[..(at as usize).min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    format!("{line}:{}", before.len() - line_start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_begin_again_on_each_line() {
        let check = |at, expect| assert_eq!(line_and_column("a +\n b", at), expect);
        check(0, "1:1");
        check(2, "1:3");
        check(4, "2:1");
        check(6, "2:3");
        check(99, "2:3");
    }
}
