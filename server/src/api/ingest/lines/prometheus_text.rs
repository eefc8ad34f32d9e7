//! Lines in Prometheus' text format, or OpenMetrics': a series, its value, and a time or none.
//!
//! ```text
//! room_temperature{room="kitchen"} 21.5 1700000000000
//! {"room.temperature", "room.name"="kitchen"} 21.5
//! ```
//!
//! It takes what Prometheus takes, and names of any characters but `{}",=#` and blanks without quotes, as
//! VictoriaMetrics does. Comments
//! say what a metric is (`# TYPE`, `# HELP`, `# UNIT`) or nothing; exemplars are read once their series is known.

use super::beside::read_comment;
use super::decode::{LineFormat, LineParseError, LineSamples, ParsedLine};
use super::extra_labels::ExtraLabels;
use super::number::{timestamp_ms, value};
use super::scanner::{Scanner, unescape};
use crate::api::ingest::label_sets::LabelSets;

/// How a request's lines are read.
#[derive(Debug, Clone, Default)]
pub struct PrometheusText {
    /// Labels that all series get.
    pub extra: ExtraLabels,
}

impl LineFormat for PrometheusText {
    fn read<'l>(&self, bytes: &'l [u8], sets: &mut LabelSets) -> Result<ParsedLine<'l>, LineParseError> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let line = &bytes[..end.unwrap_or(bytes.len())];
        let len = end.map_or(line.len(), |end| end + 1);
        let mut scanner = Scanner::new(line.strip_suffix(b"\r").unwrap_or(line));
        skip_blanks(&mut scanner);
        if scanner.is_done() {
            return Ok(ParsedLine::of_nothing(len));
        }
        if scanner.eat(b'#') {
            return Ok(ParsedLine { said: read_comment(&mut scanner), ..ParsedLine::of_nothing(len) });
        }
        // What is wrong with a line never lies beyond it.
        let fault = |words| LineParseError { words, at: 0 };
        self.read_series(&mut scanner, sets).map_err(fault)?;
        let value = read_value(&mut scanner).map_err(fault)?;
        let (timestamp_ms, exemplar) = read_rest(&mut scanner).map_err(fault)?;
        Ok(ParsedLine {
            timestamp_ms,
            samples: LineSamples::One(value),
            exemplar,
            ..ParsedLine::of_nothing(len)
        })
    }
}

