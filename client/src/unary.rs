//! A few series in one message: its columns, and its refusals mapped back to them.

use silverback_proto::v1;

use crate::client::Written;
use crate::labels;
use crate::refusal::{RefusalReason, SeriesRefusal};
use crate::series::Series;

/// The message: the n-th series has the ref n.
pub(crate) fn request(series: &[Series]) -> v1::WriteRequest {
    let mut batch = v1::Batch::default();
    let (mut last_ref, mut last_timestamp_ms) = (0_u32, 0_i64);
    for (series_ref, series) in (0_u32..).zip(series) {
        for &(timestamp_ms, value) in &series.samples {
            batch.ref_deltas.push(series_ref.wrapping_sub(last_ref) as i32);
            batch.timestamp_deltas_ms.push(timestamp_ms.wrapping_sub(last_timestamp_ms));
            batch.values.push(value);
            (last_ref, last_timestamp_ms) = (series_ref, timestamp_ms);
        }
    }
    v1::WriteRequest { series: (0..).zip(series).map(definition).collect(), batch: Some(batch) }
}

fn definition((series_ref, series): (u32, &Series)) -> v1::SeriesDefinition {
    v1::SeriesDefinition { labels: labels::to_messages(&series.labels), r#ref: series_ref }
}

/// What the node says became of it.
pub(crate) fn written(series: &[Series], answer: v1::WriteResponse) -> Written {
    let refusal = |refusal: v1::Refusal| {
        let reason = RefusalReason::from_message(refusal.reason());
        let series = series.get(refusal.r#ref as usize);
        // A ref that was never defined is the node's mistake; the refusal is told all the same.
        let labels = series.map(Series::labels).unwrap_or_default();
        SeriesRefusal { labels, reason, samples: refusal.samples }
    };
    Written {
        samples_written: answer.samples_written,
        refusals: answer.refusals.into_iter().map(refusal).collect(),
    }
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
        let written = written(&series, v1::WriteResponse { samples_written: 0, refusals: vec![refusal] });
        let labels = vec![("__name__".to_owned(), "a".to_owned()), ("x".to_owned(), "1".to_owned())];
        let expect = SeriesRefusal { labels, reason: RefusalReason::Duplicate, samples: 1 };
        assert_eq!(written.refusals, [expect]);
    }
}
