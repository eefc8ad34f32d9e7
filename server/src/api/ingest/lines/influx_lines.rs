//! Lines in InfluxDB's line protocol: a measurement with its tags, fields, and a time or none.
//!
//! ```text
//! room,room=kitchen temperature=21.5,people=2i,open=true,note="warm" 1700000000000000000
//! ```
//!
//! Each field that is a number or a truth is a sample of the series `<measurement>_<field>`, named as
//! VictoriaMetrics names it, with the tags as labels; names stay as they are, any UTF-8. Strings aren't samples:
//! they are counted. A line is taken whole or not at all.
//!
//! A backslash escapes a comma, a blank and, but in measurements, an equals sign; before anything else it stands for
//! itself, and two of them are two, as InfluxDB and Telegraf have it.

use super::decode::{LineFormat, LineParseError, LineSamples, ParsedLine};
use super::extra_labels::ExtraLabels;
use super::number::{finite, whole};
use super::scanner::{Scanner, unescape};
use crate::api::ingest::label_sets::LabelSets;

/// How a request's lines are read.
#[derive(Debug, Clone, Default)]
pub struct InfluxLines {
    /// Labels that all series get.
    pub extra: ExtraLabels,
    /// The database: the label `db` of series that have no tag of this name.
    pub db: Option<String>,
    /// The unit of the lines' times.
    pub precision: Precision,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// ns
    #[default]
    Nanoseconds,
    /// µs
    Microseconds,
    /// ms
    Milliseconds,
    /// s
    Seconds,
    /// min
    Minutes,
    /// h
    Hours,
}

impl Precision {
    /// A time in ms, cut to them; `None` where they don't fit.
    pub(crate) fn to_ms(self, time: i64) -> Option<i64> {
        match self {
            Self::Nanoseconds => Some(time.div_euclid(1_000_000)),
            Self::Microseconds => Some(time.div_euclid(1000)),
            Self::Milliseconds => Some(time),
            Self::Seconds => time.checked_mul(1000),
            Self::Minutes => time.checked_mul(60_000),
            Self::Hours => time.checked_mul(3_600_000),
        }
    }
}

/// The fields of a line that was read.
#[derive(Debug, Clone, Copy)]
pub struct LineFields<'l> {
    measurement: &'l [u8],
    rest: Scanner<'l>,
}

/// A field's value.
enum Value {
    Number(f64),
    Text,
}

impl LineFormat for InfluxLines {
    fn read<'l>(&self, bytes: &'l [u8], sets: &mut LabelSets) -> Result<ParsedLine<'l>, LineParseError> {
        let mut scanner = Scanner::new(bytes);
        skip_blanks(&mut scanner);
        if matches!(scanner.peek(), None | Some(b'#' | b'\n' | b'\r')) {
            scanner.take_while(|byte| byte != b'\n');
            scanner.eat(b'\n');
            let len = scanner.at();
            return Ok(ParsedLine::of_nothing(len));
        }
        let read = self.read_line(&mut scanner, sets);
        read.map_err(|words| LineParseError { words, at: scanner.at() })
    }
}

impl InfluxLines {
    fn read_line<'l>(
        &self,
        scanner: &mut Scanner<'l>,
        sets: &mut LabelSets,
    ) -> Result<ParsedLine<'l>, &'static str> {
        let measurement = self.read_series(scanner, sets)?;
        let start = scanner.at();
        let strings = check_fields(scanner)?;
        let fields = LineFields { measurement, rest: Scanner::new(scanner.since(start)) };
        let timestamp_ms = self.read_time(scanner)?;
        let (len, samples) = (scanner.at(), LineSamples::Fields(fields));
        Ok(ParsedLine { timestamp_ms, samples, strings, ..ParsedLine::of_nothing(len) })
    }

    /// A measurement and its tags, up to the first field. Gives the measurement as it is written.
    fn read_series<'l>(
        &self,
        scanner: &mut Scanner<'l>,
        sets: &mut LabelSets,
    ) -> Result<&'l [u8], &'static str> {
        let measurement = scanner.take_unescaped(ends_word, is_escapable_in_measurement);
        if measurement.is_empty() {
            return Err("a line begins with a measurement");
        }
        while scanner.eat(b',') {
            let (name, value) = take_tag(scanner)?;
            let (name, value) =
                (|out: &mut Vec<u8>| unescape_key(name, out), |out: &mut Vec<u8>| unescape_key(value, out));
            sets.share_written(name, value);
            sets.unshare_if(|name| self.extra.has(name));
        }
        if sets.shares(b"__name__") {
            return Err("a tag is named __name__, which is the series' name");
        }
        if let Some(db) = self.db.as_ref().filter(|_| !sets.shares(b"db") && !self.extra.has(b"db")) {
            sets.share(b"db", db.as_bytes());
        }
        self.extra.share(sets);
        if scanner.peek() != Some(b' ') {
            return Err("the fields are missing");
        }
        skip_blanks(scanner);
        Ok(measurement)
    }

    fn read_time(&self, scanner: &mut Scanner<'_>) -> Result<Option<i64>, &'static str> {
        skip_blanks(scanner);
        let time = match scanner.take_while(|byte| !matches!(byte, b' ' | b'\r' | b'\n')) {
            [] => None,
            text => {
                let time = whole(text).ok_or("the time isn't a whole number")?;
                Some(self.precision.to_ms(time).ok_or("the time doesn't fit into 64 bits")?)
            }
        };
        scanner.take_while(|byte| matches!(byte, b' ' | b'\r'));
        if !scanner.is_done() && !scanner.eat(b'\n') {
            return Err("there is something after the time");
        }
        Ok(time)
    }
}