impl PrometheusText {
    fn read_series(&self, scanner: &mut Scanner<'_>, sets: &mut LabelSets) -> Result<(), &'static str> {
        let name = take_bare(scanner);
        match name.first() {
            None if scanner.peek() != Some(b'{') => return Err("a line begins with a metric's name"),
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => return Err("a metric's name begins with no digit"),
            Some(_) => self.share(sets, |out| out.extend_from_slice(b"__name__"), name),
            None => {}
        }
        skip_blanks(scanner);
        if scanner.eat(b'{') {
            self.read_labels(scanner, sets)?;
        }
        self.extra.share(sets);
        Ok(())
    }

    fn read_labels(&self, scanner: &mut Scanner<'_>, sets: &mut LabelSets) -> Result<(), &'static str> {
        loop {
            skip_blanks(scanner);
            if scanner.eat(b'}') {
                return Ok(());
            }
            self.read_label(scanner, sets)?;
            skip_blanks(scanner);
            if !scanner.eat(b',') && scanner.peek() != Some(b'}') {
                return Err("a comma or } is missing after a label");
            }
        }
    }

    /// A label; or, in quotes and without a value, the metric's name.
    fn read_label(&self, scanner: &mut Scanner<'_>, sets: &mut LabelSets) -> Result<(), &'static str> {
        let is_quoted = scanner.peek() == Some(b'"');
        let name = if is_quoted { take_text(scanner)? } else { take_bare(scanner) };
        if name.is_empty() {
            return Err("a label's name is missing");
        }
        skip_blanks(scanner);
        if scanner.eat(b'=') {
            skip_blanks(scanner);
            if scanner.peek() != Some(b'"') {
                return Err("a label's value must be in double quotes");
            }
            let value = take_text(scanner)?;
            match is_quoted {
                true => self.share(sets, |out| unescape(name, out, meaning), value),
                false => self.share(sets, |out| out.extend_from_slice(name), value),
            }
        } else if is_quoted {
            self.share(sets, |out| out.extend_from_slice(b"__name__"), name);
        } else {
            return Err("= is missing after a label's name");
        }
        Ok(())
    }

    fn share(&self, sets: &mut LabelSets, name: impl FnOnce(&mut Vec<u8>), value: &[u8]) {
        sets.share_written(name, |out| unescape(value, out, meaning));
        sets.unshare_if(|name| self.extra.has(name));
    }
}

fn read_value(scanner: &mut Scanner<'_>) -> Result<f64, &'static str> {
    skip_blanks(scanner);
    match scanner.take_while(|byte| !is_blank(byte)) {
        [] => Err("the value is missing"),
        text => value(text).ok_or("the value isn't a number"),
    }
}

/// The time, if there is one, and the exemplar after it, from its labels on.
fn read_rest<'l>(scanner: &mut Scanner<'l>) -> Result<(Option<i64>, Option<&'l [u8]>), &'static str> {
    skip_blanks(scanner);
    let time = match scanner.peek() {
        None | Some(b'#') => None,
        Some(_) => {
            let text = scanner.take_while(|byte| !is_blank(byte));
            Some(timestamp_ms(text).ok_or("the time is neither whole milliseconds nor seconds")?)
        }
    };
    skip_blanks(scanner);
    if scanner.eat(b'#') {
        skip_blanks(scanner);
        let is_exemplar = scanner.peek() == Some(b'{');
        return Ok((time, is_exemplar.then(|| scanner.take_while(|_| true))));
    }
    if scanner.is_done() { Ok((time, None)) } else { Err("there is something after the time") }
}

/// A name without quotes.
pub(super) fn take_bare<'l>(scanner: &mut Scanner<'l>) -> &'l [u8] {
    scanner.take_while(|byte| !matches!(byte, b' ' | b'\t' | b'{' | b'}' | b'"' | b',' | b'=' | b'#'))
}

pub(super) fn take_text<'l>(scanner: &mut Scanner<'l>) -> Result<&'l [u8], &'static str> {
    scanner.take_quoted().ok_or("a double quote isn't closed")
}

/// What a backslash and this byte stand for.
pub(super) fn meaning(escaped: u8) -> Option<u8> {
    match escaped {
        b'\\' | b'"' => Some(escaped),
        b'n' => Some(b'\n'),
        _other => None,
    }
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) fn skip_blanks(scanner: &mut Scanner<'_>) {
    scanner.take_while(is_blank);
}

#[cfg(test)]
mod tests {
    use super::super::decode::tests::{Told, run};
    use super::*;

    /// What one line becomes, `now` being 7.
    fn told(line: &str) -> Told {
        run(&PrometheusText::default(), line.as_bytes())
    }

    fn check(line: &str, series: &str, timestamp_ms: i64, value: f64) {
        assert_eq!(told(line), Told::of(&[(series, timestamp_ms, value)]), "{line}");
    }

