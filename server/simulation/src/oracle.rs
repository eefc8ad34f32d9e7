//! What was sent and what was acknowledged, and so what a shard may and must hold.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use silverback_model::{Labels, Sample};
use silverback_storage::message::{ChunkOf, Rows, SeriesBatch};
use silverback_storage::wal::Lsn;

use crate::histograms;

/// A place in the order of acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment(u64);

/// A sample's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleState {
    /// It may be held or not.
    Sent,
    /// It must be held for good.
    Acknowledged(Moment),
    /// It was acknowledged, and a deletion is in flight: it may be held or not.
    Deleting,
    /// It must be gone for good.
    Deleted(Moment),
}

#[derive(Debug, Clone, Copy)]
struct Known {
    value_bits: u64,
    state: SampleState,
    /// The group that it is in, or that has its deletion, is a later one than this.
    after: Lsn,
    /// And none later than this.
    upto: Lsn,
    /// It was sent, and that is not answered.
    is_out: bool,
    /// As it was sent last.
    sent_at: Deletions,
}

/// How many deletions have begun and ended, both counted: odd while one is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deletions(u64);

impl Deletions {
    pub(crate) fn is_under_way(self) -> bool {
        !self.0.is_multiple_of(2)
    }
}

/// Some series' samples of a time, to be deleted. One deletion is in flight at a time.
#[derive(Debug, Clone)]
pub(crate) struct Doomed {
    /// A label that the series have.
    pub label: (&'static str, String),
    pub range_ms: RangeInclusive<i64>,
}

/// Every sample that may exist.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    series: BTreeMap<Labels, BTreeMap<i64, Known>>,
    /// What is older may be dropped.
    horizon_ms: i64,
    now: Moment,
    deletions: Deletions,
    /// Contradictions in flight: what they contradict must not be deleted meanwhile.
    pub contradictions: usize,
}

/// What a shard holds, as it was read.
pub(crate) type Held = Vec<HeldSeries>;

/// A series as a read gives it.
#[derive(Debug, Clone)]
pub(crate) struct HeldSeries {
    pub labels: Labels,
    pub samples: Vec<Sample>,
}

/// The series of a batch.
pub(crate) fn held(batch: &SeriesBatch) -> impl Iterator<Item = HeldSeries> {
    (0..batch.count()).map(|at| {
        let series = batch.get(at);
        let mut samples = Vec::new();
        for chunk in series.chunks() {
            match chunk.of {
                ChunkOf::Samples => samples
                    .extend(chunk.samples().map(|sample| sample.expect("the node's own chunks decode"))),
                ChunkOf::Histograms(kind) => samples.extend(histograms::samples(kind, chunk.bytes)),
            }
        }
        HeldSeries { labels: series.labels.into(), samples }
    })
}

impl Oracle {
    /// A sample goes out while the log is durable up to a group. One that was sent before keeps its
    /// state.
    pub(crate) fn sent(&mut self, labels: &Labels, sample: Sample, durable: Lsn) {
        if !self.series.contains_key(labels) {
            self.series.insert(labels.clone(), BTreeMap::new());
        }
        let known = Known {
            value_bits: sample.value.to_bits(),
            state: SampleState::Sent,
            after: durable,
            upto: Lsn(u64::MAX),
            is_out: true,
            sent_at: self.deletions,
        };
        let samples = self.series.get_mut(labels).expect("it was made above");
        let held = samples.entry(sample.timestamp_ms).or_insert(known);
        assert_eq!(held.value_bits, known.value_bits, "a client sends one value for one time");
        (held.is_out, held.sent_at) = (true, known.sent_at);
        match held.state {
            // It may come again.
            SampleState::Deleting | SampleState::Deleted(_) => *held = known,
            SampleState::Sent | SampleState::Acknowledged(_) => {}
        }
    }

