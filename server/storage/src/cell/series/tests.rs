//! A store with one series: what it accepts, what it keeps, and what it counts.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use silverback_model::limits::{CHUNK_RANGE_MS, CHUNK_SAMPLES};

/// The window of a store that takes no late samples.
const NO_LATE: i64 = 0;

fn store_with(samples: impl IntoIterator<Item = (i64, f64)>) -> (SeriesStore, SeriesRef) {
    let mut store = SeriesStore::default();
    let mut samples = samples.into_iter().map(|(t, v)| Sample::new(t, v));
    let labels = vec![LabelRef(1)].into_boxed_slice();
    let at = store.create(SeriesId(7), labels, samples.next().unwrap()).unwrap();
    samples.for_each(|s| assert_eq!(store.append(at, s, NO_LATE), Ok(Appended::Stored)));
    (store, at)
}

/// The chunks that overlap a range, the open one among them.
fn chunks(store: &SeriesStore, at: SeriesRef, min_ms: i64, max_ms: i64) -> Vec<SealedChunk> {
    let mut chunks = store.sealed_between(at, min_ms, max_ms).to_vec();
    if let Some((min_ms, max_ms)) = store.open_between(at, min_ms, max_ms) {
        let mut bytes = Vec::new();
        store.put_open_chunk(at, &mut bytes);
        chunks.push(SealedChunk::restored(min_ms, max_ms, bytes.into()));
        assert_eq!(chunks.last(), Some(&store.open_chunk(at)));
    }
    assert_eq!(store.overlaps(at, min_ms, max_ms), !chunks.is_empty(), "{min_ms} to {max_ms}");
    chunks
}

fn read(store: &SeriesStore, at: SeriesRef, min_ms: i64, max_ms: i64) -> Vec<(i64, f64)> {
    let chunks = chunks(store, at, min_ms, max_ms);
    let samples = |c: &SealedChunk| {
        XorIter::new(c.bytes()).map(|s| s.unwrap()).map(|s| (s.timestamp_ms, s.value)).collect::<Vec<_>>()
    };
    chunks.iter().flat_map(samples).collect()
}

fn scrapes(count: i64) -> Vec<(i64, f64)> {
    (0..count).map(|i| (i * 15_000, i as f64)).collect()
}

#[test]
fn what_was_appended_is_read_back_over_cuts() {
    let all = scrapes(1000);
    let (store, at) = store_with(all.clone());
    assert_eq!(read(&store, at, 0, i64::MAX), all);
    assert!(store.size().sealed_chunks >= 1000 / CHUNK_SAMPLES);
}

#[test]
fn only_chunks_that_overlap_are_read() {
    let (store, at) = store_with(scrapes(1000));
    let some = read(&store, at, 3_000_000, 3_100_000);
    assert!(some.len() < 2 * CHUNK_SAMPLES + 2, "{}", some.len());
    assert!(some.iter().any(|s| s.0 == 3_000_000));
    assert!(read(&store, at, 1000 * 15_000, i64::MAX).is_empty());
    assert!(read(&store, at, i64::MIN, -1).is_empty());
}

#[test]
fn a_range_between_two_chunks_overlaps_none() {
    let gap = CHUNK_RANGE_MS;
    let (store, at) = store_with([(0, 1.0), (gap, 2.0), (3 * gap, 3.0)]);
    for (min_ms, max_ms, expect) in [
        (i64::MIN, -1, 0),
        (0, 0, 1),
        (1, gap - 1, 0),
        (1, gap, 1),
        (gap + 1, 3 * gap - 1, 0),
        (gap, 3 * gap, 2),
        (3 * gap + 1, i64::MAX, 0),
        (5, 1, 0),
    ] {
        assert_eq!(chunks(&store, at, min_ms, max_ms).len(), expect, "{min_ms} to {max_ms}");
    }
}

#[test]
fn a_chunk_never_crosses_two_hours() {
    let (store, at) =
        store_with([(CHUNK_RANGE_MS - 10, 1.0), (CHUNK_RANGE_MS, 2.0), (CHUNK_RANGE_MS + 5, 3.0)]);
    let chunks = chunks(&store, at, i64::MIN, i64::MAX);
    assert_eq!(chunks.len(), 2);
    assert_eq!(chunks[1].min_timestamp_ms(), CHUNK_RANGE_MS);
}

