//! What a shard gives a read at a time: series, or names and values, each batch in one piece of memory.
//! Labels are in their canonical form and chunks as memory holds them, so answers are encoded from here
//! without another copy. Which series those are, and in which order, is the shard's.

use bytes::Bytes;

use silverback_model::gorilla::XorIter;
use silverback_model::histogram::{HistogramIter, HistogramKind};
use silverback_model::{Exemplar, LabelBlock};

/// Series with their labels and chunks, label sets ascending.
#[derive(Debug, Clone, Default)]
pub struct SeriesBatch {
    bytes: Bytes,
    series: Vec<SeriesSpan>,
    chunks: Vec<ChunkSpan>,
}

/// Where a series' labels and chunks end; each begins where what is before it ends.
#[derive(Debug, Clone, Copy)]
struct SeriesSpan {
    begin: u32,
    labels_end: u32,
    chunks_end: u32,
}

/// A chunk's times, and where its bytes are.
#[derive(Debug, Clone, Copy)]
struct ChunkSpan {
    min_ms: i64,
    max_ms: i64,
    begin: u32,
    end: u32,
    of: ChunkOf,
}

/// What is in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkOf {
    /// Floats, in Prometheus' XOR encoding.
    Samples,
    /// Native histograms, in its encoding of these.
    Histograms(HistogramKind),
}

impl ChunkOf {
    /// The number that Prometheus gives to the encoding.
    pub const fn encoding(self) -> u8 {
        match self {
            Self::Samples => 1,
            Self::Histograms(kind) => kind.chunk_encoding(),
        }
    }
}

/// A batch while it is made.
#[derive(Debug, Default)]
pub struct SeriesBatchBuilder {
    bytes: Vec<u8>,
    series: Vec<SeriesSpan>,
    chunks: Vec<ChunkSpan>,
}

/// One series of a batch.
#[derive(Debug, Clone, Copy)]
pub struct SeriesView<'a> {
    /// Its labels, canonical.
    pub labels: LabelBlock<'a>,
    chunks: &'a [ChunkSpan],
    batch: &'a SeriesBatch,
}

/// One chunk of a series, as Prometheus has it, its count of samples in front.
#[derive(Debug, Clone, Copy)]
pub struct ChunkView<'a> {
    /// The oldest sample's timestamp.
    pub min_ms: i64,
    /// The newest sample's.
    pub max_ms: i64,
    /// What is in it.
    pub of: ChunkOf,
    /// The chunk.
    pub bytes: &'a [u8],
}

impl<'a> SeriesView<'a> {
    /// The exemplars of a series that was read with them, ascending.
    pub fn exemplars(&self) -> impl ExactSizeIterator<Item = Exemplar<'a>> {
        self.chunks().map(|ChunkView { min_ms, bytes, .. }| {
            let (value, labels) = bytes.split_at(size_of::<f64>());
            let value = f64::from_le_bytes(value.try_into().expect("it was split there"));
            Exemplar { timestamp_ms: min_ms, value, labels: LabelBlock(labels) }
        })
    }
}

