//! From an OTLP request's bytes to series and samples, as Prometheus' receiver makes them.
//!
//! The outer messages are walked in place; prost reads one data point at a time. So what a request
//! takes in memory is known as it grows, and it can pause between any two data points.

use std::cell::RefCell;
use std::time::Instant;

use prost::Message;
use silverback_proto::otlp::common::v1::KeyValue;
use silverback_proto::otlp::metrics::v1::AggregationTemporality;
use silverback_proto::otlp::resource::v1::Resource;

use super::labels;
use super::naming::{NamedKind, metric_name, unit_name};
use super::samples::{
    Point, PointExemplar, PointSample, read_custom, read_exponential, read_histogram, read_number,
    read_summary,
};
use super::target::OtlpTarget;
use crate::api::ingest::known_metadata::{KnownMetadata, fingerprint};
use crate::api::ingest::label_sets::{LabelSets, LabelsRejected, OwnLabel};
use crate::api::ingest::remote_write::wire::{Tag, WireReader, WireType};
use crate::api::ingest::remote_write::{MalformedError, MalformedErrorKind, SeriesSink, WriteRejected};
use crate::config::{OtlpDelta, OtlpHistograms};
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::limits::{
    LABEL_VALUE_BYTES_MAX, OTLP_POINT_BYTES_MAX, REQUEST_EXEMPLARS_MAX, REQUEST_METADATA_BYTES_MAX,
    REQUEST_SAMPLES_MAX,
};
use silverback_model::{
    ExemplarLabels, ExemplarRejected, ExemplarRejectedCounts, Metadata, MetadataRejected,
    MetadataRejectedCounts, MetricType, RefusedReason, Sample, SeriesId, SeriesIdHasher,
};
use silverback_runtime::now;
use silverback_runtime::slices::SLICE;
use silverback_storage::message::{
    DefinitionBlock, LabelSpan, MessageSpan, PartExemplar, PartHistogram, PartMetadata, RejectedSamples,
};

const RESOURCE_METRICS: Tag = Tag::new(1, WireType::Len);
const RESOURCE: Tag = Tag::new(1, WireType::Len);
const SCOPE_METRICS: Tag = Tag::new(2, WireType::Len);
const METRICS: Tag = Tag::new(2, WireType::Len);
const NAME: Tag = Tag::new(1, WireType::Len);
const DESCRIPTION: Tag = Tag::new(2, WireType::Len);
const UNIT: Tag = Tag::new(3, WireType::Len);
const DATA_POINTS: Tag = Tag::new(1, WireType::Len);
const TEMPORALITY: Tag = Tag::new(2, WireType::Varint);
const IS_MONOTONIC: Tag = Tag::new(3, WireType::Varint);

/// Data points, series and messages together, after which others get their turn: about 200 µs.
const SLICE_STEPS: usize = 128;
/// Fields that are passed over, which take the time of a step.
const STEP_FIELDS: usize = 64;

/// A metric's name or unit of which no label value can be made any more, in bytes.
const NAME_BYTES_MAX: usize = 4 * LABEL_VALUE_BYTES_MAX;
/// How much of a metric's name its sender is shown.
const EXCERPT_BYTES: usize = 256;

/// The ref of `target_info`, which isn't a data point.
pub const NO_POINT: u32 = LabelSpan::REF_MAX;

/// A request that is translated.
#[derive(Debug, Default)]
pub struct Translation {
    /// The label sets of its series.
    pub labels: DefinitionBlock,
    /// Data points in it.
    pub points: u64,
    /// Those that were refused.
    pub refused: RejectedSamples,
    /// Exemplars that were refused, by reason.
    pub exemplars_refused: ExemplarRejectedCounts,
    /// Metadata that was.
    pub metadata_refused: MetadataRejectedCounts,
    /// The texts of exemplars and metadata, and native histograms as messages.
    pub beside: Vec<u8>,
}

impl Translation {
    /// What label sets, texts and messages take, in bytes.
    fn bytes(&self, sets: &LabelSets) -> usize {
        sets.made.bytes() + self.beside.len()
    }
}

/// What becomes of what can be accepted in more than one way.
#[derive(Debug, Clone, Copy)]
pub struct Modes {
    /// Data points that count what came since the last ones.
    pub delta: OtlpDelta,
    /// Histograms with explicit bounds.
    pub histograms: OtlpHistograms,
}

