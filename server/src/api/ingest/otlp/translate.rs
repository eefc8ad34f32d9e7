//! From an OTLP request's bytes to series and samples, as Prometheus' receiver makes them.
//!
//! The outer messages are walked in place; prost reads one data point at a time. So what a request
//! takes in memory is known as it grows, and it can be put down between any two data points.

use std::time::Instant;

use prost::Message;
use silverback_proto::otlp::common::v1::KeyValue;
use silverback_proto::otlp::metrics::v1::AggregationTemporality;
use silverback_proto::otlp::resource::v1::Resource;

use super::labels;
use super::naming::{NamedKind, metric_name};
use super::samples::{Point, PointSample, read_histogram, read_number, read_summary};
use super::target::Target;
use crate::api::ingest::label_sets::{LabelSets, NotMade, OwnLabel};
use crate::api::ingest::remote_write::wire::{Reader, Tag, WireType};
use crate::api::ingest::remote_write::{MalformedBody, MalformedCause, Rejection, SeriesSink};
use crate::config::OtlpDelta;
use silverback_model::limits::{LABEL_VALUE_BYTES_MAX, OTLP_POINT_BYTES_MAX, REQUEST_SAMPLES_MAX};
use silverback_model::{RefusedReason, Sample, SeriesIdHasher};
use silverback_runtime::now;
use silverback_runtime::slices::SLICE;
use silverback_storage::message::{DefinitionBlock, LabelSpan, Refusals};

const RESOURCE_METRICS: Tag = Tag::new(1, WireType::Len);
const RESOURCE: Tag = Tag::new(1, WireType::Len);
const SCOPE_METRICS: Tag = Tag::new(2, WireType::Len);
const METRICS: Tag = Tag::new(2, WireType::Len);
const NAME: Tag = Tag::new(1, WireType::Len);
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

/// The ref of `target_info`, which is no data point.
pub const NO_POINT: u32 = LabelSpan::REF_MAX;

/// A request that is translated.
#[derive(Debug, Default)]
pub struct Translation {
    /// The label sets of its series.
    pub labels: DefinitionBlock,
    /// Data points in it.
    pub points: u64,
    /// Those that were refused.
    pub refused: Refusals,
    /// Exemplars, which were skipped.
    pub exemplars: u64,
}

/// Translates a request. Each series goes to `sink` with the number of its label set and that of its
/// data point. `pause` is called between slices with the sink and the bytes of the label sets so far.
pub async fn translate<S: SeriesSink>(
    bytes: &[u8],
    delta: OtlpDelta,
    hasher: &SeriesIdHasher,
    sink: &mut S,
    pause: impl AsyncFnMut(&S, usize) -> Result<(), Rejection>,
) -> Result<Translation, Rejection> {
    let (translation, sets) = (Translation::default(), LabelSets::default());
    let pacer = Pacer { pause, began: now(), steps_left: SLICE_STEPS, fields_left: STEP_FIELDS };
    let mut translator = Translator { delta, hasher, sink, pacer, sets, translation, samples: 0 };
    let mut request = Reader::new(bytes, 0);
    while let Some(resource) = translator.next(&mut request, RESOURCE_METRICS).await? {
        translator.resource(resource).await?;
    }
    (translator.pacer.pause)(translator.sink, translator.sets.made.bytes()).await?;
    let Translator { sets, translation, .. } = translator;
    Ok(Translation { labels: sets.made, ..translation })
}

fn malformed(message: &Reader, cause: MalformedCause) -> MalformedBody {
    MalformedBody { offset: message.at(), cause }
}

/// Which of a metric's data it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Sum,
    Histogram,
    ExponentialHistogram,
    Summary,
}