    /// The shard said that it holds the sample for good; the log is durable up to a group.
    pub(crate) fn acknowledged(&mut self, labels: &Labels, sample: Sample, durable: Lsn) {
        self.now.0 += 1;
        let samples = self.series.get_mut(labels).expect("what is acknowledged was sent");
        let known = samples.get_mut(&sample.timestamp_ms).expect("what is acknowledged was sent");
        known.is_out = false;
        let may_be_deleted = known.sent_at != self.deletions || self.deletions.is_under_way();
        match known.state {
            SampleState::Sent if may_be_deleted => {}
            SampleState::Sent => {
                known.state = SampleState::Acknowledged(self.now);
                known.upto = durable;
            }
            SampleState::Acknowledged(_) | SampleState::Deleting | SampleState::Deleted(_) => {}
        }
    }

    /// A deletion begins while the log is durable up to a group.
    pub(crate) fn deletion_begins(&mut self, doomed: &Doomed, durable: Lsn) {
        self.deletions.0 += 1;
        let (name, value) = &doomed.label;
        let is_doomed = |labels: &Labels| labels.0.iter().any(|(n, v)| n[..] == **name && v[..] == **value);
        for (_, samples) in self.series.iter_mut().filter(|(labels, _)| is_doomed(labels)) {
            for (at_ms, known) in samples.range_mut(doomed.range_ms.clone()) {
                known.state = match known.state {
                    // What is on its way may come after the deletion.
                    SampleState::Acknowledged(_) if known.is_out => SampleState::Sent,
                    SampleState::Acknowledged(_) => SampleState::Deleting,
                    other => other,
                };
                // What retention may drop may have gone before, by a group that is durable already.
                if known.state == SampleState::Deleting && *at_ms >= self.horizon_ms {
                    known.after = durable;
                }
            }
        }
    }

    /// The deletion was answered: it is done for good, with the log durable up to a group, or it may be done or not.
    /// Returns how many samples must be gone.
    pub(crate) fn deletion_ends(&mut self, done: Option<Lsn>) -> u64 {
        self.deletions.0 += 1;
        self.now.0 += 1;
        let (now, mut gone) = (self.now, 0);
        let deleting = self.series.values_mut().flat_map(BTreeMap::values_mut);
        for known in deleting.filter(|known| known.state == SampleState::Deleting) {
            known.state = done.map_or(SampleState::Sent, |_| SampleState::Deleted(now));
            known.upto = done.unwrap_or(Lsn(u64::MAX));
            gone += u64::from(done.is_some());
        }
        gone
    }

    /// How many there were, to know whether there was one since.
    pub(crate) fn deletions(&self) -> Deletions {
        self.deletions
    }

    /// Samples before this may be gone from now on.
    pub(crate) fn expire_before(&mut self, horizon_ms: i64) {
        self.horizon_ms = self.horizon_ms.max(horizon_ms);
    }

    /// What is older may be gone.
    pub(crate) fn horizon_ms(&self) -> i64 {
        self.horizon_ms
    }

    /// All that is acknowledged by now is acknowledged at this moment.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Whether what was read is in order, was sent, and is all that was acknowledged by a moment.
    pub(crate) fn check(&self, held: &Held, upto: Moment) -> Result<(), String> {
        if let Some(pair) = held.windows(2).find(|pair| pair[0].labels >= pair[1].labels) {
            return Err(format!("{} is read before {}", pair[0].labels, pair[1].labels));
        }
        let mut lost = Lost::default();
        let mut held = held.iter().peekable();
        for (labels, known) in &self.series {
            if let Some(stranger) = held.next_if(|series| series.labels < *labels) {
                return Err(format!("nobody sent {}", stranger.labels));
            }
            let of_series = held.next_if(|series| series.labels == *labels);
            let samples = of_series.map(|series| series.samples.clone()).unwrap_or_default();
            check_series(labels, known, &samples, upto)?;
            let due = known.range(self.horizon_ms..).filter(|(_, known)| known.must_be_held(upto));
            for (at_ms, _) in due.filter(|(at_ms, _)| !holds(&samples, **at_ms)) {
                lost.note(labels, *at_ms);
            }
        }
        match held.next() {
            Some(stranger) => Err(format!("nobody sent {}", stranger.labels)),
            None => lost.told(),
        }
    }

