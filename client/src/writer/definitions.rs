//! What one stream has defined: refs for series, within the terms; and samples as messages of it.

use silverback_proto::v1;

use super::columns::{SeriesIndex, WriterColumns};
use super::registry::Registry;
use super::terms::Terms;
use crate::labels;

/// A sample in a message at its longest: varints of 5 and 10 bytes, and a value of 8.
const SAMPLE_BYTES_MAX: usize = 5 + 10 + 8;
/// A native histogram besides its own bytes: its ref, a tag and a length.
const HISTOGRAM_FRAME_BYTES_MAX: usize = 5 + 1 + 5;
/// What a message has besides samples and labels: numbers, lengths, tags.
const FRAME_BYTES: usize = 128;
/// What a definition has besides its labels' text, and a label besides its own.
const DEFINITION_FRAME_BYTES: usize = 16;
const LABEL_FRAME_BYTES: usize = 16;

/// No stream has this ref: it is beyond any `refs_max`.
const NO_REF: u32 = u32::MAX;

/// The refs of one stream.
#[derive(Debug, Default)]
pub(crate) struct StreamDefinitions {
    /// By series; [`NO_REF`] where it isn't defined.
    refs: Vec<u32>,
    /// By ref.
    series: Vec<SeriesIndex>,
    label_bytes: u64,
}

impl StreamDefinitions {
    /// The first samples of a batch, floats before histograms, as many as one message of these terms holds, and
    /// their number; none where not even the first one's series can be defined any more.
    pub(super) fn message(
        &mut self,
        number: u64,
        columns: &WriterColumns,
        terms: &Terms,
        registry: &Registry,
    ) -> (v1::StreamRequest, usize) {
        let samples_max = columns.len().min(terms.batch_samples_max);
        let mut definitions = Vec::new();
        let mut ref_deltas = Vec::with_capacity(samples_max);
        let (mut last_ref, mut bytes_left) = (0, terms.message_bytes_max.saturating_sub(FRAME_BYTES));
        let floats_max = samples_max.min(columns.values.len());
        for series in &columns.series[..floats_max] {
            let Some(sample_bytes_left) = bytes_left.checked_sub(SAMPLE_BYTES_MAX) else { break };
            bytes_left = sample_bytes_left;
            let new = &mut definitions;
            let Some(series_ref) = self.ref_of(*series, new, &mut bytes_left, terms, registry) else { break };
            ref_deltas.push(series_ref.wrapping_sub(last_ref) as i32);
            last_ref = series_ref;
        }
        let floats = ref_deltas.len();
        let (mut histogram_ref_deltas, mut histograms, mut last_ref) = (Vec::new(), Vec::new(), 0);
        // After all floats: what is left is a batch of its own, in the same order.
        let histograms_max = if floats == columns.values.len() { samples_max - floats } else { 0 };
        for (series, message) in &columns.histograms[..histograms_max] {
            let bytes = HISTOGRAM_FRAME_BYTES_MAX + message.len();
            let Some(histogram_bytes_left) = bytes_left.checked_sub(bytes) else { break };
            bytes_left = histogram_bytes_left;
            let new = &mut definitions;
            let Some(series_ref) = self.ref_of(*series, new, &mut bytes_left, terms, registry) else { break };
            histogram_ref_deltas.push(series_ref.wrapping_sub(last_ref) as i32);
            histograms.push(message.clone());
            last_ref = series_ref;
        }
        let samples = floats + histograms.len();
        let (base_timestamp_ms, timestamp_deltas_ms) = timestamps(&columns.timestamps_ms[..floats]);
        let values = columns.values[..floats].to_vec();
        let batch = v1::Batch {
            number,
            ref_deltas,
            base_timestamp_ms,
            timestamp_deltas_ms,
            values,
            histogram_ref_deltas,
            histograms,
        };
        (v1::StreamRequest { series: definitions, batch: Some(batch) }, samples)
    }

    /// The ref of a series, which is defined where it isn't yet, unless the terms or the message have no room.
    fn ref_of(
        &mut self,
        series: SeriesIndex,
        definitions: &mut Vec<v1::SeriesDefinition>,
        bytes_left: &mut usize,
        terms: &Terms,
        registry: &Registry,
    ) -> Option<u32> {
        match self.refs.get(series.0 as usize) {
            Some(&series_ref) if series_ref != NO_REF => Some(series_ref),
            Some(_) | None => {
                definitions.push(self.define(series, bytes_left, terms, registry)?);
                Some(self.series.len() as u32 - 1)
            }
        }
    }

