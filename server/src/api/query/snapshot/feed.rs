//! What a snapshot is made of, read on the core that was asked for it: all series, once for each range of two hours,
//! in slices, a read's turn and a read's memory. What the writer holds beside that is taken from the same memory.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::channel::{mpsc, oneshot};
use futures::{SinkExt, future};

use super::write::{Order, Place, write};
use super::{Snapshot, SnapshotFault, name_at, random};
use crate::api::query::Reader;
use crate::api::query::read_fault::ReadFault;
use crate::api::query::rows::RowStream;
use crate::routing::fanout::read_all;
use crate::routing::{BudgetExceeded, ReadInFlight, Reservation};
use silverback_model::limits::CHUNK_RANGE_MS;
use silverback_storage::message::{
    CardinalityRequest, Selection, SeriesBatch, SeriesBatchBuilder, SeriesWanted,
};

/// Series go to the writer in pieces of about this size.
const PIECE_BYTES: usize = 128 << 10;
/// Pieces that wait for the writer, beside the one that it has and the one that is made.
const PIECES_WAITING_MAX: usize = 1;
/// Pieces that there are at a time: a channel has room for one more for its sender.
const PIECES_MAX: usize = PIECES_WAITING_MAX + 3;
/// Two years and more, at two hours a block.
const RANGES_MAX: u64 = 10_000;
/// As long after its end Prometheus' head keeps a range.
const HEAD_GRACE_MS: i64 = CHUNK_RANGE_MS / 2;

/// What is to be in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All there is.
    Everything,
    /// No range that a Prometheus would have in its head alone.
    WithoutHead,
}

/// Writes a snapshot to its end. Dropped before, it leaves nothing behind.
pub(crate) async fn snapshot(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    asked: Asked,
) -> Result<Snapshot, ReadFault> {
    let of_shards = read_all(&reader.router, read.lease(), &CardinalityRequest { limit: 1 }).await?;
    let ranges_ms = of_shards.iter().filter_map(|of_shard| of_shard.range_ms);
    let times_ms = ranges_ms.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let ranges = ranges(times_ms, asked).map_err(ReadFault::Snapshot)?;
    let (orders, taken) = mpsc::channel(PIECES_WAITING_MAX);
    let writer_bytes = Arc::new(AtomicUsize::new(0));
    let now_ms = reader.clock.now_ms();
    let place =
        Place { data_dir: reader.config.data_dir.clone(), name: name_at(now_ms), now_ms, random: random() };
    let of_writer = Arc::clone(&writer_bytes);
    let writing = reader.node.snapshots.writer.run(move || write(place, taken, &of_writer));
    let room = reader.read_bytes.begin();
    let feed = Feed { reader, read, orders, writer_bytes, room };
    let (fed, written) = future::join(feed.all(ranges), writing).await;
    match (fed, written?) {
        // The writer that took no more knows why.
        (Ok(Fed::All | Fed::NotTaken), written) => written.map_err(ReadFault::Snapshot),
        (Err(fault), _) => Err(fault),
    }
}

/// The ranges that samples of these times lie in, each as its blocks are aligned; the last one ends with them.
fn ranges(
    times_ms: Option<(i64, i64)>,
    asked: Asked,
) -> Result<impl Iterator<Item = RangeInclusive<i64>>, SnapshotFault> {
    // None: a range that is empty.
    let (min_ms, max_ms) = times_ms.unwrap_or((0, -1));
    let first = min_ms.div_euclid(CHUNK_RANGE_MS);
    let last = match asked {
        _ if times_ms.is_none() => first - 1,
        Asked::Everything => max_ms.div_euclid(CHUNK_RANGE_MS),
        Asked::WithoutHead => max_ms.saturating_sub(HEAD_GRACE_MS).div_euclid(CHUNK_RANGE_MS) - 1,
    };
    let count = last.saturating_sub(first).saturating_add(1).max(0) as u64;
    if count > RANGES_MAX {
        return Err(SnapshotFault::TooManyRanges { ranges: count, ranges_max: RANGES_MAX });
    }
    Ok((first..=last).map(move |range| {
        let begin_ms = range.saturating_mul(CHUNK_RANGE_MS);
        begin_ms..=begin_ms.saturating_add(CHUNK_RANGE_MS - 1).min(max_ms)
    }))
}