/// Translates a request. Each series goes to `sink` with the number of its label set and that of its
/// data point. `pause` is called between slices with the sink and the bytes of the label sets so far.
pub async fn translate<S: SeriesSink>(
    bytes: &[u8],
    modes: Modes,
    hasher: &SeriesIdHasher,
    sink: &mut S,
    known: &RefCell<KnownMetadata>,
    pause: impl AsyncFnMut(&S, usize) -> Result<(), WriteRejected>,
) -> Result<Translation, WriteRejected> {
    let (translation, sets) = (Translation::default(), LabelSets::default());
    let pacer = Pacer { pause, began: now(), steps_left: SLICE_STEPS, fields_left: STEP_FIELDS };
    let mut translator = Translator {
        modes,
        hasher,
        sink,
        known,
        pacer,
        sets,
        translation,
        samples: 0,
        exemplars: 0,
        metadata_bytes: 0,
    };
    let mut request = WireReader::new(bytes, 0);
    while let Some(resource) = translator.next(&mut request, RESOURCE_METRICS).await? {
        translator.resource(resource).await?;
    }
    let bytes = translator.translation.bytes(&translator.sets);
    (translator.pacer.pause)(translator.sink, bytes).await?;
    let Translator { sets, translation, .. } = translator;
    Ok(Translation { labels: sets.made, ..translation })
}

fn malformed(message: &WireReader, cause: MalformedErrorKind) -> MalformedError {
    MalformedError { offset: message.at(), cause }
}

/// Which of a metric's data it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataKind {
    Gauge,
    Sum,
    Histogram,
    ExponentialHistogram,
    Summary,
}

impl DataKind {
    fn of(tag: Tag) -> Option<Self> {
        const KINDS: [(u32, DataKind); 5] = [
            (5, DataKind::Gauge),
            (7, DataKind::Sum),
            (9, DataKind::Histogram),
            (10, DataKind::ExponentialHistogram),
            (11, DataKind::Summary),
        ];
        KINDS.into_iter().find_map(|(number, kind)| (tag == Tag::new(number, WireType::Len)).then_some(kind))
    }
}

/// A metric without its data points.
#[derive(Debug)]
struct Metric<'a> {
    otlp_name: &'a str,
    /// As Prometheus has it; or why none of its data points is stored.
    name: Result<String, RefusedReason>,
    kind: DataKind,
    /// What becomes of it, if it is one with explicit bounds.
    histograms: OtlpHistograms,
    /// Its data points count what came since the last ones.
    is_delta: bool,
}

struct Translator<'a, S, P> {
    modes: Modes,
    hasher: &'a SeriesIdHasher,
    sink: &'a mut S,
    known: &'a RefCell<KnownMetadata>,
    pacer: Pacer<P>,
    sets: LabelSets,
    translation: Translation,
    samples: u64,
    exemplars: u64,
    metadata_bytes: usize,
}

/// Says when others get their turn. What is empty takes time, too: everything that is read is a step.
struct Pacer<P> {
    pause: P,
    began: Instant,
    steps_left: usize,
    fields_left: usize,
}

/// What a step of reading gives, or why the request is not taken.
type ReadStep<T> = Result<T, WriteRejected>;