impl Kind {
    fn of(tag: Tag) -> Option<Self> {
        const KINDS: [(u32, Kind); 5] = [
            (5, Kind::Gauge),
            (7, Kind::Sum),
            (9, Kind::Histogram),
            (10, Kind::ExponentialHistogram),
            (11, Kind::Summary),
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
    kind: Kind,
    /// Its data points tell what came since the last ones.
    is_delta: bool,
}

struct Translator<'a, S, P> {
    delta: OtlpDelta,
    hasher: &'a SeriesIdHasher,
    sink: &'a mut S,
    pacer: Pacer<P>,
    sets: LabelSets,
    translation: Translation,
    samples: u64,
}

/// Tells when others get their turn. What is empty takes time, too: everything that is read is a step.
struct Pacer<P> {
    pause: P,
    began: Instant,
    steps_left: usize,
    fields_left: usize,
}

impl<S: SeriesSink, P: AsyncFnMut(&S, usize) -> Result<(), Rejection>> Translator<'_, S, P> {
    async fn step(&mut self, steps: usize) -> Result<(), Rejection> {
        let pacer = &mut self.pacer;
        pacer.steps_left = pacer.steps_left.saturating_sub(steps);
        if pacer.steps_left == 0 || pacer.began.elapsed() >= SLICE {
            pacer.steps_left = SLICE_STEPS;
            (pacer.pause)(self.sink, self.sets.made.bytes()).await?;
            pacer.began = now();
        }
        Ok(())
    }

    /// A field is passed over, or looked at for the first time of two.
    async fn pass_over(&mut self) -> Result<(), Rejection> {
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
        message: &mut Reader<'m>,
        wanted: Tag,
    ) -> Result<Option<Reader<'m>>, Rejection> {
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

