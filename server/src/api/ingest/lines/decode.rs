//! From a request's lines to series and samples: line by line, in slices. What is wrong with one line, or with one
//! series, is noted with the line's number; what is too large ends the request.

use std::cell::RefCell;
use std::time::Instant;

use silverback_model::printable::Quoted;

use super::beside::{MetricComments, Said, read_exemplar};
use super::influx_lines::LineFields;
use crate::api::ingest::known_metadata::{KnownMetadata, fingerprint};
use crate::api::ingest::label_sets::{LabelSets, LabelsRejected};
use crate::api::ingest::remote_write::{MalformedError, MalformedErrorKind, SeriesSink, WriteRejected};
use silverback_model::limits::{
    LINE_BYTES_MAX, REQUEST_EXEMPLARS_MAX, REQUEST_METADATA_BYTES_MAX, REQUEST_SAMPLES_MAX,
};
use silverback_model::{
    ExemplarRejected, ExemplarRejectedCounts, MetadataRejected, MetadataRejectedCounts, RefusedReason,
    Sample, SeriesId, SeriesIdHasher,
};
use silverback_runtime::now;
use silverback_runtime::slices::SLICE;
use silverback_storage::message::{DefinitionBlock, LabelSpan, PartMetadata, RejectedSamples};

/// What a line or a sample takes beside its bytes, counted as bytes.
const STEP_BYTES: usize = 64;
/// Bytes between two looks at the clock: a few µs.
const LOOK_BYTES: usize = 4 << 10;
/// Bytes of a line that is too long which are passed over at one go.
const SKIP_BYTES: usize = 32 << 10;
/// How much of a line its sender is shown.
const EXCERPT_BYTES: usize = 80;

/// A format of lines.
pub trait LineFormat {
    /// Reads the line that `bytes` begin with; the labels of its series go to `sets`, which has begun.
    fn read<'l>(&self, bytes: &'l [u8], sets: &mut LabelSets) -> Result<ParsedLine<'l>, LineParseError>;
}

/// A line that was read.
#[derive(Debug)]
pub struct ParsedLine<'l> {
    /// Its bytes, its end among them. A string may hold ends of lines.
    pub len: usize,
    /// When, in ms since the Unix epoch, if it says that.
    pub timestamp_ms: Option<i64>,
    /// What.
    pub samples: LineSamples<'l>,
    /// The exemplar of its sample, as it stands there.
    pub exemplar: Option<&'l [u8]>,
    /// What it says of a metric: then it has no sample.
    pub said: Option<Said<'l>>,
    /// Fields that are strings, which aren't stored.
    pub strings: u64,
}

impl ParsedLine<'_> {
    /// Of so many bytes.
    pub(super) fn of_nothing(len: usize) -> Self {
        Self { len, timestamp_ms: None, samples: LineSamples::None, exemplar: None, said: None, strings: 0 }
    }
}

/// The samples of a line.
#[derive(Debug)]
pub enum LineSamples<'l> {
    /// It has none.
    None,
    /// One, of the series of its labels.
    One(f64),
    /// One for each field, of a series by that name.
    Fields(LineFields<'l>),
}

/// Why a line can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineParseError {
    /// What is wrong.
    pub words: &'static str,
    /// Where, in bytes from its begin: what follows the next end of a line is read again.
    pub at: usize,
}

/// A line of which not everything was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRejected {
    /// Its number; the first line is 1.
    pub number: u32,
    /// What is wrong with it, and its begin.
    pub words: String,
}

/// What a request's lines became.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The label sets of its series.
    pub labels: DefinitionBlock,
    /// Samples that were passed on.
    pub samples: u64,
    /// Samples that were not, and lines that can't be read, each of them as one.
    pub refused: RejectedSamples,
    /// The first line of these.
    pub first: Option<LineRejected>,
    /// Exemplars that were refused, by reason.
    pub exemplars_refused: ExemplarRejectedCounts,
    /// Metadata that was.
    pub metadata_refused: MetadataRejectedCounts,
    /// The texts of exemplars and metadata.
    pub beside: Vec<u8>,
    /// Fields that are strings, which were skipped.
    pub strings: u64,
}