impl<S: SeriesSink, P: AsyncFnMut(&S, usize) -> ReadStep<()>> Translator<'_, S, P> {
    async fn step(&mut self, steps: usize) -> ReadStep<()> {
        let pacer = &mut self.pacer;
        pacer.steps_left = pacer.steps_left.saturating_sub(steps);
        if pacer.steps_left == 0 || pacer.began.elapsed() >= SLICE {
            pacer.steps_left = SLICE_STEPS;
            (pacer.pause)(self.sink, self.translation.bytes(&self.sets)).await?;
            pacer.began = now();
        }
        Ok(())
    }

    /// A field is passed over, or looked at for the first time of two.
    async fn pass_over(&mut self) -> ReadStep<()> {
        self.pacer.fields_left -= 1;
        if self.pacer.fields_left == 0 {
            self.pacer.fields_left = STEP_FIELDS;
            self.step(1).await?;
        }
        Ok(())
    }

    /// The next field of this kind; others are passed over.
    async fn next<'m>(
        &mut self,
        message: &mut WireReader<'m>,
        wanted: Tag,
    ) -> ReadStep<Option<WireReader<'m>>> {
        while !message.is_empty() {
            let tag = message.tag()?;
            if tag == wanted {
                return Ok(Some(message.message()?));
            }
            message.skip(tag)?;
            self.pass_over().await?;
        }
        Ok(None)
    }

    async fn resource(&mut self, message: WireReader<'_>) -> ReadStep<()> {
        self.step(1).await?;
        let target = OtlpTarget::of(self.resource_attributes(message).await?);
        let mut newest_ms = None;
        let mut scopes = message;
        while let Some(mut scope) = self.next(&mut scopes, SCOPE_METRICS).await? {
            self.step(1).await?;
            while let Some(metric) = self.next(&mut scope, METRICS).await? {
                self.step(1).await?;
                newest_ms = newest_ms.max(self.metric(metric, &target).await?);
            }
        }
        if let Some(timestamp_ms) = newest_ms.filter(|_| target.has_info()) {
            self.add_info(&target, timestamp_ms)?;
        }
        Ok(())
    }

    /// The time of its newest data point that is stored.
    async fn metric(&mut self, message: WireReader<'_>, target: &OtlpTarget) -> ReadStep<Option<i64>> {
        let Some(metric) = self.read_metric(message).await? else { return Ok(None) };
        let fixed = target.labels();
        let mut newest_ms = None;
        let mut fields = message;
        while !fields.is_empty() {
            let tag = fields.tag()?;
            self.pass_over().await?;
            if DataKind::of(tag) != Some(metric.kind) {
                fields.skip(tag)?;
                continue;
            }
            let mut data = fields.message()?;
            while let Some(point) = self.next(&mut data, DATA_POINTS).await? {
                let before = self.samples + self.exemplars;
                newest_ms = newest_ms.max(self.point(&metric, point, &fixed)?);
                self.step(1 + (self.samples + self.exemplars - before) as usize).await?;
            }
        }
        Ok(newest_ms)
    }

    /// A metric's name, unit and kind; none of one without data.
    async fn read_metric<'m>(&mut self, mut message: WireReader<'m>) -> ReadStep<Option<Metric<'m>>> {
        let (mut name, mut unit, mut help, mut data) = ("", "", "", None);
        while !message.is_empty() {
            match message.tag()? {
                NAME => name = text(&mut message)?,
                DESCRIPTION => help = text(&mut message)?,
                UNIT => unit = text(&mut message)?,
                tag => match DataKind::of(tag) {
                    Some(kind) => data = Some((kind, message.message()?)),
                    None => message.skip(tag)?,
                },
            }
            self.pass_over().await?;
        }
        let Some((kind, data)) = data else { return Ok(None) };
        let shape = self.read_shape(kind, data).await?;
        let (named, is_delta) = (shape.map(|shape| shape.named), shape.is_ok_and(|shape| shape.is_delta));
        let name_of = |named| match metric_name(name, unit, named) {
            // The longest suffix is `_bucket`.
            Some(name) if name.len() + 7 > LABEL_VALUE_BYTES_MAX => Err(RefusedReason::LabelTooLong),
            Some(name) => Ok(name),
            None => Err(RefusedReason::BadName),
        };
        // To make a name takes time and memory by its length; so long a one becomes none.
        let is_long = name.len().max(unit.len()) > NAME_BYTES_MAX;
        let made = if is_long { Err(RefusedReason::LabelTooLong) } else { named.and_then(name_of) };
        if let (Ok(name), Ok(shape)) = (&made, shape) {
            self.describe(name, shape.kind, help, unit);
        }
        let histograms = self.modes.histograms;
        Ok(Some(Metric { otlp_name: excerpt(name), name: made, kind, histograms, is_delta }))
    }

    async fn read_shape(
        &mut self,
        kind: DataKind,
        mut data: WireReader<'_>,
    ) -> ReadStep<Result<Shape, RefusedReason>> {
        let (mut temporality, mut is_monotonic) = (0, false);
        while !data.is_empty() {
            match data.tag()? {
                TEMPORALITY => temporality = data.varint()? as i32,
                IS_MONOTONIC => is_monotonic = data.varint()? != 0,
                other => data.skip(other)?,
            }
            self.pass_over().await?;
        }
        Ok(shape_of(kind, temporality, is_monotonic, self.modes))
    }

    /// All attributes, of several resource messages too: they are parts of one.
    async fn resource_attributes(&mut self, mut message: WireReader<'_>) -> ReadStep<Vec<KeyValue>> {
        let (mut attributes, mut bytes_in_all) = (Vec::new(), 0);
        while let Some(resource) = self.next(&mut message, RESOURCE).await? {
            self.step(1).await?;
            let bytes = small_enough(&resource)?;
            bytes_in_all += bytes.len();
            if bytes_in_all > OTLP_POINT_BYTES_MAX {
                return Err(malformed(&resource, MalformedErrorKind::LabelsTooLarge).into());
            }
            let read = Resource::decode(bytes)
                .map_err(|_| malformed(&resource, MalformedErrorKind::BrokenMessage))?;
            attributes.extend(read.attributes);
        }
        Ok(attributes)
    }

    /// Its time, if it is stored.
    fn point(
        &mut self,
        metric: &Metric,
        message: WireReader,
        fixed: &[(&str, &str)],
    ) -> Result<Option<i64>, MalformedError> {
        let number = self.translation.points as u32;
        self.translation.points += 1;
        let point = match read_point(metric, message)? {
            Ok(point) => point,
            Err(reason) => return Ok(self.refuse(metric, fixed, reason)),
        };
        let Ok(name) = &metric.name else { return Ok(None) };
        let added = match labels::begin(&mut self.sets, &point.attributes, fixed) {
            Ok(()) => {
                self.add(name, &point, number, metric).and_then(|()| self.add_histogram(name, &point, number))
            }
            Err(reason) => Err(reason.into()),
        };
        match added {
            Ok(()) if self.samples > REQUEST_SAMPLES_MAX => {
                Err(malformed(&message, MalformedErrorKind::TooManySamples))
            }
            Ok(()) => Ok(Some(point.timestamp_ms)),
            Err(LabelsRejected::Refused(reason)) => Ok(self.refuse(metric, fixed, reason)),
            Err(LabelsRejected::TooMuch) => Err(malformed(&message, MalformedErrorKind::LabelsTooLarge)),
        }
    }

    /// Adds the series of a data point that has begun. All of them are refused with the first: it
    /// has the most labels, and the longest.
    fn add(&mut self, name: &str, point: &Point, number: u32, metric: &Metric) -> Result<(), LabelsRejected> {
        let is_delta = metric.is_delta;
        let span = if is_delta { LabelSpan::of_deltas } else { LabelSpan::of_definition };
        let mut exemplars = point.exemplars.iter().peekable();
        for (at, PointSample { suffix, label, value }) in point.samples.iter().enumerate() {
            let metric = [name.as_bytes(), suffix.as_bytes()];
            let (id, definition) = match label {
                None => self.sets.make(&[("__name__", &metric)], self.hasher)?,
                Some((label, value)) => {
                    let own: [OwnLabel<'_>; 2] = [("__name__", &metric), (label, &[value.as_bytes()])];
                    self.sets.make(&own, self.hasher)?
                }
            };
            self.sink.series(id, span(definition, number), 1);
            self.sink.sample(Sample::new(point.timestamp_ms, *value));
            // A delta's is when it began, and not when the sum did that it is added to.
            if point.start_ms != 0 && !is_delta {
                self.sink.start_timestamp(point.start_ms);
            }
            self.samples += 1;
            while let Some(exemplar) = exemplars.next_if(|exemplar| exemplar.sample == at) {
                self.exemplar(id, exemplar, point.timestamp_ms);
            }
        }
        Ok(())
    }

    /// Adds a data point's native histogram, where it has one, with its exemplars.
    fn add_histogram(&mut self, name: &str, point: &Point, number: u32) -> Result<(), LabelsRejected> {
        let Some(histogram) = &point.histogram else { return Ok(()) };
        let (id, definition) = self.sets.make(&[("__name__", &[name.as_bytes()])], self.hasher)?;
        let messages = &mut self.translation.beside;
        let start = messages.len();
        let times = HistogramTimes { timestamp_ms: point.timestamp_ms, start_timestamp_ms: point.start_ms };
        histogram.put_message(times, messages);
        let message = MessageSpan::of_scratch(start, messages.len() - start);
        let labels = LabelSpan::of_definition(definition, number);
        self.sink.histogram(PartHistogram { id, labels, message });
        self.samples += 1;
        for exemplar in &point.exemplars {
            self.exemplar(id, exemplar, point.timestamp_ms);
        }
        Ok(())
    }

    /// Prometheus' receiver keeps none of a gauge.
    fn exemplar(&mut self, series: SeriesId, exemplar: &PointExemplar, point_ms: i64) {
        self.exemplars += 1;
        match self.made_exemplar(series, exemplar, point_ms) {
            Ok(exemplar) => self.sink.exemplar(exemplar),
            Err(reason) => self.translation.exemplars_refused.add(reason, 1),
        }
    }

    fn made_exemplar(
        &mut self,
        series: SeriesId,
        exemplar: &PointExemplar,
        point_ms: i64,
    ) -> Result<PartExemplar, ExemplarRejected> {
        if self.exemplars > REQUEST_EXEMPLARS_MAX {
            return Err(ExemplarRejected::TooMany);
        }
        let value = exemplar.value.ok_or(ExemplarRejected::Malformed)?;
        let mut labels = ExemplarLabels::default();
        for (name, value) in &exemplar.labels {
            labels.push(name.as_bytes(), value.as_bytes())?;
        }
        let beside = &mut self.translation.beside;
        let begin = beside.len();
        labels.put_canonical(beside)?;
        let (labels_begin, labels_len) = (begin as u32, (beside.len() - begin) as u32);
        let timestamp_ms = if exemplar.timestamp_ms == 0 { point_ms } else { exemplar.timestamp_ms };
        Ok(PartExemplar { series, timestamp_ms, value, labels_begin, labels_len })
    }

    /// Passes on what is said of a metric, unless it was recently.
    fn describe(&mut self, name: &str, kind: MetricType, help: &str, unit: &str) {
        let texts = [name, help, unit].map(|text| self.hasher.fingerprint(text.as_bytes()));
        let fingerprint = fingerprint(self.hasher, kind, texts);
        let mut known = self.known.borrow_mut();
        if known.knows(fingerprint) {
            return;
        }
        let unit = unit_name(unit);
        let said = Metadata::new(name.as_bytes(), kind, help.as_bytes(), unit.as_bytes());
        match said {
            Ok(said) if self.metadata_bytes < REQUEST_METADATA_BYTES_MAX => {
                self.metadata_bytes += said.name.len() + said.help.len() + said.unit.len();
                let part = PartMetadata::put(&said, &mut self.translation.beside);
                self.sink.metadata(&said, part);
                known.note(fingerprint);
            }
            Ok(_beyond) => self.translation.metadata_refused.add(MetadataRejected::TooMany, 1),
            Err(reason) => self.translation.metadata_refused.add(reason, 1),
        }
    }

    fn add_info(&mut self, target: &OtlpTarget, timestamp_ms: i64) -> Result<(), MalformedError> {
        let info = Point {
            attributes: Vec::new(),
            timestamp_ms,
            start_ms: 0,
            samples: vec![PointSample { suffix: "", label: None, value: 1.0 }],
            histogram: None,
            exemplars: Vec::new(),
        };
        let metric = Metric {
            otlp_name: "",
            name: Ok("target_info".to_owned()),
            kind: DataKind::Gauge,
            histograms: self.modes.histograms,
            is_delta: false,
        };
        let added = match labels::begin(&mut self.sets, &target.described_by, &target.labels()) {
            Ok(()) => self.add("target_info", &info, NO_POINT, &metric),
            Err(reason) => Err(reason.into()),
        };
        match added {
            Ok(()) => {}
            // Its metrics are stored all the same: it is they that the sender asked for.
            Err(LabelsRejected::Refused(reason)) => {
                tracing::debug!(reason = reason.as_str(), "no target_info")
            }
            Err(LabelsRejected::TooMuch) => {
                return Err(MalformedError { offset: 0, cause: MalformedErrorKind::LabelsTooLarge });
            }
        }
        Ok(())
    }

    fn refuse(&mut self, metric: &Metric, fixed: &[(&str, &str)], reason: RefusedReason) -> Option<i64> {
        let job = fixed.iter().find(|(name, _)| *name == "job").map_or("", |(_, job)| job);
        let words = || (format!("metric {:?}:", metric.otlp_name), reason.bound());
        self.translation.refused.refuse(reason, 1, job, words);
        None
    }
}

