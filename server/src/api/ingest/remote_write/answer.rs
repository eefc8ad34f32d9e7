//! From what became of a request to its sender's answer: status, headers, words. Exact: a
//! request of which anything wasn't stored is never answered with success.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::{RequestTally, Version, write_rejected::WriteRejected};
use crate::api::response::cause::Cause;
use silverback_model::{ExemplarRejected, RefusedCounts, RefusedReason};
use silverback_storage::message::{Examples, ExemplarOutcome, RejectedRef, WriteAck};

const SAMPLES_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-samples-written");
const HISTOGRAMS_WRITTEN: HeaderName =
    HeaderName::from_static("x-prometheus-remote-write-histograms-written");
const EXEMPLARS_WRITTEN: HeaderName = HeaderName::from_static("x-prometheus-remote-write-exemplars-written");

/// Room for new series comes back when old ones have ended. Known series go on, so that the rest of
/// the request must not be sent again for the new ones: the hint is for when these may be tried again.
pub(in crate::api) const NEW_SERIES_RETRY: Duration = Duration::from_secs(30);

/// What became of the samples of a request that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteReport {
    /// Samples stored.
    pub written: u64,
    /// Native histograms stored.
    pub histograms: u64,
    /// What became of its exemplars.
    pub exemplars: ExemplarOutcome,
    /// Samples refused, by the decoder and by the shards.
    pub refused: RefusedCounts,
    /// Series refused whole. One that holds no sample is seen here alone.
    pub series_refused: u64,
    /// Samples that the shards refused of series that have a number of their sender.
    pub by_ref: Vec<RejectedRef>,
    /// Some of the refused samples, by job and reason.
    pub examples: Examples,
}

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteResponse {
    /// The status.
    pub status: StatusCode,
    /// All headers but those of the transport.
    pub headers: HeaderMap,
    /// Plain text for a person; empty on success.
    pub text: String,
}

impl WriteResponse {
    /// To a request that was read to its end.
    pub fn to_report(version: Version, report: &WriteReport) -> Self {
        // Its specification wants every piece written, or no success. Remote write 1 knows nothing of exemplars.
        let exemplars = match version {
            Version::V1 => None,
            Version::V2 => report.exemplars.reason,
        };
        let mut answer = match exemplars.filter(|_| report.is_whole()) {
            Some(first) => {
                let words = report.exemplars_text(first);
                Self::new(Cause::Invalid.http(), format!("{words}; all samples are stored"))
            }
            None => Self::in_words(report, || match exemplars {
                Some(first) => format!("{}; {}", report.text(), report.exemplars_text(first)),
                None => report.text(),
            }),
        };
        answer.tell_written(version, report);
        answer
    }

    /// The same in a protocol's own words, which are asked for where anything wasn't stored.
    pub(crate) fn in_words(report: &WriteReport, words: impl FnOnce() -> String) -> Self {
        if report.is_whole() {
            Self::new(StatusCode::NO_CONTENT, String::new())
        } else if report.lacks_room() {
            Self::new(Cause::Invalid.http(), words()).with_retry(NEW_SERIES_RETRY)
        } else {
            Self::new(Cause::Invalid.http(), words())
        }
    }

    /// To a request that was refused as a whole; of no version where its content type says none.
    pub fn to_rejection(version: Option<Version>, rejection: &WriteRejected) -> Self {
        let mut answer = Self::new(rejection.cause().http(), rejection.to_string());
        if rejection.cause() == Cause::Method {
            answer.headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        if let Some(after) = rejection.retry_after() {
            answer = answer.with_retry(after);
        }
        if let Some(version) = version {
            answer.tell_written(version, &WriteReport::default());
        }
        answer
    }

    fn new(status: StatusCode, text: String) -> Self {
        let mut headers = HeaderMap::new();
        if !text.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        }
        Self { status, headers, text }
    }

    fn with_retry(mut self, after: Duration) -> Self {
        self.headers.insert(header::RETRY_AFTER, after.as_secs().into());
        self
    }

