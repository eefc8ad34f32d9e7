//! A few series in one message: its columns, and its refusals mapped back to them.

use silverback_proto::v1;

use crate::client::Written;
use crate::error::RequestError;
use crate::histogram;
use crate::labels;
use crate::refusal::{RefusalReason, SeriesRejected};
use crate::series::Series;

/// The message: the n-th series has the ref n.
pub(crate) fn request(series: &[Series]) -> v1::WriteRequest {
    let mut batch = v1::Batch::default();
    let (mut last_ref, mut last_timestamp_ms, mut last_histogram_ref) = (0_u32, 0_i64, 0_u32);
    for (series_ref, series) in (0_u32..).zip(series) {
        for &(timestamp_ms, value) in &series.samples {
            batch.ref_deltas.push(series_ref.wrapping_sub(last_ref) as i32);
            batch.timestamp_deltas_ms.push(timestamp_ms.wrapping_sub(last_timestamp_ms));
            batch.values.push(value);
            (last_ref, last_timestamp_ms) = (series_ref, timestamp_ms);
        }
        for (timestamp_ms, histogram) in &series.histograms {
            batch.histogram_ref_deltas.push(series_ref.wrapping_sub(last_histogram_ref) as i32);
            batch.histograms.push(histogram::message(*timestamp_ms, histogram).into());
            last_histogram_ref = series_ref;
        }
    }
    v1::WriteRequest { series: (0..).zip(series).map(definition).collect(), batch: Some(batch) }
}

fn definition((series_ref, series): (u32, &Series)) -> v1::SeriesDefinition {
    v1::SeriesDefinition { labels: labels::to_messages(&series.labels), r#ref: series_ref }
}

/// Of a node that passes over what it doesn't know.
const NO_HISTOGRAMS: &str = "it says nothing of native histograms, because it is older than this client: write them by remote_write::RemoteWriter";

/// What the node says became of it.
pub(crate) fn written(series: &[Series], answer: v1::WriteResponse) -> Result<Written, RequestError> {
    let sent = series.iter().map(|series| series.samples.len() + series.histograms.len()).sum::<usize>();
    let has_histograms = series.iter().any(|series| !series.histograms.is_empty());
    let refused = answer.refusals.iter().map(|refusal| refusal.samples);
    let told = refused.fold(answer.samples_written, u64::saturating_add);
    if has_histograms && told < sent as u64 {
        return Err(RequestError::Unsupported(NO_HISTOGRAMS.to_owned()));
    }
    let refusal = |refusal: v1::Refusal| {
        let reason = RefusalReason::from_message(refusal.reason());
        let series = series.get(refusal.r#ref as usize);
        // A ref that was never defined is the node's mistake; the refusal is reported all the same.
        let labels = series.map(Series::labels).unwrap_or_default();
        SeriesRejected { labels, reason, samples: refusal.samples }
    };
    Ok(Written {
        samples_written: answer.samples_written,
        refusals: answer.refusals.into_iter().map(refusal).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_columns_of_differences() {
        let series = [
            Series::new("a", [("x", "1")]).sample(1000, 1.0).sample(2000, 2.0),
            Series::new("b", [("x", "1")]).sample(1500, 3.0),
        ];
        let request = request(&series);
        let batch = request.batch.unwrap();
        assert_eq!(batch.ref_deltas, [0, 0, 1]);
        assert_eq!(batch.timestamp_deltas_ms, [1000, 1000, -500]);
        assert_eq!(batch.values, [1.0, 2.0, 3.0]);
        assert_eq!(request.series.iter().map(|series| series.r#ref).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(request.series[1].labels[0].value, "b");
    }

    #[test]
    fn refusals_are_told_with_labels() {
        let series = [Series::new("a", [("x", "1")]).sample(1, 1.0)];
        let reason = v1::RefusalReason::Duplicate.into();
        let refusal = v1::Refusal { batch_number: 0, r#ref: 0, reason, samples: 1 };
        let answer = v1::WriteResponse { samples_written: 0, refusals: vec![refusal] };
        let written = written(&series, answer).unwrap();
        let labels = vec![("__name__".to_owned(), "a".to_owned()), ("x".to_owned(), "1".to_owned())];
        let expect = SeriesRejected { labels, reason: RefusalReason::Duplicate, samples: 1 };
        assert_eq!(written.refusals, [expect]);
    }

    #[test]
    fn histograms_have_columns_of_their_own_and_a_node_that_is_silent_of_them_is_too_old() {
        let histogram = histogram::Histogram { count: 3, zero_count: 3, ..Default::default() };
        let series = [
            Series::new("a", [("x", "1")]).sample(1000, 1.0),
            Series::new("b", [("x", "1")])
                .histogram(1500, histogram.clone())
                .histogram(1600, histogram.clone()),
            Series::new("c", [("x", "1")]).sample(1000, 1.0).histogram(1700, histogram.clone()),
        ];
        let batch = request(&series).batch.unwrap();
        assert_eq!((&batch.ref_deltas[..], &batch.histogram_ref_deltas[..]), (&[0, 2][..], &[1, 0, 1][..]));
        let times = batch.histograms.iter().map(|message| {
            let mut read = histogram::Histogram::default();
            let times = read.read_message(message).unwrap();
            assert_eq!(read, histogram);
            times.timestamp_ms
        });
        assert_eq!(times.collect::<Vec<_>>(), [1500, 1600, 1700]);
        let answer = |samples_written| v1::WriteResponse { samples_written, refusals: vec![] };
        assert_eq!(written(&series, answer(5)).unwrap().samples_written, 5);
        let silent = written(&series, answer(2)).unwrap_err();
        assert!(matches!(silent, RequestError::Unsupported(_)), "{silent}");
    }
}
