//! From what became of a request's lines to the report to its sender: how much was stored, how much wasn't and why,
//! and the first line of that.

use super::decode::LineRejected;
use crate::api::ingest::remote_write::answer::WriteReport;
use silverback_storage::message::{Examples, RejectedRef};

/// What became of a request that was read to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineReport {
    /// Samples by what became of them.
    pub samples: WriteReport,
    /// Fields that are strings, which were skipped.
    pub strings: u64,
    first: Option<LineRejected>,
}

impl LineReport {
    /// Of the samples, and the first line that was not stored whole before the shards were asked.
    pub(crate) fn new(samples: WriteReport, first: Option<LineRejected>, strings: u64) -> Self {
        let by_shards = samples.by_ref.iter().min_by_key(|refused| refused.stream_ref);
        let by_shards = by_shards.map(|refused| of_shard(refused, &samples.examples));
        let first = first.into_iter().chain(by_shards).min_by_key(|line| line.number);
        Self { samples, strings, first }
    }

    /// Samples that were refused, and lines that can't be read.
    pub(crate) fn refused(&self) -> u64 {
        self.samples.refused.total()
    }

    /// `2 of 10 samples refused, 8 stored: malformed_line 2; first: line 3: the value is missing: "up"`, and an example
    /// with its numbers where a shard refused the first.
    pub(crate) fn words(&self) -> String {
        let (refused, written) = (self.refused(), self.samples.written);
        let of = refused + written;
        let mut words =
            format!("{refused} of {of} samples refused, {written} stored: {}", self.samples.reasons());
        if let Some(LineRejected { number, words: why }) = &self.first {
            words.push_str(&format!("; first: line {number}: {why}"));
        }
        words
    }
}

/// Which series the first one is, no shard says: one that was refused for the same reason stands for it.
fn of_shard(refused: &RejectedRef, examples: &Examples) -> LineRejected {
    let mut words = refused.reason.text().to_owned();
    if let Some(example) = examples.iter().find(|example| example.reason == refused.reason) {
        words.push_str(&format!("; for example {}", example.words));
    }
    LineRejected { number: refused.stream_ref, words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::RefusedReason;

    fn check(by_ref: &[(u32, RefusedReason)], malformed: Option<u32>, expect: &str) {
        let mut samples = WriteReport { written: 8, ..WriteReport::default() };
        for (stream_ref, reason) in by_ref {
            samples.refused.add(*reason, 1);
            let words = || (format!("{{a=\"{stream_ref}\"}}"), ": 1 is stored".to_owned());
            samples.examples.add(*reason, 1, "", words);
            samples.by_ref.push(RejectedRef { stream_ref: *stream_ref, reason: *reason, samples: 1 });
        }
        if malformed.is_some() {
            samples.refused.add(RefusedReason::MalformedLine, 1);
        }
        let first = malformed.map(|number| LineRejected { number, words: "what: \"up\"".into() });
        assert_eq!(LineReport::new(samples, first, 0).words(), expect);
    }

    #[test]
    fn the_first_line_is_told_whoever_refused_it() {
        use RefusedReason::{Duplicate, OutOfOrder};
        let by_shards = "2 of 10 samples refused, 8 stored: out_of_order 1, duplicate 1; first: line 4: duplicate \
                         sample for timestamp with another value; for example {a=\"4\"} duplicate sample for \
                         timestamp with another value: 1 is stored";
        check(&[(9, OutOfOrder), (4, Duplicate)], None, by_shards);
        let by_decoder = "2 of 10 samples refused, 8 stored: out_of_order 1, malformed_line 1; \
                          first: line 3: what: \"up\"";
        check(&[(9, OutOfOrder)], Some(3), by_decoder);
    }
}
