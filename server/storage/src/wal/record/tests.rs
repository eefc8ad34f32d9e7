//! Round trips of groups and snapshots, and hostile bytes as payloads.
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::wal::Journal;
use silverback_model::gorilla::SealedChunk;
use silverback_model::{
    CellId, Epoch, Exemplar, LabelBlock, Metadata, MetricType, Sample, SeriesId, SeriesRef, ShardId,
    encode_label,
};

type Labels = Vec<(String, String)>;
type Created = (SeriesRef, SeriesId, Labels);
type Sealed = (i64, i64, Vec<u8>);
/// An exemplar, its value in bits.
type Kept = (SeriesRef, i64, u64, Labels);
type Held = (SeriesRef, Vec<Sealed>, Vec<u8>);

/// What payloads say, in our own words.
#[derive(Debug, Clone, PartialEq, Default)]
struct Content {
    created: Vec<Created>,
    samples: Vec<LoggedSample>,
    /// Each with the place of its sample.
    starts: Vec<(usize, i64)>,
    removed: Vec<(SeriesRef, SeriesId)>,
    held: Vec<Held>,
    /// Each after so many samples.
    replaced: Vec<(u64, Held)>,
    exemplars: Vec<Kept>,
    metadata: Vec<(MetricType, [String; 3], i64)>,
    claims: Vec<Claim>,
    end: Option<(u64, u64)>,
}

fn read(payload: &[u8]) -> Result<Content, RecordError> {
    let mut content = Content::default();
    for record in records(payload) {
        match record? {
            Record::Series(record) => {
                for series in &record {
                    let NewSeries { series, id, labels } = series?;
                    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
                    content.created.push((series, id, labels.collect()));
                }
            }
            Record::Samples(record) => {
                for sample in &record {
                    content.samples.push(sample?);
                }
            }
            Record::StartTimestamps(record) => {
                for run in &record {
                    let run = run?;
                    let places = run.first..run.first + run.samples;
                    content.starts.extend(places.map(|place| (place as usize, run.start_ms)));
                }
            }
            Record::Removed(record) => {
                for series in &record {
                    content.removed.push(series?);
                }
            }
            Record::Chunks(record) => {
                for held in &record {
                    content.held.push(held_of(held?));
                }
            }
            // Checked in its own tests.
            Record::Histograms(record) => record.iter().try_for_each(|entry| entry.map(|_| ()))?,
            Record::Replaced(record) => {
                for replaced in &record {
                    let Replaced { samples_before, chunks } = replaced?;
                    content.replaced.push((samples_before, held_of(chunks)));
                }
            }
            Record::Exemplars(record) => {
                for one in &record {
                    content.exemplars.push(kept_of(&one?));
                }
            }
            Record::Metadata(record) => {
                for said in &record {
                    let (Metadata { name, kind, help, unit }, seen_ms) = said?;
                    content.metadata.push((kind, [name, help, unit].map(str::to_owned), seen_ms));
                }
            }
            Record::Claims(record) => {
                for claim in &record {
                    content.claims.push(claim?);
                }
            }
            Record::CheckpointEnd { series, chunks } => content.end = Some((series, chunks)),
        }
    }
    Ok(content)
}

fn kept_of(one: &SeriesExemplar<'_>) -> Kept {
    let mut scratch = Vec::new();
    let Exemplar { timestamp_ms, value, labels } = one.exemplar(&mut scratch);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let labels = labels.iter().map(|(name, value)| (text(name), text(value)));
    (one.series, timestamp_ms, value.to_bits(), labels.collect())
}

fn held_of(SeriesChunks { series, sealed, open }: SeriesChunks<'_>) -> Held {
    let sealed = sealed.map(|chunk| (chunk.min_ms, chunk.max_ms, chunk.bytes.to_vec()));
    (series, sealed.collect(), open.to_vec())
}