#[test]
fn an_exact_duplicate_is_accepted_wherever_it_lies() {
    let (mut store, at) = store_with(scrapes(500));
    for (t, v) in [(499, 499.0), (450, 450.0), (3, 3.0), (0, 0.0)] {
        assert_eq!(store.append(at, Sample::new(t * 15_000, v), NO_LATE), Ok(Appended::Already));
        assert_eq!(store.append(at, Sample::new(t * 15_000, -1.0), NO_LATE), Err(AppendError::Duplicate));
    }
    assert_eq!(store.append(at, Sample::new(15_001, 1.0), NO_LATE), Err(AppendError::OutOfOrder));
    assert_eq!(store.append(at, Sample::new(499 * 15_000 - 1, 1.0), NO_LATE), Err(AppendError::OutOfOrder));
    assert_eq!(read(&store, at, 0, i64::MAX).len(), 500);
}

#[test]
fn samples_that_are_sent_again_decode_each_chunk_once() {
    let (mut store, at) = store_with(scrapes(1000));
    let chunks = store.sealed(at).len() + 1;
    assert!(chunks > 5);
    for (t, v) in scrapes(1000) {
        assert_eq!(store.append(at, Sample::new(t, v), NO_LATE), Ok(Appended::Already));
    }
    assert_eq!(store.lookup.decoded, chunks);
    // What comes in order between them takes nothing from what is known of the older ones.
    for i in 0..10 {
        assert_eq!(store.append(at, Sample::new((1000 + i) * 15_000, 0.0), NO_LATE), Ok(Appended::Stored));
        assert_eq!(store.append(at, Sample::new(990 * 15_000, 990.0), NO_LATE), Ok(Appended::Already));
    }
    assert_eq!(store.lookup.decoded, chunks);
}

/// Two hundred series of four hours, and what each has.
fn fleet() -> (SeriesStore, Vec<SeriesRef>) {
    let mut store = SeriesStore::default();
    let series = (0..200_u32).map(|i| {
        let first = Sample::new(0, f64::from(i));
        store.create(SeriesId(u128::from(i) + 1), vec![LabelRef(1)].into(), first).unwrap()
    });
    let series: Vec<_> = series.collect();
    for t in 1..960 {
        for (i, at) in (0..).zip(&series) {
            store.append(*at, fleet_sample(i, t), NO_LATE).unwrap();
        }
    }
    (store, series)
}

fn fleet_sample(series: u32, scrape: u32) -> Sample {
    Sample::new(i64::from(scrape) * 15_000, f64::from(series) + f64::from(scrape * scrape % 101) / 8.0)
}

#[test]
fn scrapes_that_are_sent_again_read_a_sample_of_a_chunk_each() {
    let (mut store, series) = fleet();
    store.begin_piece();
    for t in 1..960 {
        for (i, at) in (0..).zip(&series) {
            assert_eq!(store.append(*at, fleet_sample(i, t), NO_LATE), Ok(Appended::Already), "{i} {t}");
        }
    }
    let looks = 959 * series.len();
    let work_max = looks * (CHUNK_SAMPLES / 2) + looks * 11 / 10;
    assert!(store.extra_work() <= work_max, "{} samples' work to find {looks}", store.extra_work());
    let took = store.size().series_bytes;
    store.release_unused();
    store.release_unused();
    assert!(store.size().series_bytes < took, "what that took comes back");
}

