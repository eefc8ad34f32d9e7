//! Decodes lines and collects all that came of them.

use futures::executor::block_on;
use silverback::api::ingest::lines::{Decoded, LineFormat, decode};
use silverback::api::ingest::remote_write::{SeriesSink, WriteRejected};
use silverback_model::{Labels, Sample, SeriesId, SeriesIdHasher};
use silverback_storage::message::{Definitions, LabelSpan};

/// What lines became: samples with the labels of their series, and what else is said of them.
pub(super) struct Collected {
    /// In their order.
    pub samples: Vec<(Labels, Sample)>,
    /// Its label sets are taken out.
    pub decoded: Decoded,
}

#[derive(Default)]
struct Sink(Vec<(SeriesId, LabelSpan, Option<Sample>)>);

impl SeriesSink for Sink {
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        assert_eq!(samples, 1);
        self.0.push((id, labels, None));
    }

    fn sample(&mut self, sample: Sample) {
        let last = self.0.last_mut().expect("a series comes first");
        assert_eq!(last.2.replace(sample), None);
    }
}

/// Decodes `bytes` at `now_ms`, and checks what holds for every request: ids are those of the labels, each sample has a
/// label set of its own and the number of a line.
pub(super) fn collect(
    format: &impl LineFormat,
    bytes: &[u8],
    now_ms: i64,
) -> Result<Collected, WriteRejected> {
    let (hasher, mut sink) = (SeriesIdHasher::new(1, "tenant"), Sink::default());
    let mut decoded = block_on(decode(
        bytes,
        format,
        now_ms,
        &hasher,
        &mut sink,
        &Default::default(),
        async |_, _| Ok(()),
    ))?;
    let mut definitions = Definitions::default();
    definitions.push(std::mem::take(&mut decoded.labels));
    assert_eq!((sink.0.len() as u64, u64::from(definitions.len())), (decoded.samples, decoded.samples));
    assert_eq!(decoded.first.is_some(), decoded.refused.counts.total() > 0);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u32 + 1;
    let mut last_line = 1;
    let samples = sink.0.into_iter().enumerate().map(|(number, (id, span, sample))| {
        let labels = Labels::from(definitions.labels(number as u32));
        assert_eq!(hasher.hash_canonical(&labels.to_canonical()), id, "{labels}");
        let line = span.stream_ref().expect("a series is named by its line");
        assert!((last_line..=lines).contains(&line));
        last_line = line;
        (labels, sample.expect("a series has a sample"))
    });
    Ok(Collected { samples: samples.collect(), decoded })
}