/// How a feed that met no fault ended.
enum Fed {
    All,
    /// The writer has met one.
    NotTaken,
}

struct Feed<'a> {
    reader: &'a Rc<Reader>,
    read: ReadInFlight,
    orders: mpsc::Sender<Order>,
    writer_bytes: Arc<AtomicUsize>,
    room: Reservation,
}

/// The writer takes no more.
struct NotTaken;

impl Feed<'_> {
    async fn all(mut self, ranges: impl Iterator<Item = RangeInclusive<i64>>) -> Result<Fed, ReadFault> {
        for range_ms in ranges {
            if let Fed::NotTaken = self.range(range_ms).await? {
                return Ok(Fed::NotTaken);
            }
        }
        Ok(self.order(Order::Finish).await.map_or(Fed::NotTaken, |()| Fed::All))
    }

    async fn range(&mut self, range_ms: RangeInclusive<i64>) -> Result<Fed, ReadFault> {
        let selection =
            Selection { min_ms: *range_ms.start(), max_ms: *range_ms.end(), ..Selection::everything() };
        self.reserve(0)?;
        let lease = self.read.lease().clone();
        let mut rows: RowStream<SeriesBatch> =
            RowStream::open(self.reader, &lease, selection, SeriesWanted::Chunks, 1).await?;
        if self.order(Order::Begin(range_ms)).await.is_err() {
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
        if self.order(Order::End(done)).await.is_err() || is_done.await.is_err() {
            return Ok(Fed::NotTaken);
        }
        Ok(Fed::All)
    }

    async fn send(&mut self, piece: SeriesBatchBuilder) -> Result<Result<(), NotTaken>, ReadFault> {
        if self.reader.shutdown.is_requested() {
            return Err(ReadFault::Snapshot(SnapshotFault::Ended));
        }
        self.reserve(piece.bytes())?;
        Ok(self.order(Order::Series(piece.finish())).await)
    }

    async fn order(&mut self, order: Order) -> Result<(), NotTaken> {
        self.orders.send(order).await.map_err(|_gone| NotTaken)
    }

    /// Takes memory for pieces, of which one may be larger than usual, and for what the writer has.
    fn reserve(&mut self, piece_bytes: usize) -> Result<(), ReadFault> {
        let pieces = PIECES_MAX * PIECE_BYTES.max(piece_bytes);
        let bytes = pieces + self.writer_bytes.load(Ordering::Relaxed);
        self.room.grow_to(bytes).map_err(|no_room| match no_room {
            BudgetExceeded::NoRoom => ReadFault::BudgetExceeded,
            BudgetExceeded::TooMuch { bytes_max } => {
                ReadFault::Snapshot(SnapshotFault::TooLarge { bytes_max })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times_ms: Option<(i64, i64)>, asked: Asked, expect: &[(i64, i64)]) {
        let found = ranges(times_ms, asked).unwrap();
        let found: Vec<_> = found.map(|range| (*range.start(), *range.end())).collect();
        assert_eq!(found, expect, "{times_ms:?} {asked:?}");
    }

    #[test]
    fn ranges_are_aligned_and_the_last_one_ends_with_the_samples() {
        const H2: i64 = CHUNK_RANGE_MS;
        check(None, Asked::Everything, &[]);
        check(None, Asked::WithoutHead, &[]);
        check(Some((5, 5)), Asked::Everything, &[(0, 5)]);
        check(Some((-1, H2)), Asked::Everything, &[(-H2, -1), (0, H2 - 1), (H2, H2)]);
        check(Some((5, H2 + H2 / 2 - 1)), Asked::WithoutHead, &[]);
        check(Some((5, H2 + H2 / 2)), Asked::WithoutHead, &[(0, H2 - 1)]);
        check(Some((5, 3 * H2)), Asked::WithoutHead, &[(0, H2 - 1), (H2, 2 * H2 - 1)]);
    }

    #[test]
    fn times_that_lie_too_far_apart_are_refused() {
        let fault = ranges(Some((i64::MIN, i64::MAX)), Asked::Everything).err().unwrap();
        assert!(matches!(fault, SnapshotFault::TooManyRanges { ranges_max: RANGES_MAX, .. }), "{fault}");
    }
}
