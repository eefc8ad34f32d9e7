//! The last refusals: of whom, of which job, why, how many, and the first of them in words. What an operator
//! asks for first when samples are missing.
//!
//! All cores write into one log, under a lock that is taken where something was refused and nowhere else.
#![expect(
    clippy::disallowed_types,
    reason = "held for a look at a few entries, at most once for a request that is refused"
)]

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use silverback_model::utc::format_rfc3339;

use silverback_storage::message::shortened;

/// Senders, jobs and reasons that are kept; who was refused longest ago goes first.
const ENTRIES_MAX: usize = 200;
/// How much of the first one's words is kept, in bytes: a header that isn't understood is in them, too.
const TEXT_BYTES_MAX: usize = 768;
/// An entry that was silent for so long begins again, in ms: its first words are of another day.
const SILENT_MS: i64 = 60 * 60 * 1000;
/// How often an entry goes to the process' log, in ms.
const TELL_MS: i64 = 60 * 1000;

/// What was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Samples of requests that were read, or OTLP's data points.
    Samples,
    /// Series of requests that were read, without any.
    Series,
    /// Requests as a whole.
    Requests,
}

impl Unit {
    /// As in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Series => "series",
            Self::Requests => "requests",
        }
    }
}

/// Refusals of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RejectedItems<'a> {
    /// Who sent; `None`: the node itself.
    pub peer: Option<IpAddr>,
    /// The series' label `job`; empty where it has none, or where the request wasn't read.
    pub job: &'a str,
    /// As in metrics.
    pub reason: &'static str,
    /// What is counted.
    pub unit: Unit,
    /// How many.
    pub count: u64,
}

/// What the log holds of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefusalEntry {
    /// The sender's address; empty: the node itself.
    pub peer: String,
    /// The series' label `job`.
    pub job: String,
    /// As in metrics.
    pub reason: &'static str,
    /// What is counted.
    pub unit: Unit,
    /// How many since the first.
    pub count: u64,
    /// The first.
    pub first: First,
    /// When the last came, in RFC 3339.
    pub last_time: String,
}

/// The first refusal of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct First {
    /// When it came, in RFC 3339.
    pub time: String,
    /// The words that its sender got.
    pub text: String,
}

#[derive(Debug)]
struct KeptRefusal {
    peer: Option<IpAddr>,
    job: Box<str>,
    reason: &'static str,
    unit: Unit,
    count: u64,
    first_ms: i64,
    first_text: String,
    last_ms: i64,
    told_ms: i64,
    /// Of `count`.
    told: u64,
}

/// The log of a node.
#[derive(Debug, Default)]
pub struct RefusalLog(Mutex<Vec<KeptRefusal>>);

impl RefusalLog {
    /// Notes refusals; `words` is asked for the first of its kind. `Some`: so many since it was reported last, and
    /// it is time to report it again.
    pub(crate) fn note(
        &self,
        now_ms: i64,
        refused: RejectedItems<'_>,
        words: impl FnOnce() -> String,
    ) -> Option<u64> {
        let RejectedItems { peer, job, reason, unit, count } = refused;
        let mut kept = self.lock();
        let is_same = |kept: &KeptRefusal| {
            kept.reason == reason && kept.peer == peer && kept.unit == unit && *kept.job == *job
        };
        let found = kept.iter().position(is_same);
        let is_silent = |kept: &KeptRefusal| now_ms.saturating_sub(kept.last_ms) >= SILENT_MS;
        match found {
            Some(at) if !is_silent(&kept[at]) => return kept[at].add(now_ms, count),
            Some(at) => drop(kept.swap_remove(at)),
            None if kept.len() >= ENTRIES_MAX => forget_oldest(&mut kept),
            None => {}
        }
        kept.push(KeptRefusal {
            peer,
            job: job.into(),
            reason,
            unit,
            count,
            first_ms: now_ms,
            first_text: shortened(&words(), TEXT_BYTES_MAX).into_owned(),
            last_ms: now_ms,
            told_ms: now_ms,
            told: count,
        });
        Some(count)
    }

