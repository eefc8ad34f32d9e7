//! From what became of a request's data points to the answer to its sender. Exact: a data point of
//! which any sample wasn't stored counts as rejected, once.

use silverback_proto::otlp::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};

use super::translate::NO_POINT;
use crate::api::ingest::remote_write::answer::WriteReport;
use silverback_model::RefusedCounts;
use silverback_storage::message::{Examples, RejectedSamples};

/// What became of a request that was read to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtlpOutcome {
    points: u64,
    refused: RefusedCounts,
    examples: Examples,
}

impl OtlpOutcome {
    /// Of so many data points, some refused before the shards were asked, and some by these.
    pub(crate) fn new(points: u64, refused: RejectedSamples, mut report: WriteReport) -> Self {
        let mut counts = refused.counts;
        report.by_ref.retain(|refusal| refusal.stream_ref != NO_POINT);
        report.by_ref.sort_by_key(|refusal| refusal.stream_ref);
        report.by_ref.dedup_by_key(|refusal| refusal.stream_ref);
        report.by_ref.iter().for_each(|refusal| counts.add(refusal.reason, 1));
        let mut examples = refused.examples;
        examples.merge(report.examples);
        Self { points, refused: counts, examples }
    }

    /// The answer. Nothing in it: everything is stored.
    pub(crate) fn response(&self) -> ExportMetricsServiceResponse {
        let rejected = self.refused.total();
        let partial_success = (rejected > 0).then(|| ExportMetricsPartialSuccess {
            rejected_data_points: rejected as i64,
            error_message: self.words(),
        });
        ExportMetricsServiceResponse { partial_success }
    }

    /// Some of what was refused, by job and reason.
    pub(crate) fn examples(&self) -> &Examples {
        &self.examples
    }

    /// `2 of 10 data points refused: delta temporality …: 2; first: metric "a"`
    fn words(&self) -> String {
        let reasons: Vec<_> = self.refused.iter().map(|(r, n)| format!("{} ({n})", r.text())).collect();
        let (refused, points) = (self.refused.total(), self.points);
        let mut words = format!("{refused} of {points} data points refused: {}", reasons.join(", "));
        if let Some(first) = self.examples.first() {
            words.push_str(&format!("; first: {}", first.words));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::RefusedReason;
    use silverback_storage::message::RejectedRef;

    fn by_ref(refused: &[(u32, RefusedReason)]) -> WriteReport {
        let refusal =
            |(stream_ref, reason): &_| RejectedRef { stream_ref: *stream_ref, reason: *reason, samples: 1 };
        WriteReport { by_ref: refused.iter().map(refusal).collect(), ..WriteReport::default() }
    }

    fn check(refused: RejectedSamples, report: WriteReport, expect: Option<(i64, &str)>) {
        let told = OtlpOutcome::new(9, refused, report).response().partial_success;
        let told = told.as_ref().map(|partial| (partial.rejected_data_points, &*partial.error_message));
        assert_eq!(told, expect);
    }

    #[test]
    fn a_request_that_is_stored_whole_has_nothing_to_tell() {
        check(RejectedSamples::default(), WriteReport::default(), None);
    }

    #[test]
    fn a_data_point_of_many_samples_is_rejected_once() {
        use RefusedReason::{Duplicate, OutOfOrder};
        let report = by_ref(&[(3, OutOfOrder), (3, OutOfOrder), (0, Duplicate), (3, Duplicate)]);
        let words = "2 of 9 data points refused: out of order sample (1), \
                     duplicate sample for timestamp with another value (1)";
        check(RejectedSamples::default(), report, Some((2, words)));
    }

    #[test]
    fn what_is_no_data_point_is_not_counted() {
        check(RejectedSamples::default(), by_ref(&[(NO_POINT, RefusedReason::OutOfOrder)]), None);
    }

    #[test]
    fn what_was_refused_before_the_shards_is_added() {
        let mut refused = RejectedSamples::default();
        refused
            .refuse(RefusedReason::DeltaTemporality, 2, "", || ("metric \"a\":".to_owned(), String::new()));
        let words = "3 of 9 data points refused: sample is older than the retention (1), \
                     delta temporality is refused (--otlp-delta): use cumulative (2); \
                     first: metric \"a\": delta temporality is refused (--otlp-delta): use cumulative";
        check(refused, by_ref(&[(1, RefusedReason::TooOld)]), Some((3, words)));
    }
}
