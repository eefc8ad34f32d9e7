//! What an expression gives as `QueryResponse`s and `QueryRangeResponse`s, which are the same on the wire: warnings, series
//! with their samples, and at last what it took.
//!
//! A series is in one message, because its reader doesn't put parts together again. One whose message is large has room
//! for it taken before the first is sent.

use std::rc::Rc;

use bytes::Bytes;
use prost::Message;
use silverback_proto::prometheus as proto;
use silverback_proto::thanos::query_response::Result as Told;
use silverback_proto::thanos::{QueryResponse, QueryStats};

use super::frames::{EVALUATED, Frames, int_len, put_int};
use crate::api::grpc::stream::{Answers, MessageSender, streamed};
use crate::api::protobuf::{Wire, put_len_head, tag};
use crate::api::query::Reader;
use crate::api::query::http_api::promql::Evaluated;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::stream::StreamError;
use silverback_model::limits::{EVALUATED_SERIES_BYTES_MAX, STREAM_BUFFER_BYTES};
use silverback_model::{Labels, encode_label};
use silverback_promql::histogram::FloatHistogram;
use silverback_promql::{Answer, SampleValue, Value};
use silverback_runtime::Slice;

/// `TimeSeries.samples`
const SAMPLES: u8 = 2;
/// `TimeSeries.histograms`
const HISTOGRAMS: u8 = 4;
/// Samples that are written between two looks at the slice.
const STEP: usize = 512;
/// Of a series' message there are at most so many copies: as it is written, framed, waiting, and on its way.
const COPIES: usize = 4;
/// What a read's buffers have room for without asking.
const SMALL_BYTES: usize = 3 * STREAM_BUFFER_BYTES;

/// What one series' samples are.
enum Column<'a> {
    One(i64, f64),
    OneHistogram(i64, &'a FloatHistogram),
    Many(&'a [(i64, f64)], &'a [(i64, Rc<FloatHistogram>)]),
}

/// Streams what a query gave, so many series in a message.
pub(super) async fn stream(
    reader: &Rc<Reader>,
    evaluated: Evaluated,
    batch_series: usize,
) -> Result<Answers<Bytes>, ReadRejected> {
    let Evaluated { read, answer, asked: _, stats, room } = evaluated;
    if let Value::Text { .. } = answer.value {
        return Err(ReadRejected::BadRequest("a text has no form in this answer".to_owned()));
    }
    let mut of_largest = room.part();
    let largest_bytes = largest(reader, &answer.value).await;
    if largest_bytes > EVALUATED_SERIES_BYTES_MAX {
        return Err(ReadRejected::AnswerTooLarge { bytes_max: EVALUATED_SERIES_BYTES_MAX });
    }
    if largest_bytes > SMALL_BYTES {
        of_largest.grow(COPIES * largest_bytes)?;
    }
    let core_of_read = Rc::clone(reader);
    let stats =
        QueryStats { samples_total: answer.samples.total as i64, peak_samples: stats.samples_peak as i64 };
    Ok(streamed(reader, read, async move |outgoing| {
        let sent = send(&core_of_read, &answer, stats, batch_series, outgoing).await;
        // Until then the answer is there.
        drop((answer, of_largest, room));
        sent
    }))
}

async fn send(
    reader: &Reader,
    answer: &Answer,
    stats: QueryStats,
    batch_series: usize,
    outgoing: &mut MessageSender<Bytes>,
) -> Result<(), StreamError> {
    let mut frames = Frames::new(EVALUATED, batch_series);
    for note in answer.warnings.iter().chain(&answer.infos) {
        frames.put_message(&QueryResponse { result: Some(Told::Warnings(note.clone())) });
    }
    let (mut series, mut held) = (Vec::new(), None);
    for at in 0..count(&answer.value) {
        let mut slice = reader.slicer.go_on(held.take()).await;
        let (labels, column) = nth(&answer.value, at);
        series.clear();
        put_series(&mut series, labels, &column, &mut slice).await;
        frames.put_one(series.len(), |made| made.extend_from_slice(&series));
        if frames.is_full() {
            drop(slice);
            series.shrink_to(STREAM_BUFFER_BYTES);
            outgoing.send(frames.take()).await?;
        } else {
            held = Some(slice);
        }
    }
    drop(held);
    frames.put_message(&QueryResponse { result: Some(Told::Stats(stats)) });
    Ok(outgoing.send(frames.take()).await?)
}