/// A message's bytes, for prost to make objects of.
fn small_enough<'a>(message: &WireReader<'a>) -> Result<&'a [u8], MalformedError> {
    let bytes = &message.bytes()[message.at()..];
    if bytes.len() > OTLP_POINT_BYTES_MAX {
        return Err(malformed(message, MalformedErrorKind::LabelsTooLarge));
    }
    Ok(bytes)
}

/// How a metric's data points become samples.
#[derive(Clone, Copy)]
struct Shape {
    named: NamedKind,
    kind: MetricType,
    is_delta: bool,
}

/// The shape of a kind's data; or why it isn't stored.
fn shape_of(
    kind: DataKind,
    temporality: i32,
    is_monotonic: bool,
    modes: Modes,
) -> Result<Shape, RefusedReason> {
    let is_delta = match (AggregationTemporality::try_from(temporality), modes.delta) {
        (Ok(AggregationTemporality::Cumulative), _) => Ok(false),
        (Ok(AggregationTemporality::Delta), OtlpDelta::Cumulative) => Ok(true),
        (Ok(AggregationTemporality::Delta), OtlpDelta::Refuse) => Err(RefusedReason::DeltaTemporality),
        (Ok(AggregationTemporality::Unspecified) | Err(_), _) => Err(RefusedReason::NoTemporality),
    };
    let becomes_native = match kind {
        DataKind::ExponentialHistogram => true,
        DataKind::Histogram => modes.histograms == OtlpHistograms::Custom,
        DataKind::Gauge | DataKind::Sum | DataKind::Summary => false,
    };
    // What came since the last report can't be added to what there is: the buckets may be others.
    if becomes_native && is_delta? {
        return Err(RefusedReason::DeltaTemporality);
    }
    let (named, kind, is_delta) = match kind {
        DataKind::Gauge => (NamedKind::Gauge, MetricType::Gauge, false),
        DataKind::Sum if is_monotonic => (NamedKind::Counter, MetricType::Counter, is_delta?),
        DataKind::Sum => (NamedKind::Other, MetricType::Gauge, is_delta?),
        DataKind::Histogram | DataKind::ExponentialHistogram => {
            (NamedKind::Other, MetricType::Histogram, is_delta?)
        }
        DataKind::Summary => (NamedKind::Other, MetricType::Summary, false),
    };
    Ok(Shape { named, kind, is_delta })
}

