//! What blocks are made of, read on the core that was asked for them: all series, once for each range of two hours,
//! in slices, a read's turn and a read's memory. What the writer holds beside that is taken from the same memory.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::channel::{mpsc, oneshot};
use futures::{SinkExt, future};

use super::RangeBlocksError;
use super::write::{Orders, WriteOrder};
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::routing::{ReadInFlight, Reservation, ReservationError};
use silverback_block::WriterMemory;
use silverback_runtime::{SideThread, now, sleep};
use silverback_storage::message::{Selection, SeriesBatch, SeriesBatchBuilder, SeriesWanted};

/// Series go to the writer in pieces of about this size.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that wait for the writer, beside the one that it has and the one that is made.
const PIECES_WAITING_MAX: usize = 1;
/// Pieces that there are at a time: a channel has room for one more for its sender.
const PIECES_MAX: usize = PIECES_WAITING_MAX + 3;
/// Of the memory that reads have on a core, the writer has this fraction, within what it can use: a snapshot and a
/// cut have their place at the same time.
const WRITER_SHARE: usize = 4;
/// Memory that other reads have is waited for: a block takes long to make, and is started over where it is given up. No
/// longer than its cursors stay open.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);
/// Between two looks whether they have given some back.
const ROOM_LOOK: Duration = Duration::from_millis(50);

/// Reads these ranges, or of them the series that are wanted, with chunks, and has `write` make blocks of them on `thread`. Dropped before its end, it leaves nothing.
pub(crate) async fn write_ranges<T: Send + 'static>(
    reader: &Rc<Reader>,
    read: &ReadInFlight,
    (ranges, wanted): (impl Iterator<Item = RangeInclusive<i64>>, SeriesWanted),
    thread: &SideThread,
    write: impl FnOnce(Orders) -> Result<T, RangeBlocksError> + Send + 'static,
) -> Result<T, ReadRejected> {
    let (orders, taken) = mpsc::channel(PIECES_WAITING_MAX);
    let memory = WriterMemory::of(reader.read_bytes.bytes_max() / WRITER_SHARE);
    let writer_bytes = Arc::new(AtomicUsize::new(memory.bytes()));
    let of_writer = Orders::new(taken, memory, Arc::clone(&writer_bytes), reader.config.float_chunks);
    let writing = thread.run(move || write(of_writer));
    let room = reader.read_bytes.begin();
    let feed = Feed { reader, read, wanted, orders, writer_bytes, room };
    let (fed, written) = future::join(feed.all(ranges), writing).await;
    match (fed, written?) {
        // The writer that took no more knows why.
        (Ok(Fed::All | Fed::NotTaken), written) => written.map_err(ReadRejected::Writing),
        (Err(fault), _) => Err(fault),
    }
}

/// How a feed that met no fault ended.
enum Fed {
    All,
    /// The writer has met one.
    NotTaken,
}

struct Feed<'a> {
    reader: &'a Rc<Reader>,
    read: &'a ReadInFlight,
    wanted: SeriesWanted,
    orders: mpsc::Sender<WriteOrder>,
    writer_bytes: Arc<AtomicUsize>,
    room: Reservation,
}

/// The writer takes no more.
struct WriterGoneError;

impl Feed<'_> {
    async fn all(mut self, ranges: impl Iterator<Item = RangeInclusive<i64>>) -> Result<Fed, ReadRejected> {
        for range_ms in ranges {
            if let Fed::NotTaken = self.range(range_ms).await? {
                return Ok(Fed::NotTaken);
            }
        }
        Ok(self.order(WriteOrder::Finish).await.map_or(Fed::NotTaken, |()| Fed::All))
    }

    async fn range(&mut self, range_ms: RangeInclusive<i64>) -> Result<Fed, ReadRejected> {
        let selection =
            Selection { min_ms: *range_ms.start(), max_ms: *range_ms.end(), ..Selection::everything() };
        self.reserve(0).await?;
        let lease = self.read.lease().clone();
        let mut rows: RowStream<SeriesBatch> =
            RowStream::open(self.reader, &lease, selection, self.wanted.clone(), 1).await?;
        if self.order(WriteOrder::Begin(range_ms)).await.is_err() {
            return Ok(Fed::NotTaken);
        }
        let (mut held, mut piece) = (None, SeriesBatchBuilder::default());
        while let Some(mut slice) = rows.advance(held).await? {
            let series = rows.series();
            piece.begin_series(|out| out.extend_from_slice(series.labels.0));
            for chunk in series.chunks() {
                let put = |out: &mut Vec<u8>| out.extend_from_slice(chunk.bytes);
                piece.add_chunk_of(chunk.of, chunk.min_ms, chunk.max_ms, put);
                slice.yield_if_needed().await;
            }
            held = Some(slice);
            if piece.bytes() >= PIECE_BYTES {
                held = None;
                if self.send(std::mem::take(&mut piece)).await?.is_err() {
                    return Ok(Fed::NotTaken);
                }
            }
        }
        drop(rows);
        if self.send(piece).await?.is_err() {
            return Ok(Fed::NotTaken);
        }
        // Its end takes a while: no cursor is held open meanwhile.
        let (done, is_done) = oneshot::channel();
        if self.order(WriteOrder::End(done)).await.is_err() || is_done.await.is_err() {
            return Ok(Fed::NotTaken);
        }
        Ok(Fed::All)
    }

    async fn send(&mut self, piece: SeriesBatchBuilder) -> Result<Result<(), WriterGoneError>, ReadRejected> {
        if self.reader.shutdown.is_requested() {
            return Err(ReadRejected::Writing(RangeBlocksError::Ended));
        }
        self.reserve(piece.bytes()).await?;
        Ok(self.order(WriteOrder::Series(piece.finish())).await)
    }

    async fn order(&mut self, order: WriteOrder) -> Result<(), WriterGoneError> {
        self.orders.send(order).await.map_err(|_gone| WriterGoneError)
    }

    /// Takes memory for pieces, of which one may be larger than usual, and for what the writer has.
    async fn reserve(&mut self, piece_bytes: usize) -> Result<(), ReadRejected> {
        let pieces = PIECES_MAX * PIECE_BYTES.max(piece_bytes);
        let bytes = pieces + self.writer_bytes.load(Ordering::Relaxed);
        let began = now();
        loop {
            match self.room.grow_to(bytes) {
                Ok(()) => return Ok(()),
                Err(ReservationError::TooMuch { bytes_max }) => {
                    return Err(ReadRejected::Writing(RangeBlocksError::TooLarge { bytes_max }));
                }
                Err(ReservationError::Full)
                    if began.elapsed() < ROOM_WAIT_MAX && !self.reader.shutdown.is_requested() =>
                {
                    sleep(ROOM_LOOK).await;
                }
                Err(ReservationError::Full) => return Err(ReadRejected::BudgetExceeded),
            }
        }
    }
}