impl SeriesBatchBuilder {
    /// With room for so many series, a chunk each, and for so many bytes.
    pub(crate) fn with_room(series: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            series: Vec::with_capacity(series),
            chunks: Vec::with_capacity(series),
        }
    }

    /// Begins a series: its labels are appended to what is given.
    pub fn begin_series(&mut self, put_labels: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len() as u32;
        put_labels(&mut self.bytes);
        let labels_end = self.bytes.len() as u32;
        self.series.push(SeriesSpan { begin, labels_end, chunks_end: self.chunks.len() as u32 });
    }

    /// The labels of the series that was begun last; none where none was.
    pub fn last_labels(&self) -> LabelBlock<'_> {
        let bytes = |last: &SeriesSpan| &self.bytes[last.begin as usize..last.labels_end as usize];
        LabelBlock(self.series.last().map_or(&[], bytes))
    }

    /// Adds a chunk of floats to the series that was begun last: its bytes are appended to what is given.
    pub(crate) fn add_chunk(&mut self, min_ms: i64, max_ms: i64, put_bytes: impl FnOnce(&mut Vec<u8>)) {
        self.add_chunk_of(ChunkOf::Samples, min_ms, max_ms, put_bytes);
    }

    /// The same of any.
    pub fn add_chunk_of(
        &mut self,
        of: ChunkOf,
        min_ms: i64,
        max_ms: i64,
        put_bytes: impl FnOnce(&mut Vec<u8>),
    ) {
        let begin = self.bytes.len() as u32;
        put_bytes(&mut self.bytes);
        self.chunks.push(ChunkSpan { min_ms, max_ms, begin, end: self.bytes.len() as u32, of });
        let series = self.series.last_mut().expect("a chunk is a series'");
        series.chunks_end = self.chunks.len() as u32;
    }

    /// Adds an exemplar to the series that was begun last.
    pub(crate) fn add_exemplar(&mut self, exemplar: &Exemplar<'_>) {
        self.add_chunk(exemplar.timestamp_ms, exemplar.timestamp_ms, |out| {
            out.extend_from_slice(&exemplar.value.to_le_bytes());
            out.extend_from_slice(exemplar.labels.0);
        });
    }

    /// Brings the chunks of the series that was begun last into the order of their first samples: those of floats and
    /// of histograms were added one after the other.
    pub(crate) fn sort_chunks(&mut self) {
        let before = self.series.iter().rev().nth(1).map_or(0, |series| series.chunks_end);
        self.chunks[before as usize..].sort_by_key(|chunk| chunk.min_ms);
    }

    /// Whether the series that was begun last has a chunk.
    pub fn has_chunk(&self) -> bool {
        let before = self.series.iter().rev().nth(1).map_or(0, |series| series.chunks_end);
        self.chunks.len() > before as usize
    }

    /// Takes the series that was begun last out again.
    pub fn drop_series(&mut self) {
        if let Some(series) = self.series.pop() {
            self.bytes.truncate(series.begin as usize);
            let before = self.series.last().map_or(0, |series| series.chunks_end);
            self.chunks.truncate(before as usize);
        }
    }

    /// What was put into it, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.series) + size_of_val(&*self.chunks)
    }

    /// The batch.
    ///
    /// # Panics
    /// Where it has 4 GiB and more.
    pub fn finish(self) -> SeriesBatch {
        assert!(u32::try_from(self.bytes.len()).is_ok(), "a batch is bounded, and so is each series of it");
        SeriesBatch { bytes: self.bytes.into(), series: self.series, chunks: self.chunks }
    }
}

impl SeriesBatch {
    /// One of its series.
    ///
    /// # Panics
    /// Where it has fewer.
    pub fn get(&self, at: usize) -> SeriesView<'_> {
        let SeriesSpan { begin, labels_end, chunks_end } = self.series[at];
        let chunks_begin = at.checked_sub(1).map_or(0, |before| self.series[before].chunks_end);
        SeriesView {
            labels: LabelBlock(&self.bytes[begin as usize..labels_end as usize]),
            chunks: &self.chunks[chunks_begin as usize..chunks_end as usize],
            batch: self,
        }
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.series) + size_of_val(&*self.chunks)
    }
}

impl<'a> SeriesView<'a> {
    /// Its chunks, oldest first. They may exceed the range that was asked for at both ends.
    pub fn chunks(self) -> impl DoubleEndedIterator<Item = ChunkView<'a>> + ExactSizeIterator + Clone {
        self.chunks.iter().map(move |chunk| ChunkView {
            min_ms: chunk.min_ms,
            max_ms: chunk.max_ms,
            of: chunk.of,
            bytes: &self.batch.bytes[chunk.begin as usize..chunk.end as usize],
        })
    }

    /// A chunk's bytes, shared with the batch and not copied.
    pub fn shared_bytes(self, chunk: ChunkView<'a>) -> Bytes {
        self.batch.bytes.slice_ref(chunk.bytes)
    }
}

/// A chunk of floats whose count says that there are none.
const NO_SAMPLES: &[u8] = &[0, 0];