#[test]
fn scrapes_of_open_chunks_that_are_sent_again_cost_little_more_than_their_samples() {
    let mut store = SeriesStore::default();
    let make =
        |i: u32| store.create(SeriesId(u128::from(i) + 1), vec![LabelRef(1)].into(), fleet_sample(i, 0));
    let series: Vec<_> = (0..50).map(make).map(Option::unwrap).collect();
    let send = |store: &mut SeriesStore, scrapes: std::ops::Range<u32>, expect| {
        for t in scrapes {
            for (i, at) in (0..).zip(&series) {
                assert_eq!(store.append(*at, fleet_sample(i, t), NO_LATE), Ok(expect), "{i} {t}");
            }
        }
    };
    send(&mut store, 1..100, Appended::Stored);
    store.begin_piece();
    send(&mut store, 0..50, Appended::Already);
    send(&mut store, 100..110, Appended::Stored);
    send(&mut store, 50..110, Appended::Already);
    let looks = 110 * series.len();
    assert!(store.extra_work() <= 12 * looks, "{} samples' work to find {looks}", store.extra_work());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn what_an_open_chunk_has_is_found_where_it_was_left(
        samples in proptest::collection::vec((1_i64..100_000, any::<f64>(), 0_usize..4), 2..110),
    ) {
        let mut store = SeriesStore::default();
        let mut time_ms = 0;
        let mut sent = Vec::new();
        let mut again = 0;
        let mut ats = None;
        for (step_ms, value, looks) in samples {
            time_ms += step_ms;
            let sample = Sample::new(time_ms, value);
            sent.push(sample);
            // Two series in turn, so that neither is looked into whole.
            let of_both = ats.get_or_insert_with(|| {
                [1, 2].map(|id| store.create(SeriesId(id), vec![LabelRef(1)].into(), sample).unwrap())
            });
            for at in &*of_both {
                store.append(*at, sample, NO_LATE).unwrap();
            }
            for _ in 0..looks {
                let Some(older) = sent.get(again).copied() else { break };
                let other = Sample::new(older.timestamp_ms, f64::from_bits(older.value.to_bits() ^ 1));
                for (sample, expect) in [(older, Ok(Appended::Already)), (other, Err(AppendError::Duplicate))] {
                    for at in &*of_both {
                        prop_assert_eq!(store.append(*at, sample, NO_LATE), expect);
                    }
                }
                again += 1 + looks / 3;
            }
        }
    }

    #[test]
    fn what_is_sent_again_is_found_whatever_became_of_its_series(
        steps in proptest::collection::vec((0_usize..3, 0_i64..400, 0_u8..40), 1..1500),
    ) {
        let mut store = SeriesStore::default();
        let mut next_id = 1;
        let mut create = |store: &mut SeriesStore| {
            next_id += 1;
            let at = store.create(SeriesId(next_id), vec![LabelRef(1)].into(), Sample::new(0, 0.5)).unwrap();
            (at, BTreeMap::from([(0, 0.5)]))
        };
        let mut all = [create(&mut store), create(&mut store), create(&mut store)];
        for (round, (which, back, what)) in (0..).zip(steps) {
            let (at, has) = &mut all[which];
            let newest_ms = *has.last_key_value().unwrap().0;
            let value = f64::from(round % 17);
            let asked_ms = newest_ms - back * 1_000;
            match what {
                0 => {
                    store.remove(*at);
                    store.free(*at);
                    all[which] = create(&mut store);
                }
                1 => drop(store.fold_late(*at)),
                2 => {
                    let range = asked_ms..=asked_ms + 3_000;
                    if let Without::Rest(rest) = store.without(*at, &range) {
                        store.replace(*at, rest.sealed, rest.open.bytes()).unwrap();
                        has.retain(|time, _| !range.contains(time));
                    }
                }
                3 => {
                    store.drop_before(*at, asked_ms);
                    let oldest_ms = store.sealed(*at).first().map(SealedChunk::min_timestamp_ms);
                    let oldest_ms = oldest_ms.unwrap_or_else(|| store.open_times(*at).0);
                    has.retain(|time, _| *time >= oldest_ms);
                }
                4..20 => {
                    for step in 1..20 {
                        let time_ms = newest_ms + 1_000 * step;
                        store.append(*at, Sample::new(time_ms, value), i64::MAX).unwrap();
                        has.insert(time_ms, value);
                    }
                }
                _again_or_late => {
                    let offset_ms = if what % 4 == 0 { 500 } else { 0 };
                    let sent = Sample::new(asked_ms - offset_ms, if what % 8 == 1 { -1.0 } else { value });
                    let stored = has.get(&sent.timestamp_ms).copied();
                    let sent = Sample::new(sent.timestamp_ms, stored.filter(|_| what % 2 == 0).unwrap_or(sent.value));
                    let expect = match stored {
                        Some(stored) if stored == sent.value => Ok(Appended::Already),
                        Some(_) => Err(AppendError::Duplicate),
                        None => Ok(Appended::StoredLate),
                    };
                    prop_assert_eq!(store.append(*at, sent, i64::MAX), expect, "{:?}", sent);
                    has.entry(sent.timestamp_ms).or_insert(sent.value);
                }
            }
            if all[which].1.is_empty() {
                return Ok(());
            }
        }
    }
}