    /// Remote write 2 senders take an answer without these counts for that of an older receiver.
    fn tell_written(&mut self, version: Version, report: &WriteReport) {
        match version {
            Version::V1 => {}
            Version::V2 => {
                self.headers.insert(SAMPLES_WRITTEN, report.written.into());
                self.headers.insert(HISTOGRAMS_WRITTEN, report.histograms.into());
                self.headers.insert(EXEMPLARS_WRITTEN, report.exemplars.kept.into());
            }
        }
    }
}

impl From<RequestTally> for WriteReport {
    /// Begins with what the decoder refused.
    fn from(tally: RequestTally) -> Self {
        let RequestTally { refused, series_refused, examples, exemplars_refused, .. } = tally;
        let mut exemplars = ExemplarOutcome::default();
        exemplars_refused.iter().for_each(|(reason, count)| exemplars.refuse(reason, count as u32));
        Self { refused, series_refused, examples, exemplars, ..Self::default() }
    }
}

impl WriteReport {
    /// Adds what a shard made of its part.
    pub(crate) fn add(&mut self, ack: WriteAck) {
        self.written += ack.written;
        self.histograms += u64::from(ack.histograms);
        self.exemplars.add(ack.exemplars);
        if let Some(refusals) = ack.refusals {
            self.refused.merge(&refusals.counts);
            self.by_ref.extend(refusals.by_ref);
            self.examples.merge(refusals.examples);
        }
    }

    /// Whether all of it is stored.
    pub(crate) fn is_whole(&self) -> bool {
        self.refused.total() == 0 && self.series_refused == 0
    }

    /// Whether there was no room for new series.
    pub(crate) fn lacks_room(&self) -> bool {
        [RefusedReason::SeriesLimit, RefusedReason::MemoryLimit].iter().any(|&r| self.refused.get(r) > 0)
    }

    /// `out_of_order 10, duplicate 2`
    pub(crate) fn reasons(&self) -> String {
        let reasons: Vec<_> = self.refused.iter().map(|(r, n)| format!("{} {n}", r.as_str())).collect();
        reasons.join(", ")
    }

    /// `2 of 9 exemplars refused, the first one as bad_labels`
    fn exemplars_text(&self, first: ExemplarRejected) -> String {
        let ExemplarOutcome { kept, refused, .. } = self.exemplars;
        format!("{refused} of {} exemplars refused, the first one as {}", kept + refused, first.as_str())
    }