/// Reads a request's lines; samples without a time get `now_ms`. Each sample goes to `sink` with the number of its
/// label set and that of its line. `pause` is called between slices with the sink and the bytes of the label sets
/// so far.
pub async fn decode<F: LineFormat, S: SeriesSink>(
    bytes: &[u8],
    format: &F,
    now_ms: i64,
    hasher: &SeriesIdHasher,
    sink: &mut S,
    known: &RefCell<KnownMetadata>,
    pause: impl AsyncFnMut(&S, usize) -> Result<(), WriteRejected>,
) -> Result<Decoded, WriteRejected> {
    if bytes.len() > LabelSpan::OFFSET_MAX {
        let cause = MalformedErrorKind::BodyTooLarge;
        return Err(MalformedError { offset: LabelSpan::OFFSET_MAX, cause }.into());
    }
    let pacer = Pacer { pause, began: now(), bytes_left: LOOK_BYTES };
    let (sets, decoded) = (LabelSets::default(), Decoded::default());
    let mut walk = Walk {
        bytes,
        at: 0,
        number: 1,
        format,
        now_ms,
        hasher,
        sink,
        pacer,
        sets,
        name: Vec::new(),
        known,
        told: MetricComments::default(),
        exemplars: 0,
        decoded,
    };
    while walk.at < bytes.len() {
        walk.line().await?;
    }
    walk.tell();
    (walk.pacer.pause)(walk.sink, walk.sets.made.bytes() + walk.decoded.beside.len()).await?;
    let Walk { sets, decoded, .. } = walk;
    Ok(Decoded { labels: sets.made, ..decoded })
}

struct Walk<'a, F, S, P> {
    bytes: &'a [u8],
    /// Where the present line begins, ...
    at: usize,
    /// ... and its number.
    number: u32,
    format: &'a F,
    now_ms: i64,
    hasher: &'a SeriesIdHasher,
    sink: &'a mut S,
    pacer: Pacer<P>,
    sets: LabelSets,
    /// The name of a field's series; empty where a line's labels name it. Kept for its memory.
    name: Vec<u8>,
    known: &'a RefCell<KnownMetadata>,
    /// What comments have said of the metric whose lines follow.
    told: MetricComments,
    exemplars: u64,
    decoded: Decoded,
}

/// Says when others get their turn: bytes that are read and made take time.
struct Pacer<P> {
    pause: P,
    began: Instant,
    bytes_left: usize,
}

