//! What is beside samples in Prometheus' text format and in OpenMetrics: exemplars after a line's sample, and what
//! comments say of metrics. None of it fails a request: what can't be kept is counted by reason.

use super::number::{timestamp_ms, value};
use super::prometheus_text::{is_blank, meaning, skip_blanks, take_bare, take_text};
use super::scanner::{Scanner, unescape};
use silverback_model::{ExemplarLabels, ExemplarRejected, Metadata, MetadataRejected, MetricType, SeriesId};
use silverback_storage::message::PartExemplar;

/// Reads `{trace_id="a"} 0.6 1700000000.5`: an exemplar of a series, at `sample_ms` where it has no time. Its labels go
/// to the end of `beside`.
pub(super) fn read_exemplar(
    text: &[u8],
    series: SeriesId,
    sample_ms: i64,
    beside: &mut Vec<u8>,
) -> Result<PartExemplar, ExemplarRejected> {
    let mut scanner = Scanner::new(text);
    let mut texts = Vec::new();
    let places = read_labels(&mut scanner, &mut texts).ok_or(ExemplarRejected::Malformed)?;
    let (value, timestamp_ms) = read_number_and_time(&mut scanner).ok_or(ExemplarRejected::Malformed)?;
    let mut labels = ExemplarLabels::default();
    for [begin, middle, end] in places {
        labels.push(&texts[begin..middle], &texts[middle..end])?;
    }
    let begin = beside.len();
    labels.put_canonical(beside)?;
    let (labels_begin, labels_len) = (begin as u32, (beside.len() - begin) as u32);
    let timestamp_ms = timestamp_ms.unwrap_or(sample_ms);
    Ok(PartExemplar { series, timestamp_ms, value, labels_begin, labels_len })
}

/// Names and values one after the other in `texts`: where each label begins, where its value does, and where it ends.
fn read_labels(scanner: &mut Scanner<'_>, texts: &mut Vec<u8>) -> Option<Vec<[usize; 3]>> {
    let mut places = Vec::new();
    scanner.eat(b'{').then_some(())?;
    loop {
        skip_blanks(scanner);
        if scanner.eat(b'}') {
            return Some(places);
        }
        let begin = texts.len();
        let is_quoted = scanner.peek() == Some(b'"');
        let name = if is_quoted { take_text(scanner).ok()? } else { take_bare(scanner) };
        unescape(name, texts, meaning);
        let middle = texts.len();
        skip_blanks(scanner);
        scanner.eat(b'=').then_some(())?;
        skip_blanks(scanner);
        (scanner.peek() == Some(b'"')).then_some(())?;
        unescape(take_text(scanner).ok()?, texts, meaning);
        places.push([begin, middle, texts.len()]);
        skip_blanks(scanner);
        if !scanner.eat(b',') && scanner.peek() != Some(b'}') {
            return None;
        }
    }
}

fn read_number_and_time(scanner: &mut Scanner<'_>) -> Option<(f64, Option<i64>)> {
    skip_blanks(scanner);
    let value = value(scanner.take_while(|byte| !is_blank(byte)))?;
    skip_blanks(scanner);
    let time = scanner.take_while(|byte| !is_blank(byte));
    let time = if time.is_empty() { None } else { Some(timestamp_ms(time)?) };
    skip_blanks(scanner);
    scanner.is_done().then_some((value, time))
}

/// What a comment says of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said<'l> {
    /// Of which.
    pub name: &'l [u8],
    /// What.
    pub what: SaidWhat<'l>,
}

/// One of the three things that comments say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidWhat<'l> {
    /// Its type.
    Type(MetricType),
    /// What it means, as it stands in the line.
    Help(&'l [u8]),
    /// Its unit.
    Unit(&'l [u8]),
}

/// Reads a comment from after its `#`; `None`: it says nothing.
pub(super) fn read_comment<'l>(scanner: &mut Scanner<'l>) -> Option<Said<'l>> {
    skip_blanks(scanner);
    let keyword = scanner.take_while(|byte| !is_blank(byte));
    if !matches!(keyword, b"HELP" | b"TYPE" | b"UNIT") {
        return None;
    }
    skip_blanks(scanner);
    let is_quoted = scanner.peek() == Some(b'"');
    let name = if is_quoted { take_text(scanner).ok()? } else { scanner.take_while(|byte| !is_blank(byte)) };
    skip_blanks(scanner);
    let rest = scanner.take_while(|_| true);
    let what = match keyword {
        b"TYPE" => SaidWhat::Type(MetricType::of_name(rest.trim_ascii_end())),
        b"HELP" => SaidWhat::Help(rest),
        _unit => SaidWhat::Unit(rest.trim_ascii_end()),
    };
    (!name.is_empty()).then_some(Said { name, what })
}