fn take_tag<'l>(scanner: &mut Scanner<'l>) -> Result<(&'l [u8], &'l [u8]), &'static str> {
    let name = scanner.take_unescaped(ends_key, is_escapable);
    if name.is_empty() {
        return Err("a tag's name is missing");
    }
    if !scanner.eat(b'=') {
        return Err("= is missing after a tag's name");
    }
    Ok((name, scanner.take_unescaped(ends_word, is_escapable)))
}

/// Reads the fields to their end. The strings among them.
fn check_fields(scanner: &mut Scanner<'_>) -> Result<u64, &'static str> {
    let mut strings = 0;
    loop {
        match take_field(scanner)? {
            (_, Value::Number(_)) => {}
            (_, Value::Text) => strings += 1,
        }
        if !scanner.eat(b',') {
            return Ok(strings);
        }
    }
}

fn take_field<'l>(scanner: &mut Scanner<'l>) -> Result<(&'l [u8], Value), &'static str> {
    let name = scanner.take_unescaped(ends_key, is_escapable);
    if name.is_empty() {
        return Err("a field's name is missing");
    }
    if !scanner.eat(b'=') {
        return Err("= is missing after a field's name");
    }
    if scanner.peek() != Some(b'"') {
        let text = scanner.take_while(|byte| !ends_word(byte));
        return Ok((name, Value::Number(number(text)?)));
    }
    scanner.take_quoted().ok_or("a string isn't closed")?;
    if scanner.peek().is_some_and(|byte| !ends_word(byte)) {
        return Err("a string ends before its field does");
    }
    Ok((name, Value::Text))
}

/// A value that isn't a string.
fn number(text: &[u8]) -> Result<f64, &'static str> {
    match text {
        [] => Err("a field's value is missing"),
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Ok(1.0),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Ok(0.0),
        [digits @ .., b'i'] => {
            whole::<i64>(digits).map(|int| int as f64).ok_or("a field's value isn't an integer of 64 bits")
        }
        [digits @ .., b'u'] => whole::<u64>(digits)
            .map(|int| int as f64)
            .ok_or("a field's value isn't an unsigned integer of 64 bits"),
        text => finite(text).ok_or("a field's value isn't a number, a boolean or a string in double quotes"),
    }
}

impl<'l> LineFields<'l> {
    /// The name of the next field that is a sample, as it is written, and its value.
    pub(crate) fn next_number(&mut self) -> Option<(&'l [u8], f64)> {
        while !self.rest.is_done() {
            // It was read before.
            let (name, value) = take_field(&mut self.rest).ok()?;
            self.rest.eat(b',');
            match value {
                Value::Number(number) => return Some((name, number)),
                Value::Text => {}
            }
        }
        None
    }

    /// Writes the name of the series of a field.
    pub(crate) fn write_name(&self, field: &[u8], out: &mut Vec<u8>) {
        unescape(self.measurement, out, |byte| is_escapable_in_measurement(byte).then_some(byte));
        out.push(b'_');
        unescape_key(field, out);
    }
}

fn unescape_key(raw: &[u8], out: &mut Vec<u8>) {
    unescape(raw, out, |byte| is_escapable(byte).then_some(byte));
}

fn is_escapable(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'=')
}