impl<F: LineFormat, S: SeriesSink, P: AsyncFnMut(&S, usize) -> Result<(), WriteRejected>> Walk<'_, F, S, P> {
    async fn step(&mut self, bytes: usize) -> Result<(), WriteRejected> {
        let pacer = &mut self.pacer;
        pacer.bytes_left = pacer.bytes_left.saturating_sub(STEP_BYTES + bytes);
        if pacer.bytes_left > 0 {
            return Ok(());
        }
        pacer.bytes_left = LOOK_BYTES;
        if pacer.began.elapsed() >= SLICE {
            (pacer.pause)(self.sink, self.sets.made.bytes() + self.decoded.beside.len()).await?;
            pacer.began = now();
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<(), WriteRejected> {
        self.sets.begin();
        let rest = &self.bytes[self.at..];
        let window = &rest[..rest.len().min(LINE_BYTES_MAX)];
        let is_cut = window.len() < rest.len();
        if is_cut && !window.contains(&b'\n') {
            return self.pass_over(window.len(), "the line is too long").await;
        }
        match self.format.read(window, &mut self.sets) {
            // It goes on where the window ends.
            Ok(line) if is_cut && line.len == window.len() && !window.ends_with(b"\n") => {
                self.pass_over(window.len(), "the line is too long").await
            }
            Ok(line) => {
                let end = self.at + line.len;
                self.samples(line).await?;
                self.go_on_at(end).await
            }
            Err(LineParseError { words, at }) => self.pass_over(at, words).await,
        }
    }

    /// Refuses the present line, and goes on after the first end of a line from `at` on.
    async fn pass_over(&mut self, at: usize, words: &str) -> Result<(), WriteRejected> {
        self.refuse(RefusedReason::MalformedLine, words, &format!(": {words}"));
        let mut end = self.at + at;
        loop {
            let piece = &self.bytes[end..self.bytes.len().min(end + SKIP_BYTES)];
            match piece.iter().position(|byte| *byte == b'\n') {
                Some(newline) => return self.go_on_at(end + newline + 1).await,
                None if end + piece.len() == self.bytes.len() => {
                    return self.go_on_at(self.bytes.len()).await;
                }
                None => end += piece.len(),
            }
            self.step(piece.len()).await?;
        }
    }

    async fn go_on_at(&mut self, end: usize) -> Result<(), WriteRejected> {
        let passed = &self.bytes[self.at..end];
        // One after another, where a line that was too long is longer than a slice takes.
        for piece in passed.chunks(SKIP_BYTES) {
            self.number += piece.iter().filter(|byte| **byte == b'\n').count() as u32;
            self.step(piece.len()).await?;
        }
        self.at = end;
        Ok(())
    }

    async fn samples(&mut self, line: ParsedLine<'_>) -> Result<(), WriteRejected> {
        let timestamp_ms = line.timestamp_ms.unwrap_or(self.now_ms);
        self.name.clear();
        if let Some(said) = &line.said {
            self.hear(said);
        }
        self.decoded.strings += line.strings;
        match line.samples {
            LineSamples::None => {}
            LineSamples::One(value) => {
                self.tell();
                let series = self.sample(Sample::new(timestamp_ms, value))?;
                if let (Some(series), Some(exemplar)) = (series, line.exemplar) {
                    self.exemplar(series, exemplar, timestamp_ms);
                }
            }
            LineSamples::Fields(mut fields) => {
                while let Some((field, value)) = fields.next_number() {
                    self.name.clear();
                    fields.write_name(field, &mut self.name);
                    self.sample(Sample::new(timestamp_ms, value))?;
                    self.step(self.sets.shared_bytes() + self.name.len()).await?;
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self, said: &Said<'_>) {
        if self.told.is_of_other(said) {
            self.tell();
        }
        self.told.add(said);
    }

    /// Passes on what comments have said, unless it was recently.
    fn tell(&mut self) {
        if self.told.is_empty() {
            return;
        }
        let told = std::mem::take(&mut self.told);
        let refused = &mut self.decoded.metadata_refused;
        match told.metadata() {
            Ok(said) => {
                let texts =
                    [said.name, said.help, said.unit].map(|text| self.hasher.fingerprint(text.as_bytes()));
                let fingerprint = fingerprint(self.hasher, said.kind, texts);
                let mut known = self.known.borrow_mut();
                if known.knows(fingerprint) {
                    return;
                }
                if self.decoded.beside.len() > REQUEST_METADATA_BYTES_MAX {
                    return refused.add(MetadataRejected::TooMany, 1);
                }
                let part = PartMetadata::put(&said, &mut self.decoded.beside);
                self.sink.metadata(&said, part);
                known.note(fingerprint);
            }
            Err(reason) => refused.add(reason, 1),
        }
    }

    fn exemplar(&mut self, series: SeriesId, text: &[u8], sample_ms: i64) {
        self.exemplars += 1;
        let read = match self.exemplars > REQUEST_EXEMPLARS_MAX {
            true => Err(ExemplarRejected::TooMany),
            false => read_exemplar(text, series, sample_ms, &mut self.decoded.beside),
        };
        match read {
            Ok(exemplar) => self.sink.exemplar(exemplar),
            Err(reason) => self.decoded.exemplars_refused.add(reason, 1),
        }
    }

    /// Passes a sample on: of the series of the shared labels, or of these and the present name. Returns the series,
    /// unless it is refused.
    fn sample(&mut self, sample: Sample) -> Result<Option<SeriesId>, MalformedError> {
        let value = [&self.name[..]];
        let named = [("__name__", &value[..])];
        let own = if self.name.is_empty() { &[] } else { &named[..] };
        let mut series = None;
        match self.sets.make(own, self.hasher) {
            Ok((id, definition)) => {
                series = Some(id);
                self.sink.series(id, LabelSpan::of_definition(definition, self.number), 1);
                self.sink.sample(sample);
                self.decoded.samples += 1;
            }
            Err(LabelsRejected::Refused(reason)) => self.refuse(reason, reason.text(), &reason.bound()),
            Err(LabelsRejected::TooMuch) => return Err(self.malformed(MalformedErrorKind::LabelsTooLarge)),
        }
        if self.decoded.samples > REQUEST_SAMPLES_MAX {
            return Err(self.malformed(MalformedErrorKind::TooManySamples));
        }
        Ok(series)
    }

    fn malformed(&self, cause: MalformedErrorKind) -> MalformedError {
        MalformedError { offset: self.at, cause }
    }

    /// Refuses a sample, or the whole line, in these words; `besides` is what the reason's own lack.
    fn refuse(&mut self, reason: RefusedReason, words: &str, besides: &str) {
        let (line, number) = (&self.bytes[self.at..], self.number);
        let job = self.sets.shared_value(b"job");
        let example = || (format!("line {number} {}:", excerpt(line)), besides.to_owned());
        self.decoded.refused.refuse(reason, 1, &job, example);
        if self.decoded.first.is_none() {
            self.decoded.first = Some(LineRejected { number, words: format!("{words}: {}", excerpt(line)) });
        }
    }
}

/// The begin of a line, as far as it is worth showing.
fn excerpt(bytes: &[u8]) -> String {
    let line = &bytes[..bytes
        .iter()
        .take(EXCERPT_BYTES)
        .position(|b| *b == b'\n')
        .unwrap_or(EXCERPT_BYTES.min(bytes.len()))];
    let is_cut = line.len() == EXCERPT_BYTES && bytes.get(EXCERPT_BYTES).is_some_and(|byte| *byte != b'\n');
    let text = String::from_utf8_lossy(line);
    format!("{}{}", Quoted(text.trim_end_matches('\r')), if is_cut { "…" } else { "" })
}

#[cfg(test)]
pub(super) mod tests {
    use futures::executor::block_on;

    use super::super::influx_lines::InfluxLines;
    use super::super::prometheus_text::PrometheusText;
    use super::*;
    use silverback_model::Labels;
    use silverback_storage::message::{Definitions, PartExemplar};

    /// What a request's lines became, in words.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub(crate) struct Told {
        /// Series, time, bits of the value.
        pub samples: Vec<(String, i64, u64)>,
        pub refused: u64,
        pub first: Option<String>,
        pub exemplars: u64,
        pub strings: u64,
    }

    impl Told {
        pub(crate) fn of(samples: &[(&str, i64, f64)]) -> Self {
            let sample =
                |(series, time, value): &(&str, i64, f64)| (series.to_string(), *time, value.to_bits());
            Self { samples: samples.iter().map(sample).collect(), ..Self::default() }
        }

        /// Nothing came of the line but one refusal, which is reported in these words among others.
        pub(crate) fn check_refused_once(&self, line: &str, words: &str) {
            let first = self.first.as_ref().unwrap_or_else(|| panic!("{line} is taken"));
            assert!(first.contains(words), "{line}: {first}");
            assert_eq!((self.samples.len(), self.refused), (0, 1), "{line}");
        }
    }

    #[derive(Default)]
    struct Collected {
        series: Vec<(SeriesId, LabelSpan)>,
        samples: Vec<Sample>,
        exemplars: u64,
    }

    impl SeriesSink for Collected {
        fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
            assert_eq!(samples, 1);
            self.series.push((id, labels));
        }

        fn sample(&mut self, sample: Sample) {
            self.samples.push(sample);
        }

        fn exemplar(&mut self, exemplar: PartExemplar) {
            assert_eq!(self.series.last().map(|(id, _)| *id), Some(exemplar.series));
            self.exemplars += 1;
        }
    }

    fn decode_counting(
        format: &impl LineFormat,
        bytes: &[u8],
    ) -> (Result<Decoded, WriteRejected>, Collected, SeriesIdHasher, usize) {
        let (hasher, mut sink, mut pauses) = (SeriesIdHasher::new(1, ""), Collected::default(), 0);
        let pause = async |_: &Collected, _| {
            pauses += 1;
            Ok(())
        };
        let decoded = block_on(decode(bytes, format, 7, &hasher, &mut sink, &RefCell::default(), pause));
        (decoded, sink, hasher, pauses)
    }

    /// Decodes lines, 7 being now.
    pub(crate) fn run(format: &impl LineFormat, bytes: &[u8]) -> Told {
        let (decoded, sink, hasher, _) = decode_counting(format, bytes);
        let Decoded { labels, samples, refused, first, strings, .. } = decoded.unwrap();
        assert_eq!((sink.series.len() as u64, sink.samples.len() as u64), (samples, samples));
        let mut definitions = Definitions::default();
        definitions.push(labels);
        let sample = |(number, (id, span)): (usize, &(SeriesId, LabelSpan))| {
            let block = definitions.labels(number as u32);
            assert_eq!(hasher.hash_canonical(block.0), *id);
            assert!(span.stream_ref().is_some_and(|line| line > 0));
            let Sample { timestamp_ms, value } = sink.samples[number];
            (Labels::from(block).to_string(), timestamp_ms, value.to_bits())
        };
        Told {
            samples: sink.series.iter().enumerate().map(sample).collect(),
            refused: refused.counts.total(),
            first: first.map(|LineRejected { number, words }| format!("line {number}: {words}")),
            exemplars: sink.exemplars,
            strings,
        }
    }

    #[test]
    fn a_bad_line_costs_no_other_and_the_first_is_told() {
        let lines = b"# HELP up x\nup 1\n\nup\nup 2 9000000000\nup x\r\nlast 3";
        let told = run(&PrometheusText::default(), lines);
        let up = r#"{__name__="up"}"#;
        let samples = Told::of(&[(up, 7, 1.0), (up, 9_000_000_000, 2.0), (r#"{__name__="last"}"#, 7, 3.0)]);
        let first = Some("line 4: the value is missing: \"up\"".to_owned());
        assert_eq!(told, Told { refused: 2, first, ..samples });
    }

    #[test]
    fn samples_have_the_numbers_of_their_lines() {
        let (decoded, sink, ..) =
            decode_counting(&InfluxLines::default(), b"\nm f=1,g=2\nm s=\"\n\"\n\nm h=3");
        assert_eq!(decoded.unwrap().samples, 3);
        let lines: Vec<_> = sink.series.iter().map(|(_, span)| span.stream_ref().unwrap()).collect();
        assert_eq!(lines, [2, 2, 6]);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let long = "x".repeat(LINE_BYTES_MAX);
        for (format, good) in [("up 1\n", 1), ("up 1", 1)] {
            let told =
                run(&PrometheusText::default(), format!("{long} 1\n{long}{long}{long}\n{format}").as_bytes());
            assert_eq!((told.samples.len(), told.refused), (good, 2));
            let first = told.first.unwrap();
            assert!(
                first.starts_with("line 1: the line is too long: \"xxx") && first.ends_with("…"),
                "{first}"
            );
            assert!(first.len() < 200, "{first}");
        }
        // A line of just that length isn't.
        let value = "x".repeat(LINE_BYTES_MAX - "m f=\"\"\n".len());
        let told = run(&InfluxLines::default(), format!("m f=\"{value}\"\nm f=1").as_bytes());
        assert_eq!((told.samples.len(), told.refused, told.strings), (1, 0, 1));
        // What a cut makes of a line, a number with fewer digits, isn't one.
        let value = "\n".repeat(LINE_BYTES_MAX - "m f=\"\",g=12".len());
        let told = run(&InfluxLines::default(), format!("m f=\"{value}\",g=1234567\nm f=1").as_bytes());
        assert_eq!((told.samples.len(), told.refused), (1, 1));
    }

    #[test]
    fn a_long_request_is_put_down_now_and_then() {
        let (lines, comments) = ("up{a=\"b\"} 1\n".repeat(50_000), "\n".repeat(4 << 20));
        let fields: String = (0..20_000).map(|i| format!("f{i}=1,")).collect();
        let fields = format!("m,tag={} {fields}last=1", "x".repeat(1000));
        for (bytes, samples) in [(&lines, 50_000), (&comments, 0)] {
            let (decoded, _, _, pauses) = decode_counting(&PrometheusText::default(), bytes.as_bytes());
            assert_eq!(decoded.unwrap().samples, samples);
            assert!(pauses > 10, "{pauses}");
        }
        let (decoded, _, _, pauses) = decode_counting(&InfluxLines::default(), fields.as_bytes());
        assert_eq!(decoded.unwrap().samples, 20_001);
        assert!(pauses > 10, "one line alone: {pauses}");
    }

    #[test]
    fn label_sets_that_take_too_much_end_the_request() {
        let fields: String = (0..20_000).map(|i| format!("f{i}=1,")).collect();
        let tags: String = (0..10).map(|i| format!(",t{i}={}", "x".repeat(8000))).collect();
        let line = format!("m{tags} {fields}last=1");
        let (decoded, ..) = decode_counting(&InfluxLines::default(), line.as_bytes());
        let cause = MalformedErrorKind::LabelsTooLarge;
        assert_eq!(decoded.map(|_| ()), Err(WriteRejected::Malformed(MalformedError { offset: 0, cause })));
    }

    #[test]
    fn strings_that_aren_t_closed_take_no_time_twice() {
        let lines = "m f=\"x\n".repeat(1_000_000);
        let began = Instant::now();
        let told = run(&InfluxLines::default(), lines.as_bytes());
        assert!(told.samples.is_empty() && told.refused > 0);
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
