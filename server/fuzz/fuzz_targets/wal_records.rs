//! Hostile bytes as a payload: reading never panics, ends, and gives nothing after an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use silverback_storage::wal::record::{
    HistogramEntry, NewSeries, Record, RecordError, Replaced, SeriesChunks, SeriesExemplar, records,
};

fuzz_target!(|payload: &[u8]| {
    for record in records(payload) {
        let Ok(record) = record else { return };
        match record {
            Record::Series(record) => drain(record.iter(), |NewSeries { labels, .. }| labels.count()),
            Record::Samples(record) => drain(record.iter(), |_| 0),
            Record::StartTimestamps(record) => drain(record.iter(), |run| run.samples as usize),
            Record::Removed(record) => drain(record.iter(), |_| 0),
            Record::Chunks(record) => drain(record.iter(), |chunks| bytes_of(chunks, payload)),
            Record::Replaced(record) => {
                drain(record.iter(), |Replaced { chunks, .. }| bytes_of(chunks, payload));
            }
            Record::Histograms(record) => drain(record.iter(), |entry| match entry {
                HistogramEntry::Stored { message, .. } => message.len(),
                HistogramEntry::Chunks(chunks) => chunks.sealed.map(|chunk| chunk.bytes.len()).sum(),
            }),
            Record::Exemplars(record) => drain(record.iter(), labels_of),
            Record::Metadata(record) => drain(record.iter(), |(said, _)| said.name.len() + said.help.len()),
            Record::Claims(record) => drain(record.iter(), |_| 0),
            Record::CheckpointEnd { .. } => {}
        }
    }
});

fn bytes_of(SeriesChunks { sealed, open, .. }: SeriesChunks<'_>, payload: &[u8]) -> usize {
    let bytes: usize = sealed
        .map(|chunk| {
            assert!(chunk.min_ms <= chunk.max_ms);
            chunk.bytes.len()
        })
        .sum();
    assert!(bytes + open.len() <= payload.len());
    bytes
}

/// An exemplar's labels, which are read from their canonical form again.
fn labels_of(exemplar: SeriesExemplar<'_>) -> usize {
    exemplar.exemplar(&mut Vec::new()).labels.iter().count()
}

fn drain<T>(mut items: impl Iterator<Item = Result<T, RecordError>>, read: impl Fn(T) -> usize) {
    while let Some(item) = items.next() {
        match item {
            Ok(item) => drop(read(item)),
            Err(_) => assert!(items.next().is_none()),
        }
    }
    assert!(items.next().is_none());
}