fn is_escapable_in_measurement(byte: u8) -> bool {
    matches!(byte, b',' | b' ')
}

/// What ends a measurement or a value.
fn ends_word(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\r' | b'\n')
}

/// What ends the name of a tag or a field.
fn ends_key(byte: u8) -> bool {
    ends_word(byte) || byte == b'='
}

fn skip_blanks(scanner: &mut Scanner<'_>) {
    scanner.take_while(|byte| byte == b' ');
}

#[cfg(test)]
mod tests {
    use super::super::decode::tests::{Told, run};
    use super::*;

    /// What lines become, `now` being 7.
    fn told(lines: &str) -> Told {
        run(&InfluxLines { precision: Precision::Milliseconds, ..InfluxLines::default() }, lines.as_bytes())
    }

    fn check(line: &str, samples: &[(&str, i64, f64)]) {
        assert_eq!(told(line), Told::of(samples), "{line}");
    }

    #[test]
    fn each_field_that_is_a_number_or_a_truth_is_a_sample() {
        let line = "room,room=kitchen temperature=21.5,people=2i,pets=3u,open=true,dark=F 1700000000000";
        let series = |field: &str| format!(r#"{{__name__="room_{field}", room="kitchen"}}"#);
        let values = [("temperature", 21.5), ("people", 2.0), ("pets", 3.0), ("open", 1.0), ("dark", 0.0)];
        let series = values.map(|(field, value)| (series(field), value));
        check(line, &series.each_ref().map(|(series, value)| (&**series, 1_700_000_000_000, *value)));
    }

    #[test]
    fn values_are_written_as_influxdb_takes_them() {
        let check = |text: &str, value| check(&format!("m f={text}"), &[(r#"{__name__="m_f"}"#, 7, value)]);
        for (text, value) in [("1", 1.0), ("-1.5e-3", -0.0015), ("+.5", 0.5), ("1.", 1.0), ("-7i", -7.0)] {
            check(text, value);
        }
        for (truth, value) in
            [("t", 1.0), ("T", 1.0), ("True", 1.0), ("TRUE", 1.0), ("f", 0.0), ("false", 0.0), ("FALSE", 0.0)]
        {
            check(truth, value);
        }
        check("9223372036854775807i", i64::MAX as f64);
        check("18446744073709551615u", u64::MAX as f64);
    }

    #[test]
    fn strings_are_counted_and_no_samples() {
        let with_string = Told { strings: 1, ..Told::of(&[(r#"{__name__="m_f"}"#, 7, 1.0)]) };
        assert_eq!(told(r#"m s="a, b=\"c\" \\",f=1"#), with_string);
        assert_eq!(told("m s=\"two\nlines f=1\n\",f=1"), with_string);
        assert_eq!(told(r#"m s="""#), Told { strings: 1, ..Told::default() });
    }

    #[test]
    fn names_and_tags_have_escapes() {
        check(r"a\ b\,c f=1", &[(r#"{__name__="a b,c_f"}"#, 7, 1.0)]);
        check(r"a\=b f=1", &[(r#"{__name__="a\\=b_f"}"#, 7, 1.0)]);
        check(
            r"m,t\ a\,g\=h=v\ w\,x\=y f\ g\,h\=i=1",
            &[(r#"{__name__="m_f g,h=i", "t a,g=h"="v w,x=y"}"#, 7, 1.0)],
        );
        check(
            r"m,path=C:\temp\\x,end=a\\,b f=1",
            &[(r#"{__name__="m_f", end="a\\,b", path="C:\\temp\\\\x"}"#, 7, 1.0)],
        );
        check("m,quoted=\"a\" f=1", &[(r#"{__name__="m_f", quoted="\"a\""}"#, 7, 1.0)]);
        check("wärme,höhe=日本 ü=1", &[(r#"{__name__="wärme_ü", "höhe"="日本"}"#, 7, 1.0)]);
        check("m,a=b=c f=1", &[(r#"{__name__="m_f", a="b=c"}"#, 7, 1.0)]);
    }

    #[test]
    fn blanks_comments_and_ends_of_lines_are_passed_over() {
        let one = [(r#"{__name__="m_f"}"#, 5, 1.0)];
        for line in ["m f=1 5", "  m   f=1   5  \r\n", "# a comment, f=\"\n\n\r\nm f=1 5\n", "m,empty= f=1 5"]
        {
            check(line, &one);
        }
        check("m f=1\r\nm f=2 8", &[(r#"{__name__="m_f"}"#, 7, 1.0), (r#"{__name__="m_f"}"#, 8, 2.0)]);
    }

    #[test]
    fn times_have_the_unit_that_is_told() {
        let check =
            |precision: Precision, time, expect| assert_eq!(precision.to_ms(time), expect, "{precision:?}");
        check(Precision::Nanoseconds, 1_700_000_000_123_999_999, Some(1_700_000_000_123));
        check(Precision::Nanoseconds, -1, Some(-1));
        check(Precision::Microseconds, 1_700_000_000_123_999, Some(1_700_000_000_123));
        check(Precision::Milliseconds, 1_700_000_000_123, Some(1_700_000_000_123));
        check(Precision::Seconds, 1_700_000_000, Some(1_700_000_000_000));
        check(Precision::Minutes, 2, Some(120_000));
        check(Precision::Hours, 2, Some(7_200_000));
        for precision in [Precision::Seconds, Precision::Minutes, Precision::Hours] {
            check(precision, i64::MAX, None);
        }
    }

    #[test]
    fn the_database_is_a_label_where_no_tag_is_named_so() {
        let lines = InfluxLines { db: Some("d".into()), ..InfluxLines::default() };
        let told = run(&lines, b"m f=1\nm,db=own f=1");
        let series = [r#"{__name__="m_f", db="d"}"#, r#"{__name__="m_f", db="own"}"#];
        assert_eq!(told, Told::of(&series.map(|series| (series, 7, 1.0))));
    }

    fn check_refused(line: &str, words: &str) {
        told(line).check_refused_once(line, words);
    }

    #[test]
    fn a_line_that_can_t_be_read_is_told_why() {
        check_refused(",a=b f=1", "begins with a measurement");
        check_refused("m", "line 1: the fields are missing: \"m\"");
        check_refused("m,a=b", "the fields are missing");
        check_refused("m ", "a field's name is missing");
        check_refused("m,=b f=1", "a tag's name is missing");
        check_refused("m,a f=1", "= is missing after a tag's name");
        check_refused("m f", "= is missing after a field's name");
        check_refused("m f=1,", "a field's name is missing");
        check_refused("m f=", "a field's value is missing");
        check_refused("m f=one", "a field's value isn't a number");
        for value in ["NaN", "1e999", "-Inf", "1.5.2", "truE"] {
            check_refused(&format!("m f={value}"), "a field's value isn't a number");
        }
        check_refused("m f=1.5i", "a field's value isn't an integer of 64 bits");
        check_refused("m f=9223372036854775808i", "a field's value isn't an integer");
        check_refused("m f=-1u", "isn't an unsigned integer");
        check_refused("m f=\"a", "a string isn't closed");
        check_refused("m f=\"a\"b", "a string ends before its field");
        check_refused("m f=1 1.5", "the time isn't a whole number");
        check_refused("m f=1 1 2", "something after the time");
        check_refused("m,__name__=x f=1", "a tag is named __name__");
    }

    #[test]
    fn each_field_s_label_set_is_checked() {
        let told = told(&format!("m,a={} f=1,g=2", "x".repeat(9000)));
        assert_eq!((told.samples.len(), told.refused), (0, 2));
        assert!(told.first.unwrap().contains("label name or value is too long"));
    }

    #[test]
    fn a_bad_line_costs_no_other_and_a_string_s_lines_are_its_own() {
        let good = |time| (r#"{__name__="m_f"}"#, time, 1.0);
        let check = |lines: &str, refused, first: &str, times: &[i64]| {
            let told = told(lines);
            assert_eq!(
                (told.samples, told.refused),
                (Told::of(&times.iter().map(|t| good(*t)).collect::<Vec<_>>()).samples, refused),
                "{lines}"
            );
            assert!(told.first.as_ref().unwrap().starts_with(first), "{:?}", told.first);
        };
        check("m f=1 1\nm f= 2\nm f=1 3", 1, "line 2: ", &[1, 3]);
        // Not closed: the next line is one.
        check("m s=\"a\nm f=1 2", 1, "line 1: a string isn't closed", &[2]);
        // Closed in the third line, of which the rest is wrong: none of the three is a line of its own.
        check("m s=\"a\nm f=1 2\nb\",=\nm f=1 4\nx", 2, "line 1: a field's name", &[4]);
        check("m s=\"a\n\n\",f=1 1\nx\n", 1, "line 4: ", &[1]);
    }
}
