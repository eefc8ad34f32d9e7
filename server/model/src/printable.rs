//! Foreign text where a person reads it: in terminals, logs, refusals.
//!
//! Label names and values are any UTF-8, so they may hold what moves a terminal's cursor, begins a line
//! of its own in a log, or shows a text in another order than it has. Such characters become escapes as
//! PromQL, Go and JSON know them: `\n`, `\u001b`, `\u202e`. Formats that a program reads again escape by
//! their own rules, and don't need this.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Whether a character shows as itself. Not the controls (C0, DEL, C1), not the line and paragraph
/// separators, not the marks, embeddings, overrides and isolates that set the direction of text.
#[inline]
pub const fn is_printable(c: char) -> bool {
    !matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Whether PromQL takes a label's name without quotes.
pub fn is_bare_name(name: &str) -> bool {
    let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(belongs) && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// A text on a line of its own or within one. What is printable stays as it is, backslashes too: where
/// these must be distinguished from escapes, quote.
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a>(pub &'a str);

/// A text in double quotes, as PromQL reads it again.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a>(pub &'a str);

/// A label's name: as it is, or in quotes where PromQL wants them.
#[derive(Debug, Clone, Copy)]
pub struct LabelName<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_escaped(f, self.0, is_printable)
    }
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        write_escaped(f, self.0, |c| is_printable(c) && !matches!(c, '"' | '\\'))?;
        f.write_char('"')
    }
}

impl fmt::Display for LabelName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_bare_name(self.0) { f.write_str(self.0) } else { Quoted(self.0).fmt(f) }
    }
}

/// Text with escapes for its unprintable characters; its own where it has none.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) { text.into() } else { Printable(text).to_string().into() }
}

/// JSON, which escapes C0 by itself, with escapes for what else isn't printable: what reads it gets the
/// same text. Takes JSON on one line.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    // Unprintable characters are in its strings alone, and all have four digits.
    printable(json)
}

/// Writes the runs between escapes whole.
fn write_escaped(out: &mut impl Write, text: &str, stays: impl Fn(char) -> bool) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(|c| !stays(c)) {
        out.write_str(&rest[..at])?;
        let escaped = rest[at..].chars().next().unwrap_or_default();
        match escaped {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '"' | '\\' => write!(out, "\\{escaped}")?,
            other => write!(out, "\\u{:04x}", u32::from(other))?,
        }
        rest = &rest[at + escaped.len_utf8()..];
    }
    out.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_and_every_direction_mark_is_escaped() {
        let controls = ('\0'..='\x1f').chain('\x7f'..='\u{9f}');
        let marks = "\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\
                     \u{2066}\u{2067}\u{2068}\u{2069}";
        for c in controls.chain(marks.chars()) {
            let text = format!("a{c}b");
            for shown in [Printable(&text).to_string(), Quoted(&text).to_string()] {
                assert!(shown.chars().all(is_printable), "{shown:?}");
                assert!(shown.contains('\\'), "{shown:?}");
            }
        }
    }

    #[test]
    fn what_can_be_read_stays_as_it_is() {
        for text in ["", "node", "C:\\x", "höhe", "日本", "می\u{200c}خواهم", "👩\u{200d}🚀", "a\"b"]
        {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn escapes_are_those_of_promql() {
        assert_eq!(Printable("a\nb\t\x1b[31m\u{9b}\u{202e}").to_string(), r"a\nb\t\u001b[31m\u009b\u202e");
        assert_eq!(Quoted("q\"\\\n").to_string(), r#""q\"\\\n""#);
    }

    #[test]
    fn a_label_s_name_is_quoted_unless_promql_takes_it_bare() {
        for (name, expect) in [
            ("job", "job"),
            ("__name__", "__name__"),
            ("", "\"\""),
            ("1st", "\"1st\""),
            ("my.name", "\"my.name\""),
            ("na\nme", "\"na\\nme\""),
        ] {
            assert_eq!(LabelName(name).to_string(), expect);
        }
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let json = "{\"a\":\"\\u001b\u{9b}\u{202e}\\n\"}";
        assert_eq!(printable_json(json), r#"{"a":"\u001b\u009b\u202e\n"}"#);
    }
}
