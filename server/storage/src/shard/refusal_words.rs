//! A refused sample in words: its series, its job, and the numbers that it went by, its own time and what it was held
//! against. All but the job is made for the first sample of a job and a reason alone.

use std::borrow::Cow;

use silverback_model::utc::format_rfc3339;

use crate::message::{LabelSpan, WriteBody};
use crate::shard::append::TimeBounds;
use silverback_model::limits::FUTURE_MS_MAX;
use silverback_model::{Labels, RefusedReason, Sample};

/// Bytes of labels after which a series in words ends: no more are shown.
const WORDS_BYTES: usize = 1024;

/// What the shard knows of a refused sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusalContext {
    pub sample: Sample,
    pub bounds: TimeBounds,
    /// The newest sample of its series, if that is known.
    pub newest_ms: Option<i64>,
    /// Whether its series has native histograms, it among them.
    pub has_histograms: bool,
    /// Series that the node may hold.
    pub series_max: usize,
    /// What new series may fill of the shard's memory, in bytes.
    pub budget_bytes: usize,
}

/// To be appended to the reason's own text; empty where that says all.
pub(super) fn numbers(reason: RefusedReason, seen: &RefusalContext) -> String {
    let time = format_rfc3339(seen.sample.timestamp_ms);
    match (reason, seen.newest_ms) {
        (RefusedReason::OutOfOrder, Some(newest_ms)) => {
            let newest = format_rfc3339(newest_ms);
            let oldest = format_rfc3339(newest_ms.saturating_sub(seen.bounds.late_window_ms));
            format!(
                ": its time is {time}, the newest of its series {newest}, and --out-of-order-window goes back to {oldest}"
            )
        }
        (RefusedReason::Duplicate, Some(newest_ms)) => {
            let newest = format_rfc3339(newest_ms);
            format!(": its time is {time}, and the newest of its series {newest}{}", kinds(seen))
        }
        (RefusedReason::TooOld, _) => {
            let oldest = format_rfc3339(seen.bounds.oldest_ms);
            format!(": its time is {time}, and --retention goes back to {oldest}{}", unit(seen))
        }
        (RefusedReason::TooFarInFuture, _) => {
            let (newest, ahead_min) = (format_rfc3339(seen.bounds.newest_ms), FUTURE_MS_MAX / 60_000);
            format!(
                ": its time is {time}, and {newest} is {ahead_min} min ahead of this node's clock{}",
                unit(seen)
            )
        }
        (RefusedReason::SeriesLimit, _) if seen.series_max < usize::MAX => {
            format!(": the node has its part of the {} that --max-series lets it have", seen.series_max)
        }
        (RefusedReason::MemoryLimit, _) => {
            let budget_mib = seen.budget_bytes >> 20;
            format!(": --memory-limit leaves {budget_mib} MiB for the series of a shard")
        }
        _ => reason.bound(),
    }
}

/// What a duplicate may have been held against where there are histograms.
fn kinds(seen: &RefusalContext) -> &'static str {
    match seen.has_histograms {
        true => "; a series has one sample at a time, a float or a native histogram",
        false => "",
    }
}

/// Whether its time makes sense in another unit.
fn unit(RefusalContext { sample, bounds, .. }: &RefusalContext) -> &'static str {
    let is_now = |at_ms: i64| (bounds.oldest_ms..=bounds.newest_ms).contains(&at_ms);
    match sample.timestamp_ms {
        at if at.checked_mul(1000).is_some_and(is_now) => "; these are seconds, not milliseconds",
        at if is_now(at / 1000) => "; these are microseconds, not milliseconds",
        at if is_now(at / 1_000_000) => "; these are nanoseconds, not milliseconds",
        _ => "",
    }
}

/// The value of the label `job`; empty where there is none.
pub(super) fn job_of(body: &WriteBody, span: LabelSpan) -> Cow<'_, str> {
    let mut job = Cow::Borrowed("");
    body.for_each_label_as_it_came(span, |name, value| {
        if name == b"job" {
            job = String::from_utf8_lossy(value);
        }
    });
    job
}

/// A series, for the sender of a refused sample: what is too long to be shown is left out.
pub(super) fn labels_text(body: &WriteBody, span: LabelSpan) -> String {
    let (mut labels, mut bytes) = (Labels::default(), 0);
    body.for_each_label(span, |name, value| {
        if bytes >= WORDS_BYTES {
            return;
        }
        bytes += name.len() + value.len();
        labels.0.push((String::from_utf8_lossy(name).into(), String::from_utf8_lossy(value).into()));
    });
    labels.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn check(reason: RefusedReason, timestamp_ms: i64, expect: &str) {
        let seen = RefusalContext {
            sample: Sample::new(timestamp_ms, 1.0),
            bounds: TimeBounds {
                oldest_ms: NOW_MS - 3_600_000,
                newest_ms: NOW_MS + FUTURE_MS_MAX,
                late_window_ms: 600_000,
            },
            newest_ms: Some(NOW_MS),
            has_histograms: false,
            series_max: 1000,
            budget_bytes: 64 << 20,
        };
        assert_eq!(numbers(reason, &seen), expect, "{reason:?}");
    }

    #[test]
    fn each_reason_tells_what_it_went_by() {
        use RefusedReason::{Duplicate, MemoryLimit, MissingName, OutOfOrder, SeriesLimit};
        check(
            OutOfOrder,
            NOW_MS - 600_001,
            ": its time is 2023-11-14T22:03:19.999Z, the newest of its series 2023-11-14T22:13:20Z, and \
             --out-of-order-window goes back to 2023-11-14T22:03:20Z",
        );
        check(
            Duplicate,
            NOW_MS - 1000,
            ": its time is 2023-11-14T22:13:19Z, and the newest of its series 2023-11-14T22:13:20Z",
        );
        check(SeriesLimit, NOW_MS, ": the node has its part of the 1000 that --max-series lets it have");
        check(MemoryLimit, NOW_MS, ": --memory-limit leaves 64 MiB for the series of a shard");
        check(MissingName, NOW_MS, "");
    }

    #[test]
    fn times_in_another_unit_are_recognized() {
        use RefusedReason::{TooFarInFuture, TooOld};
        let old = ", and --retention goes back to 2023-11-14T21:13:20Z";
        check(TooOld, NOW_MS - 7_200_000, &format!(": its time is 2023-11-14T20:13:20Z{old}"));
        let seconds = "; these are seconds, not milliseconds";
        check(TooOld, NOW_MS / 1000, &format!(": its time is 1970-01-20T16:13:20Z{old}{seconds}"));
        let ahead = ", and 2023-11-14T22:23:20Z is 10 min ahead of this node's clock";
        check(TooFarInFuture, NOW_MS + 3_600_000, &format!(": its time is 2023-11-14T23:13:20Z{ahead}"));
        let micros = "; these are microseconds, not milliseconds";
        check(TooFarInFuture, NOW_MS * 1000, &format!(": its time is 55840-11-08T22:13:20Z{ahead}{micros}"));
    }

    #[test]
    fn no_time_is_too_strange() {
        for timestamp_ms in [i64::MIN, -1, 0, i64::MAX] {
            let seen = RefusalContext {
                sample: Sample::new(timestamp_ms, 1.0),
                bounds: TimeBounds { oldest_ms: i64::MIN, newest_ms: i64::MAX, late_window_ms: 0 },
                newest_ms: None,
                has_histograms: false,
                series_max: usize::MAX,
                budget_bytes: 0,
            };
            RefusedReason::ALL.into_iter().for_each(|reason| assert!(numbers(reason, &seen).len() < 200));
        }
    }
}