fn pairs(labels: &Labels) -> impl Iterator<Item = (&[u8], &[u8])> {
    labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn fill_group(group: &mut Group, content: &Content) {
    for (series, id, labels) in &content.created {
        group.created(*series, *id, pairs(labels));
    }
    let mut replaced = content.replaced.iter().peekable();
    let mut starts = content.starts.iter().peekable();
    for (before, &LoggedSample { series, sample, is_late }) in (0..).zip(&content.samples) {
        while let Some((_, held)) = replaced.next_if(|(of, _)| *of == before) {
            replace(group, held);
        }
        if is_late {
            group.stored_late(series, sample);
        } else {
            group.stored(series, sample);
        }
        starts.next_if(|(of, _)| *of as u64 == before).inspect(|(_, start_ms)| group.started(*start_ms));
    }
    replaced.for_each(|(_, held)| replace(group, held));
    for (series, timestamp_ms, bits, labels) in &content.exemplars {
        let labels = canonical(labels);
        group.exemplar(*series, &exemplar(*timestamp_ms, *bits, &labels));
    }
    content.metadata.iter().for_each(|one| group.metadata(&said(one), one.2));
    for &(series, id) in &content.removed {
        group.removed(series, id);
    }
    content.claims.iter().for_each(|claim| group.claimed(*claim));
}

fn replace(group: &mut Group, (series, sealed, open): &Held) {
    let sealed = sealed.iter().map(|(min_ms, max_ms, bytes)| (*min_ms, *max_ms, bytes[..].into()));
    let sealed: Vec<_> =
        sealed.map(|(min_ms, max_ms, bytes)| SealedChunk::restored(min_ms, max_ms, bytes)).collect();
    group.replaced(*series, &sealed, open);
}

fn canonical(labels: &Labels) -> Vec<u8> {
    let mut out = Vec::new();
    labels.iter().for_each(|(name, value)| encode_label(&mut out, name.as_bytes(), value.as_bytes()));
    out
}

fn exemplar(timestamp_ms: i64, bits: u64, labels: &[u8]) -> Exemplar<'_> {
    Exemplar { timestamp_ms, value: f64::from_bits(bits), labels: LabelBlock(labels) }
}

fn said((kind, [name, help, unit], _): &(MetricType, [String; 3], i64)) -> Metadata<'_> {
    Metadata { name, kind: *kind, help, unit }
}

fn fill_snapshot(snapshot: &mut CheckpointFrame, content: &Content) {
    for (series, id, labels) in &content.created {
        snapshot.created(*series, *id, pairs(labels));
    }
    for (series, sealed, open) in &content.held {
        let sealed = sealed.iter().map(|(min_ms, max_ms, bytes)| (*min_ms, *max_ms, &bytes[..]));
        snapshot.chunks(*series, sealed, open);
    }
    for (series, timestamp_ms, bits, labels) in &content.exemplars {
        let labels = canonical(labels);
        snapshot.exemplar(*series, &exemplar(*timestamp_ms, *bits, &labels));
    }
    content.metadata.iter().for_each(|one| snapshot.metadata(&said(one), one.2));
    content.claims.iter().for_each(|claim| snapshot.claimed(*claim));
    if let Some((series, chunks)) = content.end {
        snapshot.end(series, chunks);
    }
}

/// The payload of a group, whose length is as it was announced before.
fn payload(group: &mut Group) -> Vec<u8> {
    let bytes = group.bytes();
    let payload = group.parts().concat();
    assert_eq!(payload.len(), bytes);
    payload
}

fn samples_payload(samples: &[LoggedSample]) -> Vec<u8> {
    let mut group = Group::default();
    fill_group(&mut group, &Content { samples: samples.to_vec(), ..Content::default() });
    payload(&mut group)
}

fn refs() -> impl Strategy<Value = SeriesRef> {
    prop_oneof![any::<u32>(), 0u32..40, Just(u32::MAX)].prop_map(SeriesRef)
}

fn ids() -> impl Strategy<Value = SeriesId> {
    any::<u128>().prop_map(SeriesId)
}