    /// `12 of 2000 samples refused: out_of_order 10, duplicate 2; first: {…} out of order sample`
    pub(crate) fn text(&self) -> String {
        let refused = self.refused.total();
        let mut text = if refused > 0 {
            format!(
                "{refused} of {} samples refused: {}",
                self.written + self.histograms + refused,
                self.reasons()
            )
        } else {
            format!("{} series without samples refused", self.series_refused)
        };
        if let Some(first) = self.examples.first() {
            text.push_str(&format!("; first: {}", first.words));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::ingest::remote_write::{MalformedError, MalformedErrorKind, snappy::SnappyError};
    use silverback_storage::message::RejectedSamples;

    fn report(written: u64, refused: &[(RefusedReason, u64)]) -> WriteReport {
        let mut report = WriteReport { written, ..WriteReport::default() };
        for &(reason, samples) in refused {
            report.refused.add(reason, samples);
        }
        if let Some(&(reason, _)) = refused.first() {
            report.examples = example(reason, "{job=\"a\"}");
        }
        report
    }

    fn example(reason: RefusedReason, series: &str) -> Examples {
        let mut examples = Examples::default();
        examples.add(reason, 1, "", || (series.to_owned(), String::new()));
        examples
    }

    fn written(answer: &WriteResponse) -> [Option<&str>; 3] {
        [SAMPLES_WRITTEN, HISTOGRAMS_WRITTEN, EXEMPLARS_WRITTEN]
            .map(|name| answer.headers.get(name).map(|value| value.to_str().unwrap()))
    }

    fn check(report: &WriteReport, status: u16, samples_written: &str, text: &str) {
        for (version, counts) in
            [(Version::V1, [None; 3]), (Version::V2, [Some(samples_written), Some("0"), Some("0")])]
        {
            let answer = WriteResponse::to_report(version, report);
            assert_eq!((answer.status.as_u16(), &*answer.text), (status, text));
            assert_eq!(written(&answer), counts, "{version:?}");
        }
    }

    #[test]
    fn a_request_written_whole_is_answered_without_a_body() {
        check(&report(2000, &[]), 204, "2000", "");
        check(&report(0, &[]), 204, "0", "");
        let answer = WriteResponse::to_report(Version::V1, &report(1, &[]));
        assert!(answer.headers.is_empty());
    }

    #[test]
    fn refused_samples_are_told_by_reason_and_example() {
        use RefusedReason::{Duplicate, OutOfOrder};
        check(
            &report(1988, &[(OutOfOrder, 10), (Duplicate, 2)]),
            400,
            "1988",
            "12 of 2000 samples refused: out_of_order 10, duplicate 2; first: {job=\"a\"} out of order sample",
        );
    }

    #[test]
    fn a_bad_series_without_samples_is_told_too() {
        let examples = example(RefusedReason::BadSeriesShape, "{a=\"b\"}");
        let report = WriteReport { series_refused: 1, examples, written: 3, ..WriteReport::default() };
        let text = "1 series without samples refused; first: {a=\"b\"} series needs samples or histograms, and not both";
        check(&report, 400, "3", text);
    }

    #[test]
    fn new_series_without_room_do_not_hold_up_the_known_ones() {
        for reason in [RefusedReason::SeriesLimit, RefusedReason::MemoryLimit] {
            let answer = WriteResponse::to_report(Version::V2, &report(5, &[(reason, 1)]));
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "a sender goes on with what comes next");
            assert_eq!(answer.headers[header::RETRY_AFTER], "30");
            assert_eq!(written(&answer), [Some("5"), Some("0"), Some("0")]);
            assert!(answer.text.contains(&format!("{} 1", reason.as_str())), "{}", answer.text);
        }
    }

    #[test]
    fn refused_exemplars_are_an_error_of_remote_write_2_alone() {
        let mut tally = RequestTally::default();
        tally.exemplars_refused.add(ExemplarRejected::BadLabels, 1);
        let mut report = WriteReport { written: 5, ..WriteReport::from(tally) };
        report.exemplars.add(ExemplarOutcome { kept: 1, ..ExemplarOutcome::default() });
        report.exemplars.refuse(ExemplarRejected::UnknownSeries, 2);
        let answer = WriteResponse::to_report(Version::V2, &report);
        assert_eq!((answer.status, written(&answer)), (StatusCode::BAD_REQUEST, ["5", "0", "1"].map(Some)));
        assert_eq!(
            answer.text,
            "3 of 4 exemplars refused, the first one as bad_labels; all samples are stored"
        );
        assert_eq!(WriteResponse::to_report(Version::V1, &report).status, StatusCode::NO_CONTENT);
    }

    #[test]
    fn a_node_that_keeps_no_exemplars_fails_no_request_for_them() {
        let mut report = report(5, &[]);
        report.exemplars.refuse(ExemplarRejected::Disabled, 2);
        check(&report, 204, "5", "");
    }

    #[test]
    fn what_the_decoder_and_the_shards_refused_adds_up() {
        let mut tally = RequestTally { samples: 9, series_refused: 1, ..RequestTally::default() };
        tally.refused.add(RefusedReason::MissingName, 2);
        let mut counts = RefusedCounts::default();
        counts.add(RefusedReason::TooOld, 1);
        let examples = example(RefusedReason::TooOld, "{job=\"b\"}");
        let mut total = WriteReport::from(tally);
        total.add(WriteAck {
            written: 8,
            histograms: 0,
            exemplars: ExemplarOutcome { kept: 3, ..ExemplarOutcome::default() },
            ref_updates: None,
            moved: None,
            refusals: Some(Box::new(RejectedSamples { counts, examples, by_ref: Vec::new() })),
        });
        let text = "3 of 11 samples refused: too_old 1, missing_name 2; first: {job=\"b\"} sample is older than the retention";
        assert_eq!(written(&WriteResponse::to_report(Version::V2, &total)), ["8", "0", "3"].map(Some));
        total.exemplars.kept = 0;
        check(&total, 400, "8", text);
        // Both are told of.
        total.exemplars.refuse(ExemplarRejected::TooOld, 2);
        let both = format!("{text}; 2 of 2 exemplars refused, the first one as too_old");
        assert_eq!(WriteResponse::to_report(Version::V2, &total).text, both);
        assert_eq!(WriteResponse::to_report(Version::V1, &total).text, text, "it knows nothing of exemplars");
    }

    fn check_rejected(rejection: WriteRejected, status: u16, retry: Option<&str>, words: &[&str]) {
        let answer = WriteResponse::to_rejection(Some(Version::V2), &rejection);
        assert_eq!(answer.status.as_u16(), status, "{rejection:?}");
        assert_eq!(answer.headers.get(header::RETRY_AFTER).map(|v| v.to_str().unwrap()), retry);
        assert_eq!(written(&answer), [Some("0"); 3]);
        assert!(words.iter().all(|word| answer.text.contains(word)), "{}", answer.text);
        for version in [None, Some(Version::V1)] {
            assert_eq!(written(&WriteResponse::to_rejection(version, &rejection)), [None; 3]);
        }
    }

    #[test]
    fn a_request_refused_as_a_whole_is_told_why() {
        let malformed = MalformedError { offset: 17, cause: MalformedErrorKind::Truncated };
        check_rejected(WriteRejected::Malformed(malformed), 400, None, &["byte 17", "ends past"]);
        for cause in [
            MalformedErrorKind::BodyTooLarge,
            MalformedErrorKind::LabelsTooLarge,
            MalformedErrorKind::TooManySamples,
            MalformedErrorKind::TooManySymbols,
        ] {
            let too_much = MalformedError { offset: 17, cause };
            let words = ["too large a request at byte 17", "send fewer"];
            check_rejected(WriteRejected::Malformed(too_much), 413, None, &words);
        }
        let too_large = SnappyError::TooLarge { claimed_bytes: 99, limit_bytes: 10 };
        check_rejected(WriteRejected::Snappy(too_large), 413, None, &["99", "10"]);
        let corrupt = SnappyError::Corrupt("no length".to_owned());
        check_rejected(WriteRejected::Snappy(corrupt), 400, None, &["no length"]);
        check_rejected(WriteRejected::BodyTooLarge { limit_bytes: 10 }, 413, None, &["10 bytes"]);
        check_rejected(
            WriteRejected::TakesTooMuch { bytes_max: 10 },
            413,
            None,
            &["10 bytes", "fewer series"],
        );
        let slow = WriteRejected::BodyTimedOut(Duration::from_secs(3));
        check_rejected(slow, 503, Some("1"), &["did not arrive within 3s"]);
        check_rejected(WriteRejected::Overloaded, 429, Some("1"), &["too many requests", "later"]);
        check_rejected(WriteRejected::BudgetExceeded, 429, Some("1"), &["memory", "later", "--memory-limit"]);
        let full = WriteRejected::MemoryFull { limit_bytes: 512 << 20 };
        check_rejected(full, 429, Some("30"), &["memory is full", "512 MiB", "--memory-limit", "later"]);
        check_rejected(WriteRejected::NotReady("replaying".to_owned()), 503, Some("5"), &["replaying"]);
    }

    #[test]
    fn an_unsupported_request_is_told_what_is_supported() {
        let content_type = WriteRejected::ContentType("a/b".to_owned());
        let words = ["\"a/b\"", "application/x-protobuf", "io.prometheus.write.v2.Request"];
        check_rejected(content_type, 415, None, &words);
        let encoding = WriteRejected::ContentEncoding("gzip".to_owned());
        check_rejected(encoding, 415, None, &["\"gzip\"", "snappy"]);
        check_rejected(WriteRejected::Header(header::CONTENT_TYPE), 415, None, &["content-type"]);
        check_rejected(WriteRejected::Method, 405, None, &["POST"]);
        let answer = WriteResponse::to_rejection(None, &WriteRejected::Method);
        assert_eq!(answer.headers[header::ALLOW], "POST");
    }
}