#[test]
fn times_between_chunks_decode_none() {
    let gap = CHUNK_RANGE_MS;
    let (mut store, at) = store_with([(gap, 1.0), (2 * gap, 2.0), (4 * gap, 3.0)]);
    for t in [0, gap + 1, 2 * gap - 1, 3 * gap] {
        assert_eq!(store.append(at, Sample::new(t, 1.0), NO_LATE), Err(AppendError::OutOfOrder), "{t}");
    }
    assert_eq!(store.lookup.decoded, 0);
}

#[test]
fn what_is_gone_is_not_found_among_what_was_looked_into() {
    let stored = Sample::new(15_000, 1.0);
    let looked_into = || {
        let (mut store, at) = store_with(scrapes(1000));
        assert_eq!(store.append(at, stored, NO_LATE), Ok(Appended::Already));
        (store, at)
    };
    let (mut store, at) = looked_into();
    assert_eq!(store.drop_before(at, 600 * 15_000), Retained::Kept);
    assert_eq!(store.append(at, stored, NO_LATE), Err(AppendError::OutOfOrder), "retention");

    let (mut store, at) = looked_into();
    let Without::Rest(rest) = store.without(at, &(15_000..=15_000)) else { panic!("some are left") };
    store.replace(at, rest.sealed, rest.open.bytes()).unwrap();
    assert_eq!(store.append(at, stored, NO_LATE), Err(AppendError::OutOfOrder), "a deletion");

    let (mut store, at) = looked_into();
    store.remove(at);
    store.free(at);
    let another = store.create(SeriesId(8), Box::default(), Sample::new(1 << 40, 1.0));
    assert_eq!(another, Some(at));
    assert_eq!(store.append(at, stored, NO_LATE), Err(AppendError::OutOfOrder), "another series");
}

#[test]
fn staleness_markers_are_kept_bit_for_bit() {
    let stale = f64::from_bits(silverback_model::STALE_NAN_BITS);
    let (store, at) = store_with([(1, 1.0), (2, stale), (3, f64::NAN)]);
    let bits: Vec<u64> = read(&store, at, 0, 9).iter().map(|s| s.1.to_bits()).collect();
    assert_eq!(bits, [1f64.to_bits(), stale.to_bits(), f64::NAN.to_bits()]);
}

#[test]
fn what_is_left_without_a_range_takes_the_series_place_and_goes_on() {
    let (mut store, at) = store_with(scrapes(1000));
    let Without::Rest(rest) = store.without(at, &(100 * 15_000..=i64::MAX)) else { panic!("some are left") };
    store.replace(at, rest.sealed, rest.open.bytes()).unwrap();
    assert_eq!((rest.gone, store.samples(at), store.newest_ms(at)), (900, 100, 99 * 15_000));
    assert_eq!(read(&store, at, 0, i64::MAX), scrapes(100));
    assert_eq!(
        store.append(at, Sample::new(100 * 15_000, 7.0), NO_LATE),
        Ok(Appended::Stored),
        "as a new one"
    );
    assert_eq!(store.samples(at), 101);
    let (fresh, _) = store_with(scrapes(101));
    let sizes = [&store, &fresh].map(|store| (store.sealed_chunks, store.sealed_bytes));
    assert_eq!(sizes[0], sizes[1]);
    assert_eq!(store.replace(at, Vec::new(), &[0, 1, 0]), Err(ChunkError::Truncated));
    assert_eq!(store.samples(at), 101, "what can't be read changes nothing");
    store.remove(at);
    assert_eq!((store.sealed_chunks, store.sealed_bytes), (0, 0));
}

#[test]
fn retention_drops_whole_chunks_and_then_the_series() {
    let (mut store, at) = store_with(scrapes(1000));
    let before = store.size();
    assert_eq!(store.drop_before(at, 600 * 15_000), Retained::Kept);
    let oldest = read(&store, at, 0, i64::MAX)[0].0;
    assert!(oldest <= 600 * 15_000 && oldest > 400 * 15_000);
    assert!(store.size().chunk_bytes < before.chunk_bytes);
    assert_eq!(store.drop_before(at, 1000 * 15_000), Retained::Expired);
    assert_eq!(store.remove(at).len(), 1);
    store.free(at);
    let after = store.size();
    assert_eq!((after.series, after.sealed_chunks), (0, 0));
    assert_eq!((store.sealed_bytes, store.label_bytes), (0, 0));
}