fn values() -> impl Strategy<Value = f64> {
    let bits = (any::<u64>(), 0..64).prop_map(|(bits, zeros)| f64::from_bits(bits >> zeros << zeros));
    let hundredths = any::<u32>().prop_map(|hundredths| f64::from(hundredths) / 100.0);
    prop_oneof![bits, hundredths, any::<u32>().prop_map(f64::from), Just(-0.0), Just(0.0)]
}

/// Runs of one target's series at one time, late ones among them, and strays.
fn samples() -> impl Strategy<Value = Vec<LoggedSample>> {
    let is_late = || prop_oneof![9 => Just(false), 1 => Just(true)];
    let values_and_marks = vec((values(), is_late()), 0..40);
    let run = (refs(), any::<i64>(), values_and_marks).prop_map(|(first, timestamp_ms, samples)| {
        let refs = (first.0..=u32::MAX).map(SeriesRef);
        let logged = |(series, (value, is_late))| LoggedSample {
            series,
            sample: Sample { timestamp_ms, value },
            is_late,
        };
        refs.zip(samples).map(logged).collect()
    });
    let stray = (refs(), any::<i64>(), values(), is_late());
    let stray = stray.prop_map(|(series, timestamp_ms, value, is_late)| {
        vec![LoggedSample { series, sample: Sample { timestamp_ms, value }, is_late }]
    });
    vec(prop_oneof![run, stray], 0..8).prop_map(|runs: Vec<Vec<_>>| runs.concat())
}

/// By the places of samples.
fn starts() -> impl Strategy<Value = Vec<Option<i64>>> {
    vec(prop_oneof![3 => Just(None), 3 => Just(Some(5)), 1 => any::<i64>().prop_map(Some)], 0..400)
}

fn created() -> impl Strategy<Value = Vec<Created>> {
    let text = prop_oneof!["[a-c]{0,2}", "\\PC{0,8}"];
    let labels = vec((text.clone(), text), 0..6);
    vec((refs(), ids(), labels), 0..12)
}

fn held() -> impl Strategy<Value = Vec<Held>> {
    let bytes = || vec(any::<u8>(), 0..20);
    let sealed = (any::<i64>(), any::<i64>(), bytes()).prop_map(|(a, b, bytes)| (a.min(b), a.max(b), bytes));
    vec((refs(), vec(sealed, 0..4), bytes()), 0..8)
}

fn exemplars() -> impl Strategy<Value = Vec<Kept>> {
    let labels = vec(("[a-c]{0,2}", "\\PC{0,8}"), 0..4);
    vec((refs(), any::<i64>(), any::<u64>(), labels), 0..6)
}

fn metadata() -> impl Strategy<Value = Vec<(MetricType, [String; 3], i64)>> {
    let kind = (0..8_u64).prop_map(MetricType::of_number);
    vec((kind, ["[a-c]{0,2}", "\\PC{0,8}", "[a-c]{0,2}"], any::<i64>()), 0..6)
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let kind = prop_oneof![Just(ClaimKind::Owned), Just(ClaimKind::Given)];
    let claim = (0u16..1024, 2..u64::MAX, kind, any::<u16>());
    let claim = claim.prop_map(|(cell, epoch, kind, other)| Claim {
        cell: CellId(cell),
        epoch: Epoch(epoch),
        kind,
        other: ShardId(other),
    });
    vec(claim, 0..4)
}