/// What the comments in front of a metric's lines have said so far.
#[derive(Debug, Default)]
pub(super) struct MetricComments {
    name: Vec<u8>,
    kind: MetricType,
    help: Vec<u8>,
    unit: Vec<u8>,
}

impl MetricComments {
    /// Whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        self.name.is_empty()
    }

    /// Whether a comment is about another metric than those before it.
    pub(super) fn is_of_other(&self, said: &Said<'_>) -> bool {
        !self.is_empty() && self.name != said.name
    }

    /// Adds what a comment says.
    pub(super) fn add(&mut self, said: &Said<'_>) {
        self.name.clear();
        self.name.extend_from_slice(said.name);
        match said.what {
            SaidWhat::Type(kind) => self.kind = kind,
            SaidWhat::Help(raw) => {
                self.help.clear();
                unescape(raw, &mut self.help, meaning);
            }
            SaidWhat::Unit(unit) => self.unit = unit.to_vec(),
        }
    }

    /// All of it.
    pub(super) fn metadata(&self) -> Result<Metadata<'_>, MetadataRejected> {
        Metadata::new(&self.name, self.kind, &self.help, &self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::LabelBlock;

    /// Labels, value and time.
    type Read = (Vec<(String, String)>, f64, i64);

    fn exemplar(text: &str) -> Result<Read, ExemplarRejected> {
        let mut beside = b"before".to_vec();
        let read = read_exemplar(text.as_bytes(), SeriesId(1), 7, &mut beside)?;
        let labels = LabelBlock(&beside[read.labels_begin as usize..][..read.labels_len as usize]);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let labels = labels.iter().map(|(name, value)| (text(name), text(value))).collect();
        Ok((labels, read.value, read.timestamp_ms))
    }

    #[test]
    fn an_exemplar_has_labels_a_value_and_a_time_or_its_sample_s() {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let both = vec![label("span_id", "b"), label("trace_id", "a\"\n")];
        assert_eq!(
            exemplar(r#"{trace_id="a\"\n",span_id="b"} 0.6 1700000000.5"#),
            Ok((both, 0.6, 1_700_000_000_500))
        );
        assert_eq!(exemplar("{} 3"), Ok((Vec::new(), 3.0, 7)));
        assert_eq!(exemplar("{\"a.b\" = \"c\" , }  -1 "), Ok((vec![label("a.b", "c")], -1.0, 7)));
    }

    #[test]
    fn what_is_no_exemplar_is_refused() {
        for text in
            ["{", "{a}", "{a=b} 1", "{a=\"b\"}", "{a=\"b\"} x", "{} 1 x", "{} 1 2 3", "{a=\"b\" c=\"d\"} 1"]
        {
            assert_eq!(exemplar(text), Err(ExemplarRejected::Malformed), "{text}");
        }
        assert_eq!(exemplar(r#"{a="1",a="2"} 1"#), Err(ExemplarRejected::BadLabels));
        let long = format!("{{a=\"{}\"}} 1", "x".repeat(128));
        assert_eq!(exemplar(&long), Err(ExemplarRejected::LabelsTooLong));
    }

    #[test]
    fn comments_say_type_help_and_unit() {
        let mut told = MetricComments::default();
        for line in [
            " TYPE up gauge ",
            " HELP up a \\\"line\\\"\\nand a \\\\",
            " UNIT up ratio",
            " EOF",
            " HELP",
            "",
            "x",
        ] {
            if let Some(said) = read_comment(&mut Scanner::new(line.as_bytes())) {
                assert!(!told.is_of_other(&said));
                told.add(&said);
            }
        }
        let expect =
            Metadata { name: "up", kind: MetricType::Gauge, help: "a \"line\"\nand a \\", unit: "ratio" };
        assert_eq!(told.metadata(), Ok(expect));
        let other = read_comment(&mut Scanner::new(b" TYPE \"a b\" counter")).unwrap();
        assert!(told.is_of_other(&other) && other.name == b"a b");
    }
}