    async fn resource(&mut self, message: Reader<'_>) -> Result<(), Rejection> {
        self.step(1).await?;
        let target = Target::of(self.resource_attributes(message).await?);
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
    async fn metric(&mut self, message: Reader<'_>, target: &Target) -> Result<Option<i64>, Rejection> {
        let Some(metric) = self.read_metric(message).await? else { return Ok(None) };
        let fixed = target.labels();
        let mut newest_ms = None;
        let mut fields = message;
        while !fields.is_empty() {
            let tag = fields.tag()?;
            self.pass_over().await?;
            if Kind::of(tag) != Some(metric.kind) {
                fields.skip(tag)?;
                continue;
            }
            let mut data = fields.message()?;
            while let Some(point) = self.next(&mut data, DATA_POINTS).await? {
                let samples_before = self.samples;
                newest_ms = newest_ms.max(self.point(&metric, point, &fixed)?);
                self.step(1 + (self.samples - samples_before) as usize).await?;
            }
        }
        Ok(newest_ms)
    }

    /// A metric's name, unit and kind; none of one without data.
    async fn read_metric<'m>(&mut self, mut message: Reader<'m>) -> Result<Option<Metric<'m>>, Rejection> {
        let (mut name, mut unit, mut data) = ("", "", None);
        while !message.is_empty() {
            match message.tag()? {
                NAME => name = text(&mut message)?,
                UNIT => unit = text(&mut message)?,
                tag => match Kind::of(tag) {
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
        Ok(Some(Metric { otlp_name: excerpt(name), name: made, kind, is_delta }))
    }

    async fn read_shape(
        &mut self,
        kind: Kind,
        mut data: Reader<'_>,
    ) -> Result<Result<Shape, RefusedReason>, Rejection> {
        let (mut temporality, mut is_monotonic) = (0, false);
        while !data.is_empty() {
            match data.tag()? {
                TEMPORALITY => temporality = data.varint()? as i32,
                IS_MONOTONIC => is_monotonic = data.varint()? != 0,
                other => data.skip(other)?,
            }
            self.pass_over().await?;
        }
        Ok(shape_of(kind, temporality, is_monotonic, self.delta))
    }

    /// All attributes, of several resource messages too: they are parts of one.
    async fn resource_attributes(&mut self, mut message: Reader<'_>) -> Result<Vec<KeyValue>, Rejection> {
        let (mut attributes, mut bytes_in_all) = (Vec::new(), 0);
        while let Some(resource) = self.next(&mut message, RESOURCE).await? {
            self.step(1).await?;
            let bytes = small_enough(&resource)?;
            bytes_in_all += bytes.len();
            if bytes_in_all > OTLP_POINT_BYTES_MAX {
                return Err(malformed(&resource, MalformedCause::LabelsTooLarge).into());
            }
            let read =
                Resource::decode(bytes).map_err(|_| malformed(&resource, MalformedCause::BrokenMessage))?;
            attributes.extend(read.attributes);
        }
        Ok(attributes)
    }

    /// Its time, if it is stored.
    fn point(
        &mut self,
        metric: &Metric,
        message: Reader,
        fixed: &[(&str, &str)],
    ) -> Result<Option<i64>, MalformedBody> {
        let number = self.translation.points as u32;
        self.translation.points += 1;
        let point = match read_point(metric, message)? {
            Ok(point) => point,
            Err(reason) => return Ok(self.refuse(metric, fixed, reason)),
        };
        self.translation.exemplars += point.exemplars as u64;
        let Ok(name) = &metric.name else { return Ok(None) };
        let added = match labels::begin(&mut self.sets, &point.attributes, fixed) {
            Ok(()) => self.add(name, &point.samples, point.timestamp_ms, number, metric.is_delta),
            Err(reason) => Err(reason.into()),
        };
        match added {
            Ok(()) if self.samples > REQUEST_SAMPLES_MAX => {
                Err(malformed(&message, MalformedCause::TooManySamples))
            }
            Ok(()) => Ok(Some(point.timestamp_ms)),
            Err(NotMade::Refused(reason)) => Ok(self.refuse(metric, fixed, reason)),
            Err(NotMade::TooMuch) => Err(malformed(&message, MalformedCause::LabelsTooLarge)),
        }
    }

    /// Adds the series of a data point that has begun. All of them are refused with the first: it
    /// has the most labels, and the longest.
    fn add(
        &mut self,
        name: &str,
        samples: &[PointSample],
        timestamp_ms: i64,
        number: u32,
        is_delta: bool,
    ) -> Result<(), NotMade> {
        let span = if is_delta { LabelSpan::of_deltas } else { LabelSpan::of_definition };
        for PointSample { suffix, label, value } in samples {
            let metric = [name.as_bytes(), suffix.as_bytes()];
            let (id, definition) = match label {
                None => self.sets.make(&[("__name__", &metric)], self.hasher)?,
                Some((label, value)) => {
                    let own: [OwnLabel<'_>; 2] = [("__name__", &metric), (label, &[value.as_bytes()])];
                    self.sets.make(&own, self.hasher)?
                }
            };
            self.sink.series(id, span(definition, number), 1);
            self.sink.sample(Sample::new(timestamp_ms, *value));
            self.samples += 1;
        }
        Ok(())
    }

    fn add_info(&mut self, target: &Target, timestamp_ms: i64) -> Result<(), MalformedBody> {
        let info = [PointSample { suffix: "", label: None, value: 1.0 }];
        let added = match labels::begin(&mut self.sets, &target.described_by, &target.labels()) {
            Ok(()) => self.add("target_info", &info, timestamp_ms, NO_POINT, false),
            Err(reason) => Err(reason.into()),
        };
        match added {
            Ok(()) => {}
            // Its metrics are stored all the same: it is they that the sender asked for.
            Err(NotMade::Refused(reason)) => tracing::debug!(reason = reason.as_str(), "no target_info"),
            Err(NotMade::TooMuch) => {
                return Err(MalformedBody { offset: 0, cause: MalformedCause::LabelsTooLarge });
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
fn small_enough<'a>(message: &Reader<'a>) -> Result<&'a [u8], MalformedBody> {
    let bytes = &message.bytes()[message.at()..];
    if bytes.len() > OTLP_POINT_BYTES_MAX {
        return Err(malformed(message, MalformedCause::LabelsTooLarge));
    }
    Ok(bytes)
}

/// How a metric's data points become samples.
#[derive(Clone, Copy)]
struct Shape {
    named: NamedKind,
    is_delta: bool,
}

/// The shape of a kind's data; or why it isn't stored.
fn shape_of(
    kind: Kind,
    temporality: i32,
    is_monotonic: bool,
    delta: OtlpDelta,
) -> Result<Shape, RefusedReason> {
    let is_delta = match (AggregationTemporality::try_from(temporality), delta) {
        (Ok(AggregationTemporality::Cumulative), _) => Ok(false),
        (Ok(AggregationTemporality::Delta), OtlpDelta::Cumulative) => Ok(true),
        (Ok(AggregationTemporality::Delta), OtlpDelta::Refuse) => Err(RefusedReason::DeltaTemporality),
        (Ok(AggregationTemporality::Unspecified) | Err(_), _) => Err(RefusedReason::NoTemporality),
    };
    let (named, is_delta) = match kind {
        Kind::Gauge => (NamedKind::Gauge, false),
        Kind::Sum if is_monotonic => (NamedKind::Counter, is_delta?),
        Kind::Sum | Kind::Histogram => (NamedKind::Other, is_delta?),
        Kind::Summary => (NamedKind::Other, false),
        Kind::ExponentialHistogram => return Err(RefusedReason::NativeHistogram),
    };
    Ok(Shape { named, is_delta })
}

fn text<'a>(message: &mut Reader<'a>) -> Result<&'a str, MalformedBody> {
    let span = message.span()?;
    let broken = |_| MalformedBody { offset: span.start, cause: MalformedCause::BrokenMessage };
    std::str::from_utf8(&message.bytes()[span.clone()]).map_err(broken)
}

fn excerpt(name: &str) -> &str {
    &name[..name.floor_char_boundary(EXCERPT_BYTES)]
}

/// A data point that is to be stored; or why it isn't.
fn read_point(metric: &Metric, message: Reader) -> Result<Result<Point, RefusedReason>, MalformedBody> {
    if let Err(reason) = metric.name {
        return Ok(Err(reason));
    }
    let bytes = small_enough(&message)?;
    let read = match metric.kind {
        Kind::Gauge | Kind::Sum => read_number(bytes),
        Kind::Histogram => read_histogram(bytes),
        Kind::Summary => read_summary(bytes),
        Kind::ExponentialHistogram => return Ok(Err(RefusedReason::NativeHistogram)),
    };
    read.map_err(|_| malformed(&message, MalformedCause::BrokenMessage))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceRequest;
    use silverback_proto::otlp::metrics::v1::number_data_point::Value;
    use silverback_proto::otlp::metrics::v1::{
        Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
    };

    use super::*;
    use silverback_model::SeriesId;

    /// Counts what it gets.
    #[derive(Default)]
    struct Counts {
        series: usize,
        samples: usize,
        refs: Vec<Option<u32>>,
        deltas: Vec<bool>,
    }

    impl SeriesSink for Counts {
        fn series(&mut self, _id: SeriesId, labels: LabelSpan, _samples: u32) {
            self.series += 1;
            self.refs.push(labels.stream_ref());
            self.deltas.push(labels.is_deltas());
        }

        fn sample(&mut self, _sample: Sample) {
            self.samples += 1;
        }
    }

    fn run(bytes: &[u8]) -> (Result<Translation, Rejection>, Counts, usize) {
        run_with(OtlpDelta::Cumulative, bytes)
    }

    fn run_with(delta: OtlpDelta, bytes: &[u8]) -> (Result<Translation, Rejection>, Counts, usize) {
        let (mut sink, mut pauses) = (Counts::default(), 0);
        let pause = async |_: &Counts, _| {
            pauses += 1;
            Ok(())
        };
        let translation = block_on(translate(bytes, delta, &SeriesIdHasher::new(1, ""), &mut sink, pause));
        (translation, sink, pauses)
    }

    fn points(count: i64) -> Vec<NumberDataPoint> {
        let point =
            |i| NumberDataPoint { value: Some(Value::AsInt(i)), time_unix_nano: 1, ..Default::default() };
        (0..count).map(point).collect()
    }

    fn request(data: Vec<metric::Data>) -> Vec<u8> {
        let metric = |data| Metric { name: "m".into(), data: Some(data), ..Metric::default() };
        let scope = ScopeMetrics { metrics: data.into_iter().map(metric).collect(), ..Default::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec()
    }

    #[test]
    fn data_points_are_numbered_and_refused_ones_too() {
        let delta = Sum { data_points: points(2), aggregation_temporality: 1, is_monotonic: true };
        let gauge = || metric::Data::Gauge(Gauge { data_points: points(2) });
        let body = request(vec![gauge(), metric::Data::Sum(delta), gauge()]);
        let (_, sink, _) = run(&body);
        assert_eq!(sink.deltas, [false, false, true, true, false, false]);
        let (translation, sink, _) = run_with(OtlpDelta::Refuse, &body);
        let translation = translation.unwrap();
        assert_eq!((translation.points, translation.refused.counts.total()), (6, 2));
        assert_eq!(sink.refs, [0, 1, 4, 5].map(Some));
        assert_eq!((sink.series, sink.samples, translation.labels.len()), (4, 4, 4));
    }

    #[test]
    fn a_long_request_is_put_down_now_and_then() {
        let (translation, _, pauses) =
            run(&request(vec![metric::Data::Gauge(Gauge { data_points: points(5000) })]));
        assert_eq!(translation.unwrap().points, 5000);
        assert!(pauses > 5000 * 2 / SLICE_STEPS - 2, "{pauses}");
    }

    #[test]
    fn what_is_empty_is_put_down_as_often() {
        const COUNT: usize = 20_000;
        let resource = ResourceMetrics { scope_metrics: Vec::new(), ..Default::default() };
        let resources = ExportMetricsServiceRequest { resource_metrics: vec![resource; COUNT] };
        let empty = metric::Data::Gauge(Gauge::default());
        // Fields that nobody knows, and data without data points, in one metric.
        let mut metric = Metric { name: "m".into(), data: Some(empty), ..Metric::default() }.encode_to_vec();
        (0..COUNT).for_each(|_| metric.extend([0x7a, 0]));
        (0..COUNT).for_each(|_| metric.extend([0x2a, 0]));
        let framed = |message: &[u8]| {
            let mut field = vec![0x12];
            prost::encode_length_delimiter(message.len(), &mut field).unwrap();
            [&field, message].concat()
        };
        let mut request = framed(&framed(&framed(&metric)));
        request[0] = 0x0a;
        for (bytes, steps) in [(resources.encode_to_vec(), COUNT), (request, 3 * COUNT / STEP_FIELDS)] {
            let (translation, sink, pauses) = run(&bytes);
            assert_eq!((translation.unwrap().points, sink.series), (0, 0));
            assert!(pauses >= steps / SLICE_STEPS, "{pauses} of {steps} steps");
        }
    }

    #[test]
    fn a_name_that_is_far_too_long_is_refused_unmade_and_shown_in_part() {
        let name = "é".repeat(NAME_BYTES_MAX);
        let data = Some(metric::Data::Gauge(Gauge { data_points: points(1) }));
        let scope =
            ScopeMetrics { metrics: vec![Metric { name, data, ..Metric::default() }], ..Default::default() };
        let resource = ResourceMetrics { scope_metrics: vec![scope], ..Default::default() };
        let (translation, ..) =
            run(&ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec());
        let refused = translation.unwrap().refused;
        assert_eq!(refused.counts.get(RefusedReason::LabelTooLong), 1);
        let shown = &refused.examples.first().unwrap().words;
        assert!(shown.len() < 2 * EXCERPT_BYTES + 128, "{shown}");
    }

    #[test]
    fn every_cut_of_a_request_is_malformed_or_a_request() {
        let whole = request(vec![metric::Data::Gauge(Gauge { data_points: points(3) })]);
        for end in 0..whole.len() {
            let (translation, _, _) = run(&whole[..end]);
            match translation {
                Ok(translation) => assert_eq!((end, translation.points), (0, 0)),
                Err(Rejection::Malformed(malformed)) => assert!(malformed.offset <= end),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