proptest! {
    #[test]
    fn a_group_is_read_as_it_was_filled(
        created in created(),
        samples in samples(),
        removed in vec((refs(), ids()), 0..5),
        (replaced, places) in (held(), vec(any::<prop::sample::Index>(), 8)),
        (exemplars, metadata) in (exemplars(), metadata()),
        (claims, starts) in (claims(), starts()),
    ) {
        let starts: Vec<_> = (0..samples.len()).zip(starts).filter_map(|(at, start)| Some((at, start?))).collect();
        let mut places: Vec<_> = places.iter().map(|place| place.index(samples.len() + 1) as u64).collect();
        places.sort_unstable();
        let replaced = places.into_iter().zip(replaced).collect();
        let content = Content { created, samples, starts, removed, replaced, exemplars, metadata, claims, ..Content::default() };
        let mut group = Group::default();
        for _ in 0..2 {
            fill_group(&mut group, &content);
            prop_assert_eq!(group.samples(), content.samples.len());
            prop_assert_eq!(group.is_empty(), content == Content::default());
            prop_assert_eq!(read(&payload(&mut group)), Ok(content.clone()));
            group.clear();
        }
        prop_assert_eq!((group.is_empty(), group.bytes()), (true, 0));
        prop_assert!(payload(&mut group).is_empty());
    }

    #[test]
    fn a_group_that_was_looked_at_can_still_grow(first in samples(), then in samples()) {
        let mut group = Group::default();
        for samples in [&first, &then] {
            fill_group(&mut group, &Content { samples: samples.clone(), ..Content::default() });
            payload(&mut group);
        }
        prop_assert_eq!(payload(&mut group), samples_payload(&[first, then].concat()));
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_filled(
        created in created(),
        held in held(),
        (exemplars, metadata) in (exemplars(), metadata()),
        claims in claims(),
        end: Option<(u64, u64)>,
    ) {
        let content = Content { created, held, exemplars, metadata, claims, end, ..Content::default() };
        let mut snapshot = CheckpointFrame::default();
        for _ in 0..2 {
            fill_snapshot(&mut snapshot, &content);
            prop_assert_eq!(snapshot.bytes() == 0, content == Content::default());
            let bytes = snapshot.bytes();
            let payload = snapshot.parts().concat();
            prop_assert_eq!(payload.len(), bytes);
            prop_assert_eq!(read(&payload), Ok(content.clone()));
            snapshot.clear();
        }
        prop_assert_eq!(snapshot.bytes(), 0);
    }
}

/// A record of this type and content is refused, for this reason.
fn check_refused(kind: u8, content: &[u8], expect: RecordError) {
    let payload = [&[kind], &length(content.len())[..], content].concat();
    assert_eq!(read(&payload), Err(expect));
}

#[test]
fn an_unknown_type_is_refused_before_its_length_is_read() {
    assert_eq!(read(&[0]), Err(RecordError::UnknownType(0)));
    assert_eq!(read(&[13, 0, 0, 0, 0]), Err(RecordError::UnknownType(13)));
    assert_eq!(read(&[2, 0xff, 0xff, 0xff, 0xff]), Err(RecordError::Truncated));
}

#[test]
fn samples_that_do_not_fill_their_columns_are_refused() {
    let content = |count: u8, refs: &[u8], times: &[u8], rest: &[u8]| {
        let lengths = [count.into(), refs.len(), times.len()].map(length);
        [lengths.as_flattened(), refs, times, rest].concat()
    };
    let check = |content: Vec<u8>, expect| check_refused(2, &content, expect);
    check(content(2, &[0, 1], &[0, 2], &[0]), RecordError::Truncated);
    check(content(1, &[0, 2], &[0, 1], &[0]), RecordError::TrailingBytes);
    check(content(1, &[0, 1], &[0, 2], &[0]), RecordError::TrailingBytes);
    check(content(1, &[0, 0], &[0, 1], &[0]), RecordError::EmptyRun);
    check(content(1, &[1, 1], &[0, 1], &[0]), RecordError::RefOutOfRange);
    check(content(1, &[0, 1], &[0, 1], &[]), RecordError::Truncated);
    check(content(1, &[0, 1], &[0, 1], &[1]), RecordError::Truncated);
    check(content(1, &[0, 1], &[0, 1], &[0, 0]), RecordError::TrailingBytes);
    check(content(1, &[0, 1], &[0, 1], &[0x10]), RecordError::TrailingBytes);
}

#[test]
fn marks_of_samples_that_are_not_there_are_refused() {
    let content = |marks: &[u8]| [&[1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 1], marks, &[0]].concat();
    let is_late = |marks: &[u8]| {
        let content = content(marks);
        let payload = [&head(RecordType::MarkedSamples, content.len())[..], &content].concat();
        read(&payload).map(|content| content.samples.iter().map(|sample| sample.is_late).collect::<Vec<_>>())
    };
    assert_eq!(is_late(&[0]), Ok(vec![false]));
    assert_eq!(is_late(&[1]), Ok(vec![true]));
    assert_eq!(is_late(&[2]), Err(RecordError::TrailingBytes));
    assert_eq!(is_late(&[]), Err(RecordError::Truncated));
}

#[test]
fn a_run_of_refs_does_not_go_on_after_the_last() {
    let last = [0xfe, 0xff, 0xff, 0xff, 0x1f, 2];
    let content = [&[2, 0, 0, 0, 6, 0, 0, 0, 2, 0, 0, 0][..], &last, &[0, 2, 0]].concat();
    check_refused(2, &content, RecordError::RefOutOfRange);
}

#[test]
fn labels_that_are_no_pieces_of_the_text_are_refused() {
    let content = |ends: &[usize], text: &[u8], symbol: u8| {
        let counts = [ends.len(), text.len(), 1].map(length);
        let ends: Vec<_> = ends.iter().map(|&end| length(end)).collect();
        [counts.as_flattened(), ends.as_flattened(), text, &[0; 17], &[1, 0, symbol]].concat()
    };
    let check = |ends: &[usize], text: &str, symbol, expect| {
        check_refused(1, &content(ends, text.as_bytes(), symbol), expect);
    };
    check(&[1, 2], "ab", 2, RecordError::NoSuchSymbol(2));
    check(&[1, 3], "ab", 1, RecordError::BadSymbol(1));
    check(&[2, 1], "ab", 1, RecordError::BadSymbol(1));
    check(&[0, 1], "é", 1, RecordError::BadSymbol(1));
    check_refused(1, &content(&[1], b"\xff", 0), RecordError::NotUtf8);
}

#[test]
fn a_chunk_that_ends_after_all_time_is_refused() {
    let mut content = vec![1, 0, 0, 0, 0, 1, 2];
    content.extend([0xff; 9]);
    content.push(1);
    check_refused(4, &content, RecordError::TimeOutOfRange);
}

#[test]
fn a_claim_of_no_cell_of_no_kind_or_of_no_epoch_is_refused() {
    let check = |cell: u16, kind: u8, epoch: u64, expect| {
        let claim = [&cell.to_le_bytes()[..], &[kind, 1, 0], &epoch.to_le_bytes()].concat();
        check_refused(6, &[&[1, 0, 0, 0], &claim[..]].concat(), expect);
    };
    check(1024, 0, 5, RecordError::BadClaim);
    check(5, 2, 5, RecordError::BadClaim);
    check(5, 1, 1, RecordError::BadClaim);
    check(5, 1, u64::MAX, RecordError::BadClaim);
    check_refused(6, &[1, 0, 0, 0, 5], RecordError::Truncated);
}

#[test]
fn a_checkpoint_s_end_has_its_own_length() {
    check_refused(5, &[0; 15], RecordError::Truncated);
    check_refused(5, &[0; 17], RecordError::TrailingBytes);
}

proptest! {
    #[test]
    fn hostile_records_are_read_without_a_panic(
        kind in 0u8..10,
        counts in any::<[u8; 3]>(),
        content: Vec<u8>,
    ) {
        let counts = counts.map(|count| length(count.into()));
        let content = [counts.as_flattened(), &content].concat();
        let payload = [&[kind], &length(content.len())[..], &content].concat();
        drop(read(&payload));
    }

    #[test]
    fn changed_bytes_are_read_without_a_panic(
        created in created(),
        samples in samples(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut group = Group::default();
        fill_group(&mut group, &Content { created, samples, ..Content::default() });
        let mut bytes = payload(&mut group);
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        drop(read(&bytes));
    }

    #[test]
    fn no_cut_payload_passes_for_a_whole_one(samples in samples(), cut: prop::sample::Index) {
        let payload = samples_payload(&samples);
        let cut = cut.index(payload.len() + 1);
        prop_assert_eq!(read(&payload[..cut]).is_ok(), cut == 0 || cut == payload.len());
    }
}