impl<'a> ChunkView<'a> {
    /// Its floats, oldest first; none where it is of histograms.
    #[inline]
    pub const fn samples(self) -> XorIter<'a> {
        match self.of {
            ChunkOf::Samples => XorIter::new(self.bytes),
            ChunkOf::Histograms(_) => XorIter::new(NO_SAMPLES),
        }
    }

    /// Its native histograms; `None` where it is of floats.
    pub const fn histograms(self) -> Option<HistogramIter<'a>> {
        match self.of {
            ChunkOf::Samples => None,
            ChunkOf::Histograms(kind) => Some(HistogramIter::new(kind, self.bytes)),
        }
    }
}

/// Names or values, ascending.
#[derive(Debug, Clone, Default)]
pub struct TextBatch {
    text: String,
    ends: Vec<u32>,
}

impl TextBatch {
    /// Adds one that is greater than all before.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
    }

    /// One of them.
    ///
    /// # Panics
    /// Where it has fewer.
    pub fn get(&self, at: usize) -> &str {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[begin as usize..self.ends[at] as usize]
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|at| self.get(at))
    }
}

/// What a read gets in batches.
pub trait Rows: Default {
    /// How many there are.
    fn count(&self) -> usize;

    /// What the batch takes, in bytes.
    fn bytes(&self) -> usize;

    /// How one of these and one of another batch follow each other.
    fn compare(&self, at: usize, other: &Self, other_at: usize) -> std::cmp::Ordering;
}

impl Rows for SeriesBatch {
    fn count(&self) -> usize {
        self.series.len()
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn compare(&self, at: usize, other: &Self, other_at: usize) -> std::cmp::Ordering {
        self.get(at).labels.compare(other.get(other_at).labels)
    }
}

impl Rows for TextBatch {
    fn count(&self) -> usize {
        self.ends.len()
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }

    fn compare(&self, at: usize, other: &Self, other_at: usize) -> std::cmp::Ordering {
        self.get(at).cmp(other.get(other_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::Labels;

    fn batch(series: &[(&str, &[(i64, i64)])]) -> SeriesBatch {
        let mut builder = SeriesBatchBuilder::default();
        for (name, chunks) in series {
            let labels = Labels::from_pairs([("__name__", *name)]).to_canonical();
            builder.begin_series(|out| out.extend_from_slice(&labels));
            for (min_ms, max_ms) in *chunks {
                builder.add_chunk(*min_ms, *max_ms, |out| out.extend_from_slice(name.as_bytes()));
            }
            if !builder.has_chunk() {
                builder.drop_series();
            }
        }
        builder.finish()
    }

    #[test]
    fn series_come_out_as_they_were_put_in() {
        let batch = batch(&[("a", &[(1, 2), (3, 4)]), ("dropped", &[]), ("bc", &[(5, 6)])]);
        assert_eq!(batch.count(), 2);
        let (a, bc) = (batch.get(0), batch.get(1));
        assert_eq!(a.labels.0, Labels::from_pairs([("__name__", "a")]).to_canonical());
        let times: Vec<_> = a.chunks().map(|chunk| (chunk.min_ms, chunk.max_ms, chunk.bytes)).collect();
        assert_eq!(times, [(1, 2, &b"a"[..]), (3, 4, b"a")]);
        let chunk = bc.chunks().next().unwrap();
        assert_eq!(bc.shared_bytes(chunk), "bc");
        assert_eq!(bc.chunks().len(), 1);
        assert!(batch.compare(0, &batch, 1).is_lt());
    }

    #[test]
    fn a_chunk_of_histograms_has_no_floats() {
        let of = ChunkOf::Histograms(HistogramKind::Float);
        let mut chunk = ChunkView { min_ms: 1, max_ms: 2, of, bytes: &[0, 9, 1, 2, 3] };
        assert!(chunk.samples().next().is_none() && chunk.histograms().is_some());
        chunk.of = ChunkOf::Samples;
        assert!(chunk.samples().next().is_some() && chunk.histograms().is_none());
    }

    #[test]
    fn texts_come_out_as_they_were_put_in() {
        let mut batch = TextBatch::default();
        ["", "a", "ä"].iter().for_each(|text| batch.push(text));
        assert_eq!((batch.count(), batch.get(2)), (3, "ä"));
        assert_eq!(batch.iter().collect::<Vec<_>>(), ["", "a", "ä"]);
    }
}