fn count(value: &Value) -> usize {
    match value {
        Value::Scalar { .. } => 1,
        Value::Text { .. } => 0,
        Value::Vector(samples) => samples.len(),
        Value::Matrix(series) => series.len(),
    }
}

/// The series at a place below [`count`]. A number is one without labels.
fn nth(value: &Value, at: usize) -> (Option<&Labels>, Column<'_>) {
    match value {
        Value::Scalar { at_ms, value } => (None, Column::One(*at_ms, *value)),
        Value::Text { .. } => (None, Column::Many(&[], &[])),
        Value::Vector(samples) => {
            let sample = &samples[at];
            let column = match &sample.value {
                SampleValue::Float(value) => Column::One(sample.at_ms, *value),
                SampleValue::Histogram(histogram) => Column::OneHistogram(sample.at_ms, histogram),
            };
            (Some(&sample.labels), column)
        }
        Value::Matrix(series) => {
            let series = &series[at];
            (Some(&series.labels), Column::Many(&series.floats, &series.histograms))
        }
    }
}

/// What the message of the largest series takes at most.
async fn largest(reader: &Reader, value: &Value) -> usize {
    let (mut largest, mut slice) = (0, reader.slicer.begin().await);
    for at in 0..count(value) {
        let (labels, column) = nth(value, at);
        let mut bytes = labels.map_or(0, labels_bytes_max);
        match column {
            Column::One(..) => bytes += SAMPLE_BYTES_MAX,
            Column::OneHistogram(_, histogram) => bytes += histogram_bytes_max(histogram),
            Column::Many(floats, histograms) => {
                bytes += floats.len() * SAMPLE_BYTES_MAX;
                for step in histograms.chunks(STEP) {
                    bytes += step.iter().map(|(_, histogram)| histogram_bytes_max(histogram)).sum::<usize>();
                    slice.yield_if_needed().await;
                }
            }
        }
        largest = largest.max(bytes);
        if at % STEP == STEP - 1 {
            slice.yield_if_needed().await;
        }
    }
    largest
}

/// A float sample with its head.
const SAMPLE_BYTES_MAX: usize = 2 + 9 + 11;

fn labels_bytes_max(labels: &Labels) -> usize {
    labels.0.iter().map(|(name, value)| 16 + name.len() + value.len()).sum()
}

/// Each bucket may have a span of its own.
fn histogram_bytes_max(histogram: &FloatHistogram) -> usize {
    let buckets = histogram.positive.len() + histogram.negative.len();
    128 + buckets * (8 + 2 + 2 + 2 * 5) + histogram.custom_bounds.len() * 8
}

/// Appends a `TimeSeries`.
async fn put_series(out: &mut Vec<u8>, labels: Option<&Labels>, column: &Column<'_>, slice: &mut Slice) {
    // The canonical form is the message's own: `repeated Label labels = 1`.
    for (name, value) in labels.iter().flat_map(|labels| &labels.0) {
        encode_label(out, name.as_bytes(), value.as_bytes());
    }
    match column {
        Column::One(at_ms, value) => put_sample(out, *at_ms, *value),
        Column::OneHistogram(at_ms, histogram) => put_histogram(out, *at_ms, histogram),
        Column::Many(floats, histograms) => {
            for step in floats.chunks(STEP) {
                step.iter().for_each(|(at_ms, value)| put_sample(out, *at_ms, *value));
                slice.yield_if_needed().await;
            }
            for (at_ms, histogram) in *histograms {
                put_histogram(out, *at_ms, histogram);
                slice.yield_if_needed().await;
            }
        }
    }
}

/// The value is written whatever it is: prost and others take -0 for 0 and leave it out.
fn put_sample(out: &mut Vec<u8>, at_ms: i64, value: f64) {
    put_len_head(out, SAMPLES, 9 + int_len(at_ms as u64));
    out.push(tag(1, Wire::Fixed64));
    out.extend_from_slice(&value.to_le_bytes());
    put_int(out, 2, at_ms as u64);
}