fn text<'a>(message: &mut WireReader<'a>) -> Result<&'a str, MalformedError> {
    let span = message.span()?;
    let broken = |_| MalformedError { offset: span.start, cause: MalformedErrorKind::BrokenMessage };
    std::str::from_utf8(&message.bytes()[span.clone()]).map_err(broken)
}

fn excerpt(name: &str) -> &str {
    &name[..name.floor_char_boundary(EXCERPT_BYTES)]
}

/// A data point that is to be stored; or why it isn't.
fn read_point(metric: &Metric, message: WireReader) -> Result<Result<Point, RefusedReason>, MalformedError> {
    if let Err(reason) = metric.name {
        return Ok(Err(reason));
    }
    let bytes = small_enough(&message)?;
    let read = match metric.kind {
        DataKind::Gauge => {
            read_number(bytes).map(|read| read.map(|point| Point { exemplars: Vec::new(), ..point }))
        }
        DataKind::Sum => read_number(bytes),
        DataKind::Histogram => match metric.histograms {
            OtlpHistograms::Classic => read_histogram(bytes),
            OtlpHistograms::Custom => read_custom(bytes),
        },
        DataKind::Summary => read_summary(bytes),
        DataKind::ExponentialHistogram => read_exponential(bytes),
    };
    read.map_err(|_| malformed(&message, MalformedErrorKind::BrokenMessage))
}

#[cfg(test)]
mod tests;
