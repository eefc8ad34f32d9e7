//! Snappy's block format, compressed while it is written.
//!
//! A block is the decompressed length and then independent runs of at most 64 KiB each. So a large
//! message is compressed run by run, in slices, and is never in memory decompressed. What is there
//! has its room among the reads in flight.

use bytes::Bytes;

use crate::api::protobuf::{put_varint, varint_len};
use crate::routing::{Reservation, ReservationError};
use silverback_runtime::Slice;

/// As snappy itself cuts its input.
const RUN_BYTES: usize = 64 << 10;

/// Compressed runs, and what isn't one yet.
pub(crate) struct SnappyPieces {
    runs: Vec<Bytes>,
    open_run: Vec<u8>,
    decompressed_bytes: u64,
    encoder: snap::raw::Encoder,
    compressed: Vec<u8>,
}

impl SnappyPieces {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            runs: Vec::new(),
            open_run: Vec::new(),
            decompressed_bytes: 0,
            encoder: snap::raw::Encoder::new(),
            compressed: vec![0; snap::raw::max_compress_len(RUN_BYTES)],
        }
    }

    /// How much was written.
    pub(crate) fn decompressed_bytes(&self) -> u64 {
        self.decompressed_bytes + self.open_run.len() as u64
    }

    /// Appends bytes, and compresses what is a whole run by then.
    pub(crate) async fn write(
        &mut self,
        mut bytes: &[u8],
        slice: &mut Slice,
        room: &mut Reservation,
    ) -> Result<(), ReservationError> {
        while !bytes.is_empty() {
            let now = (RUN_BYTES - self.open_run.len()).min(bytes.len());
            let (now, later) = bytes.split_at(now);
            self.open_run.extend_from_slice(now);
            bytes = later;
            if self.open_run.len() == RUN_BYTES {
                self.close_run(room)?;
                slice.yield_if_needed().await;
            }
        }
        Ok(())
    }

    /// Appends all that others hold, as it is.
    pub(crate) fn append(&mut self, mut other: Self, room: &mut Reservation) -> Result<(), ReservationError> {
        self.close_run(room)?;
        other.close_run(room)?;
        self.decompressed_bytes += other.decompressed_bytes;
        self.runs.append(&mut other.runs);
        Ok(())
    }

    /// The block's pieces in order; `None` where it is longer than the format can say.
    pub(crate) fn finish(mut self, room: &mut Reservation) -> Result<Option<Vec<Bytes>>, ReservationError> {
        self.close_run(room)?;
        let Ok(decompressed_bytes) = u32::try_from(self.decompressed_bytes) else { return Ok(None) };
        let mut length = Vec::new();
        put_varint(&mut length, u64::from(decompressed_bytes));
        self.runs.insert(0, length.into());
        Ok(Some(self.runs))
    }

    fn close_run(&mut self, room: &mut Reservation) -> Result<(), ReservationError> {
        if self.open_run.is_empty() {
            return Ok(());
        }
        let written = self.encoder.compress(&self.open_run, &mut self.compressed);
        let written = written.expect("the room is as large as a run may need");
        // Each run's own length is part of the block's.
        let length_bytes = varint_len(self.open_run.len() as u64);
        room.grow_within(written - length_bytes + size_of::<Bytes>())?;
        self.runs.push(Bytes::copy_from_slice(&self.compressed[length_bytes..written]));
        self.decompressed_bytes += self.open_run.len() as u64;
        self.open_run.clear();
        Ok(())
    }
}