fn put_histogram(out: &mut Vec<u8>, at_ms: i64, histogram: &FloatHistogram) {
    let message = proto_of(at_ms, histogram);
    put_len_head(out, HISTOGRAMS, message.encoded_len());
    out.extend_from_slice(&message.encode_to_vec());
}

/// Counts are floats here, as all histograms are that are computed with.
fn proto_of(at_ms: i64, histogram: &FloatHistogram) -> proto::Histogram {
    let (positive_spans, positive_counts) = spans_of(&histogram.positive);
    let (negative_spans, negative_counts) = spans_of(&histogram.negative);
    proto::Histogram {
        count: Some(proto::histogram::Count::CountFloat(histogram.count)),
        sum: histogram.sum,
        schema: histogram.schema,
        zero_threshold: histogram.zero_threshold,
        zero_count: Some(proto::histogram::ZeroCount::ZeroCountFloat(histogram.zero_count)),
        negative_spans,
        negative_counts,
        positive_spans,
        positive_counts,
        reset_hint: histogram.reset_hint as i32,
        timestamp: at_ms,
        custom_values: histogram.custom_bounds.clone(),
        ..proto::Histogram::default()
    }
}

/// Runs of buckets without a gap, each by its distance from the one before; and what is in the buckets.
fn spans_of(buckets: &[(i32, f64)]) -> (Vec<proto::BucketSpan>, Vec<f64>) {
    let (mut spans, mut next) = (Vec::<proto::BucketSpan>::new(), 0_i32);
    for (index, _) in buckets {
        match spans.last_mut() {
            Some(span) if *index == next => span.length += 1,
            Some(_) | None => spans.push(proto::BucketSpan { offset: index.wrapping_sub(next), length: 1 }),
        }
        next = index.wrapping_add(1);
    }
    (spans, buckets.iter().map(|(_, count)| *count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::histogram::ResetHint;

    #[test]
    fn a_sample_is_read_as_it_was_and_minus_zero_stays() {
        for (at_ms, value) in [(0, 0.0), (-1, -0.0), (i64::MAX, f64::NAN), (1_700_000_000_000, 1.5)] {
            let mut out = Vec::new();
            put_sample(&mut out, at_ms, value);
            assert!(out.len() <= SAMPLE_BYTES_MAX);
            let read = proto::TimeSeries::decode(&out[..]).unwrap().samples[0];
            assert_eq!((read.timestamp, read.value.to_bits()), (at_ms, value.to_bits()));
        }
    }

    fn check_spans(indexes: &[i32], expect: &[(i32, u32)]) {
        let buckets: Vec<_> = indexes.iter().map(|index| (*index, f64::from(*index))).collect();
        let (spans, counts) = spans_of(&buckets);
        let found: Vec<_> = spans.iter().map(|span| (span.offset, span.length)).collect();
        assert_eq!(found, expect);
        assert_eq!(counts.len(), indexes.len());
    }

    #[test]
    fn buckets_are_runs_with_gaps_between_them() {
        check_spans(&[], &[]);
        check_spans(&[-3, -2, 0, 1, 2, 9], &[(-3, 2), (1, 3), (6, 1)]);
        check_spans(&[0], &[(0, 1)]);
    }

    #[test]
    fn a_histogram_takes_no_more_than_is_taken_for_it() {
        let histogram = FloatHistogram {
            reset_hint: ResetHint::Gauge,
            schema: -53,
            count: 7.0,
            sum: f64::NAN,
            positive: (0..4096).map(|at| (at * 1000, 1.0)).collect(),
            custom_bounds: vec![1.0; 4096],
            ..FloatHistogram::default()
        };
        let mut out = Vec::new();
        put_histogram(&mut out, i64::MIN, &histogram);
        assert!(out.len() <= histogram_bytes_max(&histogram), "{}", out.len());
        let read = &proto::TimeSeries::decode(&out[..]).unwrap().histograms[0];
        assert_eq!((read.reset_hint(), read.timestamp), (proto::histogram::ResetHint::Gauge, i64::MIN));
        assert_eq!(read.positive_spans.len(), 4096);
    }
}
