//! Writing a chunk of histograms: the state of an open one.
use super::cut::{EndPlan, Fill};
use super::error::HistogramChunkError;
use super::fit::{Fit, fit};
use super::iterate::HistogramIter;
use super::layout::ChunkLayout;
use super::sealed::SealedHistogram;
use super::state::{HistogramState, Words};
use super::{HEADER_BYTES, ResetHeader};
use crate::gorilla::bit_writer::BitWriter;
use crate::gorilla::prefetch;
use crate::histogram::spans::spread;
use crate::histogram::value::{Histogram, HistogramKind, ResetHint, Span};

/// A chunk that histograms of one kind are written to.
#[derive(Debug, Clone)]
pub struct OpenHistogram {
    header: ResetHeader,
    samples: u16,
    layout: ChunkLayout,
    state: HistogramState,
    first_timestamp_ms: i64,
    plan: EndPlan,
    stream: BitWriter,
}

impl OpenHistogram {
    /// A chunk of one histogram, which is valid. `before` is the chunk that it follows, of either kind.
    pub fn start(timestamp_ms: i64, histogram: &Histogram, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.layout.kind == histogram.kind);
        let known = match histogram.hint {
            ResetHint::Gauge => ResetHeader::Gauge,
            ResetHint::Reset => ResetHeader::Reset,
            ResetHint::Unknown | ResetHint::NotReset => {
                before.map_or(ResetHeader::Unknown, |before| before.known_after(histogram))
            }
        };
        Self::with_header(timestamp_ms, histogram, known, EndPlan::of_range(timestamp_ms))
    }

    fn with_header(timestamp_ms: i64, histogram: &Histogram, header: ResetHeader, plan: EndPlan) -> Self {
        if histogram.is_stale() {
            // Whatever else it carries, a staleness marker has no layout.
            let empty = Histogram::stale(histogram.kind);
            return Self::with_layout(
                timestamp_ms,
                &empty,
                Words::of(&empty),
                ChunkLayout::of(&empty),
                header,
                plan,
            );
        }
        Self::with_layout(
            timestamp_ms,
            histogram,
            Words::of(histogram),
            ChunkLayout::of(histogram),
            header,
            plan,
        )
    }

    fn with_layout(
        timestamp_ms: i64,
        histogram: &Histogram,
        words: Words,
        layout: ChunkLayout,
        header: ResetHeader,
        plan: EndPlan,
    ) -> Self {
        let mut stream = BitWriter::default();
        layout.put(&mut stream);
        let state = HistogramState::put_first(timestamp_ms, histogram, words, &mut stream);
        Self { header, samples: 1, layout, state, first_timestamp_ms: timestamp_ms, plan, stream }
    }

    /// Goes on with a chunk that was written before a restart, to `plan`.
    pub fn resume(kind: HistogramKind, bytes: &[u8], plan: EndPlan) -> Result<Self, HistogramChunkError> {
        let mut iter = HistogramIter::new(kind, bytes);
        let samples = iter.samples_left() as u16;
        let first_timestamp_ms = iter.skip_one()?;
        while iter.samples_left() > 0 {
            iter.skip_one()?;
        }
        let (header, layout, state, bits_left) = iter.into_parts()?;
        let stream = &bytes[HEADER_BYTES..];
        let stream = BitWriter::resume(stream, 8 * stream.len() - bits_left);
        Ok(Self { header, samples, layout, state, first_timestamp_ms, plan, stream })
    }

    /// Brings the chunk towards the core: it is in several lines.
    pub fn prefetch(&self) {
        prefetch(&self.layout);
        prefetch(&self.state);
        prefetch(&self.state.positive);
        prefetch(&self.stream);
        prefetch(&self.plan);
    }

    /// Brings what the next histogram is written against towards the core. The chunk itself should be near.
    pub fn prefetch_last(&self) {
        self.layout.positive.first().into_iter().for_each(prefetch);
        self.state.prefetch();
        self.stream.prefetch_end();
    }

    /// Adds a histogram, valid and newer than the last. Where it begins another chunk this becomes that, and the
    /// one before it is what is returned.
    pub fn append(&mut self, timestamp_ms: i64, histogram: &Histogram) -> Option<SealedHistogram> {
        debug_assert!(timestamp_ms > self.last_timestamp_ms(), "out of order");
        if self.layout.kind != histogram.kind || self.is_full_for(timestamp_ms) {
            let next = Self::start(timestamp_ms, histogram, Some(self));
            return Some(std::mem::replace(self, next).seal());
        }
        self.put_by_fit(timestamp_ms, histogram)
    }

    /// Adds a histogram as [`Self::append`] does, however full the chunk is by its plan: for those that come late, which
    /// are written among others. That the chunk stays small is its caller's to see to.
    pub fn append_unplanned(&mut self, timestamp_ms: i64, histogram: &Histogram) -> Option<SealedHistogram> {
        debug_assert!(timestamp_ms > self.last_timestamp_ms(), "out of order");
        if self.layout.kind != histogram.kind || self.samples == u16::MAX {
            let next = Self::start(timestamp_ms, histogram, Some(self));
            return Some(std::mem::replace(self, next).seal());
        }
        self.put_by_fit(timestamp_ms, histogram)
    }

    /// Adds a histogram of the chunk's kind, or begins another chunk with one that doesn't belong to it.
    fn put_by_fit(&mut self, timestamp_ms: i64, histogram: &Histogram) -> Option<SealedHistogram> {
        match fit(self.header, &self.layout, &self.state, histogram) {
            Fit::Same => self.put(timestamp_ms, histogram, Words::of(histogram)),
            Fit::Fewer => self.put_filled(timestamp_ms, histogram),
            Fit::More(spans) => {
                let [positive, negative] = *spans;
                self.widen(positive, negative);
                self.put_filled(timestamp_ms, histogram);
            }
            Fit::Another(known) => return Some(self.replace(timestamp_ms, histogram, known)),
        }
        None
    }

    /// What histograms it holds.
    pub const fn kind(&self) -> HistogramKind {
        self.layout.kind
    }

    /// How many histograms it holds.
    pub const fn count(&self) -> usize {
        self.samples as usize
    }

    /// The oldest one's timestamp.
    pub const fn first_timestamp_ms(&self) -> i64 {
        self.first_timestamp_ms
    }

    /// The newest one's timestamp.
    pub const fn last_timestamp_ms(&self) -> i64 {
        self.state.timestamp_ms()
    }

    /// Until when it is to take samples.
    pub const fn plan(&self) -> EndPlan {
        self.plan
    }

    /// How long the chunk is as bytes.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.stream.len()
    }

    /// What it takes of memory beside itself.
    pub fn heap_bytes(&self) -> usize {
        self.stream.heap_bytes() + self.layout.heap_bytes() + self.state.heap_bytes()
    }

    /// The newest histogram: with the chunk's buckets, of which it may have lacked some.
    pub fn put_last(&self, out: &mut Histogram) {
        put_histogram(&self.layout, &self.state, self.header.hint(self.samples == 1), out);
    }

    /// Appends the chunk's bytes as Prometheus writes them.
    pub fn put_bytes(&self, out: &mut Vec<u8>) {
        out.extend(self.samples.to_be_bytes());
        out.push(self.header.byte());
        self.stream.put_to(out);
    }

    /// The chunk's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        self.put_bytes(&mut bytes);
        bytes
    }

    /// Ends the chunk.
    pub fn seal(self) -> SealedHistogram {
        let (kind, first, last) = (self.kind(), self.first_timestamp_ms, self.last_timestamp_ms());
        SealedHistogram::restored(kind, first, last, self.to_bytes().into_boxed_slice())
    }

    /// What the chunk after this one knows, if it begins with a histogram.
    fn known_after(&self, histogram: &Histogram) -> ResetHeader {
        let known = match fit(self.header, &self.layout, &self.state, histogram) {
            Fit::Same | Fit::Fewer | Fit::More(_) => ResetHeader::NotReset,
            Fit::Another(known) => known,
        };
        // Of float histograms Prometheus says only whether it saw a reset.
        match (self.layout.kind, known) {
            (HistogramKind::Float, ResetHeader::Unknown) => ResetHeader::NotReset,
            (_, known) => known,
        }
    }

    fn is_full_for(&mut self, timestamp_ms: i64) -> bool {
        let fill = Fill {
            first_timestamp_ms: self.first_timestamp_ms,
            last_timestamp_ms: self.last_timestamp_ms(),
            bytes: self.bytes(),
            samples: self.count(),
        };
        self.plan.is_over(fill, timestamp_ms)
    }

    /// Ends the chunk for a histogram that doesn't belong to it.
    fn replace(&mut self, timestamp_ms: i64, histogram: &Histogram, known: ResetHeader) -> SealedHistogram {
        let known = match (self.layout.kind, known) {
            (HistogramKind::Float, ResetHeader::NotReset) => ResetHeader::Unknown,
            (_, known) => known,
        };
        // As in Prometheus' head, the pace isn't reckoned again for such a chunk.
        let plan = EndPlan { is_reckoned: self.plan.is_reckoned, ..EndPlan::of_range(timestamp_ms) };
        let next = Self::with_header(timestamp_ms, histogram, known, plan);
        std::mem::replace(self, next).seal()
    }

    fn put(&mut self, timestamp_ms: i64, histogram: &Histogram, words: Words) {
        self.state.put_next(timestamp_ms, histogram, words, &mut self.stream);
        self.samples += 1;
    }

    /// Adds a histogram that lacks some of the chunk's buckets.
    fn put_filled(&mut self, timestamp_ms: i64, histogram: &Histogram) {
        let Histogram { kind, positive, negative, .. } = histogram;
        let positive = spread(*kind, &positive.spans, &positive.words, &self.layout.positive);
        let negative = spread(*kind, &negative.spans, &negative.words, &self.layout.negative);
        self.put(timestamp_ms, histogram, Words { positive: &positive, negative: &negative });
    }

    /// Writes the chunk again with more buckets.
    fn widen(&mut self, positive: Vec<Span>, negative: Vec<Span>) {
        let bytes = self.to_bytes();
        let mut iter = HistogramIter::new(self.kind(), &bytes);
        let mut histogram = Histogram::default();
        let layout = ChunkLayout { positive, negative, ..self.layout.clone() };
        let mut first = Some(layout);
        while iter.samples_left() > 0 {
            let timestamp_ms = iter.next_into(&mut histogram).expect("a chunk of ours is whole");
            match first.take() {
                Some(layout) => *self = self.begun_anew(timestamp_ms, &histogram, layout),
                None => self.put_filled(timestamp_ms, &histogram),
            }
        }
    }

    fn begun_anew(&self, timestamp_ms: i64, histogram: &Histogram, layout: ChunkLayout) -> Self {
        let Histogram { kind, positive, negative, .. } = histogram;
        let positive = spread(*kind, &positive.spans, &positive.words, &layout.positive);
        let negative = spread(*kind, &negative.spans, &negative.words, &layout.negative);
        let words = Words { positive: &positive, negative: &negative };
        Self::with_layout(timestamp_ms, histogram, words, layout, self.header, self.plan)
    }
}

/// Writes what a state says as a histogram.
pub(super) fn put_histogram(
    layout: &ChunkLayout,
    state: &HistogramState,
    hint: ResetHint,
    out: &mut Histogram,
) {
    out.clear();
    (out.kind, out.sum_bits) = (layout.kind, state.sum_bits());
    if state.is_stale() {
        return;
    }
    out.hint = hint;
    (out.schema, out.zero_threshold) = (layout.schema, layout.zero_threshold);
    (out.count, out.zero_count) = (state.count.last, state.zero_count.last);
    out.positive.spans.extend_from_slice(&layout.positive);
    out.positive.words.extend(state.positive.iter().map(|track| track.last));
    out.negative.spans.extend_from_slice(&layout.negative);
    out.negative.words.extend(state.negative.iter().map(|track| track.last));
    out.bounds.extend_from_slice(&layout.bounds);
}