    /// What is kept, the last refusals first.
    pub(crate) fn entries(&self) -> Vec<RefusalEntry> {
        let mut kept: Vec<_> =
            self.lock().iter().map(|kept| (kept.last_ms, RefusalEntry::from(kept))).collect();
        kept.sort_by_key(|(last_ms, _)| std::cmp::Reverse(*last_ms));
        kept.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Nothing is left half done under the lock, whatever panics.
    fn lock(&self) -> MutexGuard<'_, Vec<KeptRefusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_oldest(kept: &mut Vec<KeptRefusal>) {
    if let Some((at, _)) = kept.iter().enumerate().min_by_key(|(_, kept)| kept.last_ms) {
        kept.swap_remove(at);
    }
}

impl KeptRefusal {
    fn add(&mut self, now_ms: i64, count: u64) -> Option<u64> {
        self.count += count;
        self.last_ms = self.last_ms.max(now_ms);
        if now_ms.saturating_sub(self.told_ms) < TELL_MS {
            return None;
        }
        self.told_ms = now_ms;
        Some(self.count - std::mem::replace(&mut self.told, self.count))
    }
}

impl From<&KeptRefusal> for RefusalEntry {
    fn from(kept: &KeptRefusal) -> Self {
        Self {
            peer: kept.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            job: kept.job.to_string(),
            reason: kept.reason,
            unit: kept.unit,
            count: kept.count,
            first: First { time: format_rfc3339(kept.first_ms), text: kept.first_text.clone() },
            last_time: format_rfc3339(kept.last_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn note(log: &RefusalLog, now_ms: i64, job: &str, text: &str) -> Option<u64> {
        let refused =
            RejectedItems { peer: Some(PEER), job, reason: "too_old", unit: Unit::Samples, count: 3 };
        log.note(now_ms, refused, || text.to_owned())
    }

    fn told(log: &RefusalLog) -> Vec<(String, u64, String)> {
        log.entries().into_iter().map(|entry| (entry.job, entry.count, entry.first.text)).collect()
    }

    #[test]
    fn the_first_of_a_kind_is_kept_and_all_are_counted() {
        let log = RefusalLog::default();
        assert_eq!(note(&log, 1000, "a", "first"), Some(3));
        assert_eq!(note(&log, 2000, "a", "second"), None);
        assert_eq!(note(&log, 1500, "b", "other"), Some(3));
        assert_eq!(told(&log), [("a".into(), 6, "first".into()), ("b".into(), 3, "other".into())]);
        let json = serde_json::to_value(&log.entries()[0]).unwrap();
        let expect = serde_json::json!({
            "peer": "10.0.0.1", "job": "a", "reason": "too_old", "unit": "samples", "count": 6,
            "first": {"time": "1970-01-01T00:00:01Z", "text": "first"}, "lastTime": "1970-01-01T00:00:02Z",
        });
        assert_eq!(json, expect);
    }

    #[test]
    fn each_kind_is_told_once_a_minute_and_begins_again_after_an_hour() {
        let log = RefusalLog::default();
        note(&log, 0, "a", "first");
        assert_eq!(note(&log, TELL_MS - 1, "a", ""), None);
        assert_eq!(note(&log, TELL_MS, "a", ""), Some(6));
        assert_eq!(note(&log, TELL_MS + SILENT_MS, "a", "again"), Some(3));
        assert_eq!(told(&log), [("a".into(), 3, "again".into())]);
    }

    #[test]
    fn no_words_take_much() {
        let log = RefusalLog::default();
        note(&log, 0, "a", &"é".repeat(30_000));
        assert!(log.entries()[0].first.text.len() <= TEXT_BYTES_MAX + 3);
    }

    #[test]
    fn whoever_was_refused_longest_ago_makes_room() {
        let log = RefusalLog::default();
        (0..1000).for_each(|i| assert!(note(&log, i, &i.to_string(), "").is_some()));
        let entries = log.entries();
        assert_eq!((entries.len(), &*entries[0].job), (ENTRIES_MAX, "999"));
        assert_eq!(entries.last().unwrap().job, (1000 - ENTRIES_MAX).to_string());
    }
}
