//! Reading a chunk of histograms, whoever wrote it. Trusts no byte, never panics, and takes no more memory than a
//! histogram may.
use super::error::HistogramChunkError;
use super::layout::ChunkLayout;
use super::open::put_histogram;
use super::state::HistogramState;
use super::{HEADER_BYTES, ResetHeader};
use crate::gorilla::ChunkError;
use crate::gorilla::bits::BitReader;
use crate::histogram::value::{CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, SCHEMA_MAX};

/// The histograms of a chunk's bytes, in the order written.
#[derive(Debug, Clone)]
pub struct HistogramIter<'a> {
    kind: HistogramKind,
    header: ResetHeader,
    reader: BitReader<'a>,
    samples_left: u16,
    /// What was read last.
    read: Option<(ChunkLayout, HistogramState)>,
    is_first: bool,
}

impl<'a> HistogramIter<'a> {
    /// Of a chunk's bytes, its count of samples in front.
    pub const fn new(kind: HistogramKind, chunk: &'a [u8]) -> Self {
        let (samples_left, flags, stream) = match chunk {
            [high, low, flags, stream @ ..] => (u16::from_be_bytes([*high, *low]), *flags, stream),
            // One histogram that isn't there: reading reports the truncation.
            [] | [_] | [_, _] => (1, 0, [].as_slice()),
        };
        const { assert!(HEADER_BYTES == 3) };
        let header = ResetHeader::of_byte(flags);
        Self { kind, header, reader: BitReader::new(stream), samples_left, read: None, is_first: true }
    }

    /// Histograms not read yet, as the header counts them.
    pub const fn samples_left(&self) -> usize {
        self.samples_left as usize
    }

    /// Reads the next histogram into `out`, and returns its timestamp. After an error, and after the last, there is
    /// none: [`Self::samples_left`] is 0.
    pub fn next_into(&mut self, out: &mut Histogram) -> Result<i64, HistogramChunkError> {
        let timestamp_ms = self.skip_one()?;
        if let Some((layout, state)) = &self.read {
            put_histogram(layout, state, self.header.hint(self.is_first), out);
        }
        if out.schema > SCHEMA_MAX && out.schema != CUSTOM_BUCKETS_SCHEMA {
            // Written by a later Prometheus, which knows finer schemas.
            out.reduce_to(SCHEMA_MAX).map_err(|_| HistogramChunkError::BadSpans)?;
        }
        Ok(timestamp_ms)
    }

    /// Reads the next histogram, and returns its timestamp alone.
    pub fn skip_one(&mut self) -> Result<i64, HistogramChunkError> {
        let Some(left) = self.samples_left.checked_sub(1) else { return Err(ChunkError::Empty.into()) };
        self.samples_left = left;
        let read = self.read_one();
        if read.is_err() {
            self.samples_left = 0;
        }
        read
    }

    fn read_one(&mut self) -> Result<i64, HistogramChunkError> {
        if let Some((_, state)) = &mut self.read {
            self.is_first = false;
            state.read_next(self.kind, &mut self.reader)?;
            return Ok(state.timestamp_ms());
        }
        let layout = ChunkLayout::read(self.kind, &mut self.reader)?;
        let state = HistogramState::read_first(&layout, &mut self.reader)?;
        let timestamp_ms = state.timestamp_ms();
        self.read = Some((layout, state));
        Ok(timestamp_ms)
    }

    /// What is known once all is read, and the bits that are left of the stream.
    pub(super) fn into_parts(
        self,
    ) -> Result<(ResetHeader, ChunkLayout, HistogramState, usize), HistogramChunkError> {
        let (layout, state) = self.read.ok_or(ChunkError::Empty)?;
        Ok((self.header, layout, state, self.reader.bits_left()))
    }
}
