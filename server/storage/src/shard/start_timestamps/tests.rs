//! Which start timestamps come to the log, by which samples, and that a replay has the same samples with them.

use futures::executor::block_on;

use crate::message::{PartBuffer, PartHistogram, PartSamples, WriteBody};
use crate::shard::append::{PartOutcome, TimeBounds};
use crate::shard::delete::tests::{KeptLog, check_replays, held};
use crate::shard::position::PartPosition;
use crate::shard::tests::{EVER, encode, labels, shard};
use crate::shard::{Shard, restore};
use crate::wal::Log;
use crate::wal::record::{Group, HistogramEntry, Record, records};
use crate::wal::replay::Restore;
use crate::wal::{Journal, NoJournal};
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::{RefusedReason, Sample, SeriesRef};

/// A series of this name with samples by their times, each with a start timestamp or 0.
type Sent<'a> = (&'a str, &'a [(i64, i64)]);

fn part(series: &[Sent<'_>]) -> (WriteBody, PartBuffer) {
    let samples = |own: &[(i64, i64)]| own.iter().map(|(at, _)| Sample::new(*at, *at as f64)).collect();
    let named: Vec<_> =
        series.iter().map(|(name, own)| (labels(&[("__name__", name)]), samples(own))).collect();
    let (body, entries, samples) = encode(&named);
    let mut part = PartBuffer::default();
    part.series = entries;
    let starts = series.iter().flat_map(|(_, own)| own.iter().map(|(_, start_ms)| *start_ms));
    for (sample, start_ms) in samples.into_iter().zip(starts) {
        part.samples.push(sample);
        part.push_start(start_ms);
    }
    (body, part)
}

fn take(
    shard: &mut Shard,
    series: &[Sent<'_>],
    bounds: TimeBounds,
    journal: &mut impl Journal,
) -> PartOutcome {
    let (body, part) = part(series);
    take_part(shard, &body, part.part_samples(), bounds, journal)
}

fn take_part(
    shard: &mut Shard,
    body: &WriteBody,
    samples: PartSamples<'_>,
    bounds: TimeBounds,
    journal: &mut impl Journal,
) -> PartOutcome {
    let (mut outcome, mut position) = (PartOutcome::default(), PartPosition::default());
    while !position.is_end(samples.series.len()) {
        outcome.add(shard.append_piece(body, samples, &mut position, bounds, journal));
    }
    outcome
}

/// The samples of a group by their times, each with the start timestamp that the log has for it, or 0.
fn logged(group: &mut Group) -> Vec<(i64, i64)> {
    let payload = group.parts().concat();
    let mut samples = Vec::new();
    for record in records(&payload) {
        match record.unwrap() {
            Record::Samples(record) => {
                samples.extend(record.iter().map(|sample| (sample.unwrap().sample.timestamp_ms, 0)));
            }
            Record::StartTimestamps(record) => {
                for run in record.iter().map(Result::unwrap) {
                    let (first, count) = (run.first as usize, run.samples as usize);
                    samples[first..first + count]
                        .iter_mut()
                        .for_each(|(_, start_ms)| *start_ms = run.start_ms);
                }
            }
            _other => {}
        }
    }
    samples
}

/// Of stored samples: start timestamps that went to the log, and that were ignored.
fn counts(shard: &Shard) -> (u64, u64) {
    let stats = shard.stats();
    (stats.start_timestamps, stats.start_timestamps_ignored)
}

#[test]
fn each_stored_sample_s_start_timestamp_stands_in_the_log_with_it() {
    let (shard, mut group) = (shard(), Group::default());
    let shard = &mut *shard.borrow_mut();
    let sent: [Sent<'_>; 3] =
        [("a", &[(10, 5), (20, 5), (30, 0)]), ("b", &[(10, 0)]), ("c", &[(10, 5), (20, 6)])];
    take(shard, &sent, EVER, &mut group);
    assert_eq!(logged(&mut group), [(10, 5), (20, 5), (30, 0), (10, 0), (10, 5), (20, 6)]);
    assert_eq!(counts(shard), (4, 0));
    // Another part of the same group, whose series are known.
    take(shard, &[("a", &[(40, 35)]), ("b", &[(20, 0), (30, 1)])], EVER, &mut group);
    assert_eq!(logged(&mut group)[6..], [(40, 35), (20, 0), (30, 1)]);
    assert_eq!(counts(shard), (6, 0));
}

#[test]
fn what_is_not_stored_has_none_and_what_is_not_before_its_sample_is_ignored_alone() {
    let (shard, mut group) = (shard(), Group::default());
    let shard = &mut *shard.borrow_mut();
    let bounds = TimeBounds { oldest_ms: 5, newest_ms: 1000, late_window_ms: 15 };
    // Too old, stored, sent again, late, too late, at its sample's time, after it, before 1970.
    let own = [(4, 1), (20, 1), (20, 2), (10, 3), (4, 4), (30, 30), (40, 41), (50, -7), (2000, 9)];
    let outcome = take(shard, &[("a", &own)], bounds, &mut group);
    let refused = outcome.refusals.unwrap().counts;
    assert_eq!((outcome.written, refused.total()), (6, 3));
    assert_eq!(refused.get(RefusedReason::TooOld), 2);
    assert_eq!(logged(&mut group), [(20, 1), (10, 3), (30, 0), (40, 0), (50, -7)]);
    assert_eq!(counts(shard), (3, 2));
}

#[test]
fn pieces_and_their_absence_change_nothing() {
    let many: Vec<(String, [(i64, i64); 2])> =
        (0..10_000).map(|i| (format!("s{i:05}"), [(100, i % 3), (200, i % 2)])).collect();
    let sent: Vec<Sent<'_>> = many.iter().map(|(name, own)| (&**name, &own[..])).collect();
    let (shard, mut group) = (shard(), Group::default());
    let shard = &mut *shard.borrow_mut();
    assert_eq!(take(shard, &sent, EVER, &mut group).written, 20_000);
    let expect: Vec<_> = sent.iter().flat_map(|(_, own)| own.iter().copied()).collect();
    assert!(logged(&mut group) == expect);
    let told = expect.iter().filter(|(_, start_ms)| *start_ms != 0).count() as u64;
    assert_eq!(counts(shard), (told, 0));
}

#[test]
fn late_samples_that_end_a_piece_go_on_with_their_own() {
    let (shard, mut group) = (shard(), Group::default());
    let shard = &mut *shard.borrow_mut();
    let bounds = TimeBounds { late_window_ms: i64::MAX, ..EVER };
    take(shard, &[("a", &[(10_000_000, 0)])], bounds, &mut NoJournal);
    let own: Vec<_> = (1..3000).rev().map(|i| (i * 1000, i)).collect();
    let (body, part) = part(&[("a", &own)]);
    let (mut position, mut pieces) = (PartPosition::default(), 0);
    while !position.is_end(1) {
        shard.append_piece(&body, part.part_samples(), &mut position, bounds, &mut group);
        pieces += 1;
    }
    assert!(pieces > 20, "{pieces} pieces");
    assert!(logged(&mut group) == own);
}

#[test]
fn a_replay_has_the_same_samples_and_a_place_beyond_them_is_damage() {
    let (shard, log) = (shard(), KeptLog::default());
    for step in 1..300 {
        let at = step * 1000;
        take(
            &mut shard.borrow_mut(),
            &[("a", &[(at, 7)]), ("b", &[(at, 0)]), ("c", &[(at, at - 1)])],
            EVER,
            &mut *log.journal(),
        );
        if step % 50 == 0 {
            block_on(log.flush()).unwrap();
        }
    }
    assert_eq!(held(&shard).iter().map(|(_, samples)| samples.len()).sum::<usize>(), 3 * 299);
    check_replays(&shard, &log);

    let mut group = Group::default();
    group.stored(SeriesRef(0), Sample::new(1, 1.0));
    group.started(-5);
    let whole = group.parts().concat();
    let replayed = |payload: &[u8]| {
        let mut restorer = restore::Restorer::new(self::shard(), restore::Refs::Kept, |_| true);
        let mut read = records(payload).map(|record| match record {
            Ok(record) => restorer.record(record).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        });
        read.find_map(Result::err)
    };
    assert_eq!(replayed(&whole), None);
    // The first run's gap is the first number after the record's head and count.
    let at = whole.len() - 3;
    let mut beyond = whole.clone();
    beyond[at] = 1;
    let told = "a start timestamp is that of sample 1, which the group doesn't have";
    assert_eq!(replayed(&beyond).as_deref(), Some(told));
    // Without the samples that it is about.
    let alone = &whole[whole.len() - 12..];
    assert_eq!(replayed(alone).as_deref(), Some(&*told.replace("sample 1", "sample 0")));
}

#[test]
fn histograms_have_theirs_in_their_messages() {
    let (shard, mut group) = (shard(), Group::default());
    let shard = &mut *shard.borrow_mut();
    let bounds = TimeBounds { late_window_ms: 100, ..EVER };
    for (timestamp_ms, start_timestamp_ms) in [(100, 50), (200, 0), (300, 300), (250, 60), (300, 40)] {
        let (mut body, entries, _) = encode(&[(labels(&[("__name__", "h")]), vec![Sample::new(0, 0.0)])]);
        let mut message = Vec::new();
        Histogram::default().put_message(HistogramTimes { timestamp_ms, start_timestamp_ms }, &mut message);
        let message_at = crate::message::MessageSpan::of_scratch(0, message.len());
        body.scratch = message;
        let entry = PartHistogram { id: entries[0].id, labels: entries[0].labels, message: message_at };
        assert_eq!(shard.append_histograms(&body, &[entry], bounds, &mut group).1.histograms, 1);
    }
    assert_eq!(counts(shard), (2, 1), "one is stored already");
    let payload = group.parts().concat();
    let mut told = Vec::new();
    for record in records(&payload) {
        let Record::Histograms(record) = record.unwrap() else { continue };
        for entry in &record {
            let HistogramEntry::Stored { timestamp_ms, message, .. } = entry.unwrap() else {
                panic!("chunks")
            };
            told.push((timestamp_ms, Histogram::default().read_message(message).unwrap().start_timestamp_ms));
        }
    }
    assert_eq!(told, [(100, 50), (200, 0), (300, 0), (250, 60)]);
}