    #[test]
    fn a_line_is_a_series_a_value_and_perhaps_a_time() {
        check("up 1", r#"{__name__="up"}"#, 7, 1.0);
        check("up{} 1 1700000000000\r", r#"{__name__="up"}"#, 1_700_000_000_000, 1.0);
        check(
            " \tup \t{ b = \"2\" ,\ta=\"1\", } \t-1.5e3\t-4000000000 ",
            r#"{__name__="up", a="1", b="2"}"#,
            -4_000_000_000,
            -1500.0,
        );
        check("up{a=\"b\"}1", r#"{__name__="up", a="b"}"#, 7, 1.0);
        check("rule:sum{a=\"}# \"} +Inf", r#"{__name__="rule:sum", a="}# "}"#, 7, f64::INFINITY);
        check("up{empty=\"\"} 1", r#"{__name__="up"}"#, 7, 1.0);
        check("{__name__=\"up\"} 1", r#"{__name__="up"}"#, 7, 1.0);
        check("disk.used{höhe=\"ü\"} 1", r#"{__name__="disk.used", "höhe"="ü"}"#, 7, 1.0);
    }

    #[test]
    fn names_in_quotes_are_any_text() {
        check(r#"{"my.metric", "label.x"="v"} 1"#, r#"{__name__="my.metric", "label.x"="v"}"#, 7, 1.0);
        check(r#"{a="1","my metric"} 1"#, r#"{__name__="my metric", a="1"}"#, 7, 1.0);
        check(r#"up{"a\"b\\c\nd"="x"} 1"#, r#"{__name__="up", "a\"b\\c\nd"="x"}"#, 7, 1.0);
    }

    #[test]
    fn values_of_labels_have_three_escapes() {
        check(r#"up{a="x\\y"} 1"#, r#"{__name__="up", a="x\\y"}"#, 7, 1.0);
        check(r#"up{a="x\"y"} 1"#, r#"{__name__="up", a="x\"y"}"#, 7, 1.0);
        check(r#"up{a="x\ny"} 1"#, r#"{__name__="up", a="x\ny"}"#, 7, 1.0);
        check(r#"up{a="C:\temp"} 1"#, r#"{__name__="up", a="C:\\temp"}"#, 7, 1.0);
    }

    #[test]
    fn comments_and_empty_lines_say_nothing_and_exemplars_are_counted() {
        for nothing in ["", " ", "\r", "# HELP up Whether.", "#TYPE up gauge", "  # EOF", "# \u{1}"] {
            assert_eq!(told(nothing), Told::default(), "{nothing:?}");
        }
        let with_exemplar =
            Told { exemplars: 1, ..Told::of(&[(r#"{__name__="a_total"}"#, 1_700_000_000_500, 3.0)]) };
        assert_eq!(told("a_total 3 1700000000.5 # {trace_id=\"x\"} 0.6 1700000000"), with_exemplar);
        let with_exemplar = Told { exemplars: 1, ..Told::of(&[(r#"{__name__="a_total"}"#, 7, 3.0)]) };
        assert_eq!(told("a_total 3 # {} 0.6"), with_exemplar);
        check("up 1 # a comment", r#"{__name__="up"}"#, 7, 1.0);
    }

    fn check_refused(line: &str, words: &str) {
        told(line).check_refused_once(line, words);
    }

    #[test]
    fn a_line_that_can_t_be_read_is_told_why() {
        check_refused("up", "line 1: the value is missing: \"up\"");
        check_refused("up{a=\"b\"}", "the value is missing");
        check_refused("up one", "the value isn't a number");
        check_refused("up 1 soon", "the time is neither");
        check_refused("up 1 1700000000000 x", "something after the time");
        check_refused("up{a=\"b} 1", "a double quote isn't closed");
        check_refused("up{a=b} 1", "a label's value must be in double quotes");
        check_refused("up{a} 1", "= is missing");
        check_refused("up{=\"a\"} 1", "a label's name is missing");
        check_refused("up{\"\"=\"a\"} 1", "a label's name is missing");
        check_refused("up{a=\"b\" c=\"d\"} 1", "a comma or }");
        check_refused("up{a=\"b\"", "a comma or }");
        check_refused("up{", "a label's name is missing");
        check_refused("\"up\" 1", "begins with a metric's name");
        check_refused("21.5 22", "begins with no digit");
        check_refused("{\"metric\":{\"__name__\":\"up\"}}", "a comma or }");
    }

    #[test]
    fn label_sets_are_checked_as_remote_write_s_are() {
        check_refused("{a=\"b\"} 1", "series without a metric name");
        check_refused("up{\"down\"} 1", "label name occurs twice");
        check_refused("up{a=\"1\",a=\"2\"} 1", "label name occurs twice");
        check_refused(&format!("up{{a=\"{}\"}} 1", "x".repeat(9000)), "label name or value is too long");
        let many: String = (0..400).map(|i| format!("l{i}=\"x\",")).collect();
        check_refused(&format!("up{{{many}}} 1"), "series has too many labels");
        let told = run(&PrometheusText::default(), b"up{a=\"\xff\"} 1");
        assert_eq!((told.samples.len(), told.refused), (0, 1));
    }

    #[test]
    fn extra_labels_go_over_those_of_the_line() {
        let mut extra = ExtraLabels::default();
        extra.add_parameter("job=a").unwrap();
        let told = run(&PrometheusText { extra }, b"up{job=\"b\",x=\"1\"} 1\nup 2");
        let series = [r#"{__name__="up", job="a", x="1"}"#, r#"{__name__="up", job="a"}"#];
        assert_eq!(told, Told::of(&[(series[0], 7, 1.0), (series[1], 7, 2.0)]));
    }
}