    /// The disk lost groups that it had taken: the samples in them need not be held, nor what came after
    /// of the same series, newer or late, because its labels may have been in them.
    pub(crate) fn forgive(&mut self, lost: RangeInclusive<Lsn>) {
        let may_be_in = |known: &Known| known.after < *lost.end() && known.upto >= *lost.start();
        for known in self.series.values_mut() {
            let from = known.iter().find(|(_, known)| may_be_in(known)).map(|(at_ms, _)| *at_ms);
            if let Some(from) = from {
                let later =
                    known.iter_mut().filter(|(at_ms, known)| **at_ms >= from || known.upto >= *lost.start());
                later.for_each(|(_, known)| known.state = SampleState::Sent);
            }
        }
    }

    /// What was read after a restart, and checked, decides: what is held was kept for good, what isn't may never come
    /// back, unless the disk loses a group that may have its deletion. What retention may drop stays undecided.
    pub(crate) fn settle(&mut self, held: &Held, durable: Lsn) {
        self.now.0 += 1;
        self.deletions.0 = self.deletions.0.next_multiple_of(2);
        self.contradictions = 0;
        let mut held = held.iter().peekable();
        let (now, horizon_ms) = (self.now, self.horizon_ms);
        for (labels, known) in &mut self.series {
            let of_series = held.next_if(|series| series.labels == *labels);
            let samples = of_series.map(|series| series.samples.clone()).unwrap_or_default();
            for (timestamp_ms, known) in known {
                let is_held = holds(&samples, *timestamp_ms);
                known.is_out = false;
                let decided = match known.state {
                    SampleState::Sent | SampleState::Deleting if is_held => SampleState::Acknowledged(now),
                    _ if is_held || *timestamp_ms < horizon_ms => continue,
                    SampleState::Deleted(_) => continue,
                    SampleState::Sent | SampleState::Deleting | SampleState::Acknowledged(_) => {
                        SampleState::Deleted(now)
                    }
                };
                (known.state, known.upto) = (decided, durable);
            }
        }
    }

    /// Acknowledged samples that must be held.
    pub(crate) fn acknowledged_count(&self) -> usize {
        let of_series = |known: &BTreeMap<i64, Known>| {
            known.range(self.horizon_ms..).filter(|(_, known)| known.must_be_held(self.now)).count()
        };
        self.series.values().map(of_series).sum()
    }
}

impl Known {
    fn must_be_held(self, upto: Moment) -> bool {
        match self.state {
            SampleState::Sent | SampleState::Deleting | SampleState::Deleted(_) => false,
            SampleState::Acknowledged(at) => at <= upto,
        }
    }

    fn must_be_gone(self, upto: Moment) -> bool {
        match self.state {
            SampleState::Sent | SampleState::Deleting | SampleState::Acknowledged(_) => false,
            SampleState::Deleted(at) => at <= upto,
        }
    }
}

/// Acknowledged samples that are not held.
#[derive(Default)]
struct Lost<'a> {
    count: usize,
    first: Option<(&'a Labels, i64)>,
}

impl<'a> Lost<'a> {
    fn note(&mut self, labels: &'a Labels, at_ms: i64) {
        self.count += 1;
        self.first.get_or_insert((labels, at_ms));
    }

    fn told(self) -> Result<(), String> {
        let Some((labels, at_ms)) = self.first else { return Ok(()) };
        Err(format!("{} acknowledged samples are lost, {labels} at {at_ms} the first of them", self.count))
    }
}

fn holds(samples: &[Sample], at_ms: i64) -> bool {
    samples.binary_search_by_key(&at_ms, |sample| sample.timestamp_ms).is_ok()
}