    /// Whether nothing is defined yet.
    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// The series of a ref.
    pub(super) fn series_of(&self, series_ref: u32) -> Option<SeriesIndex> {
        self.series.get(series_ref as usize).copied()
    }

    /// The next ref, for a series, unless the terms or the message have no room.
    fn define(
        &mut self,
        series: SeriesIndex,
        bytes_left: &mut usize,
        terms: &Terms,
        registry: &Registry,
    ) -> Option<v1::SeriesDefinition> {
        if self.series.len() >= terms.refs_max {
            return None;
        }
        let labels = registry.labels(series);
        let text_bytes = labels::byte_count(&labels);
        let message_bytes = text_bytes + LABEL_FRAME_BYTES * labels.len() + DEFINITION_FRAME_BYTES;
        let label_bytes = self.label_bytes + text_bytes as u64;
        if label_bytes > terms.definition_bytes_max {
            return None;
        }
        *bytes_left = bytes_left.checked_sub(message_bytes)?;
        self.label_bytes = label_bytes;
        let series_ref = self.series.len() as u32;
        self.series.push(series);
        let index = series.0 as usize;
        if self.refs.len() <= index {
            self.refs.resize(index + 1, NO_REF);
        }
        self.refs[index] = series_ref;
        let labels = labels::to_messages(labels.iter().map(|(name, value)| (name, value)));
        Some(v1::SeriesDefinition { labels, r#ref: series_ref })
    }
}

/// The base and the differences; none of these where all times are the same.
fn timestamps(timestamps_ms: &[i64]) -> (i64, Vec<i64>) {
    let base_ms = timestamps_ms.first().copied().unwrap_or_default();
    if timestamps_ms.iter().all(|timestamp_ms| *timestamp_ms == base_ms) {
        return (base_ms, Vec::new());
    }
    let mut last_ms = base_ms;
    let delta = |timestamp_ms: &i64| {
        let delta_ms = timestamp_ms.wrapping_sub(last_ms);
        last_ms = *timestamp_ms;
        delta_ms
    };
    (base_ms, timestamps_ms.iter().map(delta).collect())
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::refusal::Durability;

    const WIDE: Terms = Terms {
        durability: Durability::Disk,
        batches_in_flight_max: 1,
        message_bytes_max: 1 << 20,
        batch_samples_max: 1000,
        refs_max: 1000,
        definition_bytes_max: 1 << 20,
        native_histograms: true,
    };

    fn registry(series: u32) -> Registry {
        let registry = Registry::new(series as usize);
        for number in 0..series {
            // 8 + 1 + 1 + 3 bytes.
            let labels = [("__name__", "t".to_owned()), ("n", format!("{number:03}"))];
            registry.series(labels.map(|(name, value)| (name.to_owned(), value)).into()).unwrap();
        }
        registry
    }

    fn columns(samples: &[(u32, i64)]) -> WriterColumns {
        let mut columns = WriterColumns::default();
        samples.iter().for_each(|(series, time)| columns.push(SeriesIndex(*series), *time, 0.5));
        columns
    }

    fn message(
        definitions: &mut StreamDefinitions,
        samples: &[(u32, i64)],
        terms: &Terms,
    ) -> v1::StreamRequest {
        let (message, taken) = definitions.message(1, &columns(samples), terms, &registry(100));
        assert_eq!(message.batch.as_ref().unwrap().values.len(), taken);
        message
    }

    fn defined(message: &v1::StreamRequest) -> Vec<(u32, &str)> {
        message.series.iter().map(|series| (series.r#ref, series.labels[1].value.as_str())).collect()
    }

    #[test]
    fn refs_count_up_by_first_use_and_stand_for_the_stream() {
        let mut definitions = StreamDefinitions::default();
        let first = message(&mut definitions, &[(7, 1), (3, 1), (7, 1), (9, 1)], &WIDE);
        assert_eq!(defined(&first), [(0, "007"), (1, "003"), (2, "009")]);
        assert_eq!(first.batch.unwrap().ref_deltas, [0, 1, -1, 2]);
        let second = message(&mut definitions, &[(9, 2), (4, 2)], &WIDE);
        assert_eq!(defined(&second), [(3, "004")]);
        assert_eq!(second.batch.unwrap().ref_deltas, [2, 1]);
        assert_eq!(definitions.series_of(1), Some(SeriesIndex(3)));
        assert_eq!(definitions.series_of(4), None);
    }

    #[test]
    fn one_time_for_all_samples_is_told_once() {
        let batch = message(&mut StreamDefinitions::default(), &[(0, 5), (1, 5)], &WIDE).batch.unwrap();
        assert_eq!((batch.base_timestamp_ms, batch.timestamp_deltas_ms.len()), (5, 0));
        let batch =
            message(&mut StreamDefinitions::default(), &[(0, 5), (1, 7), (2, 4)], &WIDE).batch.unwrap();
        assert_eq!((batch.base_timestamp_ms, batch.timestamp_deltas_ms), (5, vec![0, 2, -3]));
        let far = [(0, i64::MIN), (1, i64::MAX)];
        let batch = message(&mut StreamDefinitions::default(), &far, &WIDE).batch.unwrap();
        assert_eq!((batch.base_timestamp_ms, batch.timestamp_deltas_ms), (i64::MIN, vec![0, -1]));
    }

    #[test]
    fn histograms_come_behind_all_floats_as_many_as_fit() {
        let mut columns = columns(&[(7, 5), (3, 5)]);
        for (series, len) in [(3, 100), (9, 100), (7, 0)] {
            columns.push_histogram(SeriesIndex(series), vec![1; len].into());
        }
        let registry = registry(10);
        let told = |terms: Terms, columns: &WriterColumns| {
            let mut definitions = StreamDefinitions::default();
            let (message, taken) = definitions.message(1, columns, &terms, &registry);
            assert!(message.encoded_len() <= terms.message_bytes_max);
            let batch = message.batch.unwrap();
            let lengths: Vec<_> = batch.histograms.iter().map(|message| message.len()).collect();
            (batch.values.len(), batch.histogram_ref_deltas, lengths, message.series.len(), taken)
        };
        assert_eq!(told(WIDE, &columns), (2, vec![1, 1, -2], vec![100, 100, 0], 3, 5));
        assert_eq!(told(Terms { batch_samples_max: 3, ..WIDE }, &columns), (2, vec![1], vec![100], 2, 3));
        assert_eq!(
            told(Terms { batch_samples_max: 1, ..WIDE }, &columns).4,
            1,
            "no histogram before a float"
        );
        let definition = 13 + 2 * LABEL_FRAME_BYTES + DEFINITION_FRAME_BYTES;
        let bytes = FRAME_BYTES + 2 * (SAMPLE_BYTES_MAX + definition) + 100 + HISTOGRAM_FRAME_BYTES_MAX;
        assert_eq!(told(Terms { message_bytes_max: bytes, ..WIDE }, &columns).4, 3);
        let rest = columns.split_off(3);
        assert_eq!(told(WIDE, &rest), (0, vec![0, 1], vec![100, 0], 2, 2));
    }

    fn check_taken(terms: Terms, expect: usize) {
        let samples: Vec<_> = (0..50).map(|series| (series, i64::MAX - i64::from(series))).collect();
        let message = message(&mut StreamDefinitions::default(), &samples, &terms);
        assert_eq!(message.batch.as_ref().unwrap().values.len(), expect, "{terms:?}");
        assert_eq!(message.series.len(), expect, "{terms:?}");
        assert!(message.encoded_len() <= terms.message_bytes_max, "{terms:?}");
    }

    #[test]
    fn a_message_keeps_to_the_terms() {
        check_taken(WIDE, 50);
        check_taken(Terms { batch_samples_max: 20, ..WIDE }, 20);
        check_taken(Terms { refs_max: 30, ..WIDE }, 30);
        check_taken(Terms { definition_bytes_max: 13 * 10 + 12, ..WIDE }, 10);
        let definition = 13 + 2 * LABEL_FRAME_BYTES + DEFINITION_FRAME_BYTES;
        let bytes = FRAME_BYTES + 7 * (SAMPLE_BYTES_MAX + definition);
        check_taken(Terms { message_bytes_max: bytes, ..WIDE }, 7);
        check_taken(Terms { message_bytes_max: FRAME_BYTES + 5, ..WIDE }, 0);
    }
}