fn check_series(
    labels: &Labels,
    known: &BTreeMap<i64, Known>,
    samples: &[Sample],
    upto: Moment,
) -> Result<(), String> {
    if let Some(pair) = samples.windows(2).find(|pair| pair[0].timestamp_ms >= pair[1].timestamp_ms) {
        return Err(format!("{labels}: {} before {}", pair[0].timestamp_ms, pair[1].timestamp_ms));
    }
    for sample in samples {
        let value = known.get(&sample.timestamp_ms).map(|known| known.value_bits);
        if value != Some(sample.value.to_bits()) {
            let (at_ms, held) = (sample.timestamp_ms, sample.value.to_bits());
            return Err(format!("{labels} at {at_ms}: holds {held:#x}, sent was {value:x?}"));
        }
        if known.get(&sample.timestamp_ms).is_some_and(|known| known.must_be_gone(upto)) {
            return Err(format!("{labels} at {}: it was gone and is back", sample.timestamp_ms));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels() -> Labels {
        Labels::from_pairs([("a", "b")])
    }

    fn held(samples: &[Sample]) -> Held {
        vec![HeldSeries { labels: labels(), samples: samples.to_vec() }]
    }

    fn oracle() -> Oracle {
        let mut oracle = Oracle::default();
        [1, 2, 3]
            .into_iter()
            .for_each(|at_ms| oracle.sent(&labels(), Sample::new(at_ms, at_ms as f64), Lsn(at_ms as u64)));
        oracle.acknowledged(&labels(), Sample::new(2, 2.0), Lsn(5));
        oracle
    }

    fn check(oracle: &Oracle, samples: &[(i64, f64)], expect: &str) {
        let samples: Vec<Sample> = samples.iter().map(|(t, v)| Sample::new(*t, *v)).collect();
        let told = oracle.check(&held(&samples), oracle.now()).err().unwrap_or_default();
        assert!(told.contains(expect) && told.is_empty() == expect.is_empty(), "{told:?}, not {expect:?}");
    }

    #[test]
    fn what_was_acknowledged_must_be_held_and_what_was_sent_may_be() {
        check(&oracle(), &[(2, 2.0)], "");
        check(&oracle(), &[(1, 1.0), (2, 2.0), (3, 3.0)], "");
        check(&oracle(), &[(1, 1.0), (3, 3.0)], "1 acknowledged samples are lost");
    }

    #[test]
    fn other_values_other_times_and_other_orders_are_told() {
        check(&oracle(), &[(2, -0.0)], "sent was");
        check(&oracle(), &[(2, 2.0), (4, 2.0)], "sent was None");
        check(&oracle(), &[(2, 2.0), (1, 1.0)], "2 before 1");
        check(&oracle(), &[(2, 2.0), (2, 2.0)], "2 before 2");
    }

    fn doomed(range_ms: RangeInclusive<i64>) -> Doomed {
        Doomed { label: ("a", "b".to_owned()), range_ms }
    }

    #[test]
    fn what_was_deleted_may_be_held_until_the_answer_and_must_be_gone_from_then_on() {
        let mut oracle = oracle();
        oracle.deletion_begins(&doomed(2..=3), Lsn(5));
        check(&oracle, &[(2, 2.0)], "");
        check(&oracle, &[], "");
        let began = oracle.now();
        assert_eq!(oracle.deletion_ends(Some(Lsn(6))), 1, "the third was never acknowledged");
        check(&oracle, &[(2, 2.0)], "gone and is back");
        check(&oracle, &[(3, 3.0)], "");
        assert_eq!(oracle.check(&held(&[Sample::new(2, 2.0)]), began), Ok(()), "a read that began before");
        oracle.sent(&labels(), Sample::new(2, 2.0), Lsn(6));
        check(&oracle, &[(2, 2.0)], "");
        oracle.acknowledged(&labels(), Sample::new(2, 2.0), Lsn(7));
        check(&oracle, &[], "lost");
    }

    #[test]
    fn what_was_on_its_way_while_something_was_deleted_may_be_held_or_not() {
        for (sent_between, done) in [(false, Some(Lsn(6))), (true, Some(Lsn(6))), (false, None)] {
            let mut oracle = oracle();
            let sample = Sample::new(3, 3.0);
            oracle.deletion_begins(&doomed(0..=9), Lsn(5));
            if sent_between {
                oracle.sent(&labels(), Sample::new(2, 2.0), Lsn(5));
            }
            oracle.deletion_ends(done);
            oracle.acknowledged(&labels(), sample, Lsn(7));
            let second = if done.is_some() && !sent_between { "gone and is back" } else { "" };
            check(&oracle, &[], "");
            check(&oracle, &[(3, 3.0)], "");
            check(&oracle, &[(2, 2.0), (3, 3.0)], second);
        }
    }

    #[test]
    fn a_deletion_in_a_lost_group_is_forgiven_though_a_restart_had_decided() {
        for (is_answered, is_settled) in [(true, false), (true, true), (false, true)] {
            let (mut oracle, sample) = (Oracle::default(), Sample::new(2, 2.0));
            oracle.sent(&labels(), sample, Lsn(2));
            oracle.acknowledged(&labels(), sample, Lsn(3));
            oracle.deletion_begins(&doomed(0..=9), Lsn(5));
            if is_answered {
                oracle.deletion_ends(Some(Lsn(6)));
            }
            if is_settled {
                oracle.settle(&Held::new(), Lsn(6));
            }
            oracle.forgive(Lsn(7)..=Lsn(9));
            check(&oracle, &[(2, 2.0)], "gone and is back");
            oracle.forgive(Lsn(6)..=Lsn(6));
            check(&oracle, &[(2, 2.0)], "");
        }
    }

    #[test]
    fn what_retention_may_have_dropped_before_a_deletion_is_forgiven_with_the_group_that_dropped_it() {
        for (horizon_ms, expect) in [(3, ""), (0, "gone and is back")] {
            let (mut oracle, sample) = (Oracle::default(), Sample::new(2, 2.0));
            oracle.sent(&labels(), sample, Lsn(2));
            oracle.acknowledged(&labels(), sample, Lsn(3));
            oracle.expire_before(horizon_ms);
            oracle.deletion_begins(&doomed(0..=9), Lsn(5));
            oracle.deletion_ends(Some(Lsn(6)));
            oracle.forgive(Lsn(5)..=Lsn(5));
            check(&oracle, &[(2, 2.0)], expect);
        }
    }

    #[test]
    fn what_retention_drops_is_not_missed() {
        let mut oracle = oracle();
        oracle.expire_before(3);
        check(&oracle, &[], "");
    }

    #[test]
    fn what_a_restart_did_not_bring_back_must_not_come_later() {
        let mut oracle = oracle();
        oracle.settle(&held(&[Sample::new(2, 2.0), Sample::new(3, 3.0)]), Lsn(9));
        check(&oracle, &[(2, 2.0), (3, 3.0)], "");
        check(&oracle, &[(2, 2.0)], "lost");
        check(&oracle, &[(1, 1.0), (2, 2.0), (3, 3.0)], "gone and is back");
    }

    #[test]
    fn only_what_may_be_in_a_lost_group_is_forgiven() {
        for (lost, expect) in [(Lsn(1)..=Lsn(2), "lost"), (Lsn(3)..=Lsn(3), ""), (Lsn(6)..=Lsn(9), "lost")] {
            let (mut oracle, sample) = (Oracle::default(), Sample::new(2, 2.0));
            oracle.sent(&labels(), sample, Lsn(2));
            oracle.acknowledged(&labels(), sample, Lsn(5));
            oracle.forgive(lost);
            check(&oracle, &[], expect);
        }
    }
}
