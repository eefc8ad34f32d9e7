//! `Series`: label sets with their chunks, as memory holds them, in the order of what is seen of the labels.
//!
//! A series of more than 1 MiB goes on in the next frame, its labels repeated. Series that are the same once labels are
//! left out follow each other, in frames of their own.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use prost::Message;
use silverback_proto::thanos::{SeriesRequest, ShardInfo};

use super::frames::{Frames, STORED, chunk_len};
use super::select;
use crate::api::grpc::query::begin;
use crate::api::grpc::stream::{Answers, MessageSender, streamed};
use crate::api::query::Reader;
use crate::api::query::external::Narrowed;
use crate::api::query::frame::chunks_of_frame;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::api::query::stream::StreamError;
use crate::routing::Asker;
use silverback_runtime::Slice;
use silverback_storage::message::{
    ExternalView, HashedLabels, QueryShard, Selection, SeriesBatch, SeriesView, SeriesWanted,
};

/// Opens the read, so that a refusal has a status, and streams its series.
pub(super) async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: SeriesRequest,
) -> Result<Answers<Bytes>, ReadRejected> {
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    let (min_ms, max_ms) = (request.min_time, request.max_time);
    let matchers = match select::narrowed(reader, &request.matchers).await? {
        Narrowed::None => return Ok(none()),
        Narrowed::To(matchers) if matchers.is_empty() => return Err(select::too_broad()),
        Narrowed::To(matchers) => matchers.into(),
    };
    let limits = Limits::of(&request);
    let wanted = wanted(reader, request)?;
    let selection = Selection { matchers, min_ms, max_ms };
    let rows: RowStream<SeriesBatch> =
        RowStream::open_all(reader, read.lease(), selection, wanted, 1).await?;
    let core_of_read = Rc::clone(reader);
    Ok(streamed(reader, read, async move |outgoing| send(&core_of_read, rows, limits, outgoing).await))
}

/// An answer of nothing.
pub(super) fn none() -> Answers<Bytes> {
    Box::pin(stream::empty())
}

/// How much of what is found is sent, and how many series at a time.
#[derive(Debug, Clone, Copy)]
struct Limits {
    series: Option<usize>,
    batch_series: usize,
}

impl Limits {
    fn of(request: &SeriesRequest) -> Self {
        let batch_series = select::limit(request.response_batch_size).unwrap_or(1);
        Self { series: select::limit(request.limit), batch_series }
    }
}

fn wanted(reader: &Reader, request: SeriesRequest) -> Result<SeriesWanted, ReadRejected> {
    let shard = request.shard_info.map(query_shard).transpose()?.flatten();
    let left_out = select::names(request.without_replica_labels, "without_replica_labels")?;
    let view = Arc::new(ExternalView::new(reader.external.labels(), &left_out, shard));
    Ok(match request.skip_chunks {
        true => SeriesWanted::ExternalLabelSets(view),
        false => SeriesWanted::ExternalChunks(view),
    })
}

/// `None`: all series are.
pub(super) fn query_shard(asked: ShardInfo) -> Result<Option<QueryShard>, ReadRejected> {
    let ShardInfo { shard_index, total_shards, by, labels } = asked;
    if total_shards < 1 {
        return Ok(None);
    }
    if !(0..total_shards).contains(&shard_index) {
        let words = format!("shard_info: there is no shard {shard_index} of {total_shards}");
        return Err(ReadRejected::BadRequest(words));
    }
    let names = select::names(labels, "shard_info")?;
    let hashed = if by { HashedLabels::By(names) } else { HashedLabels::Without(names) };
    Ok(Some(QueryShard { index: shard_index as u64, total: total_shards as u64, hashed }))
}

async fn send(
    reader: &Reader,
    mut rows: RowStream<SeriesBatch>,
    limits: Limits,
    outgoing: &mut MessageSender<Bytes>,
) -> Result<(), StreamError> {
    let (mut frames, mut counted) = (Frames::new(STORED, limits.batch_series), Counted::default());
    let mut held = None;
    while let Some(slice) = rows.advance(held).await? {
        let series = rows.series();
        if limits.series.is_some_and(|series_max| !counted.takes(series, series_max)) {
            break;
        }
        held = send_series(reader, series, &mut frames, outgoing, slice).await?;
    }
    let rest = frames.take();
    if !rest.is_empty() {
        outgoing.send(rest).await?;
    }
    Ok(())
}

async fn send_series(
    reader: &Reader,
    series: SeriesView<'_>,
    frames: &mut Frames,
    outgoing: &mut MessageSender<Bytes>,
    slice: Slice,
) -> Result<Option<Slice>, StreamError> {
    let (mut left, mut held) = (series.chunks(), Some(slice));
    loop {
        let count = chunks_of_frame(series.labels, left.clone(), chunk_len);
        // A frame that isn't a series' last fills a piece, so no slice goes on from frame to frame.
        let slice = match held.take() {
            Some(slice) => slice,
            None => reader.slicer.begin().await,
        };
        frames.put_series(series.labels, left.clone().take(count));
        if frames.is_full() {
            drop(slice);
            outgoing.send(frames.take()).await?;
        } else {
            held = Some(slice);
        }
        if let Some(last) = count.checked_sub(1) {
            left.nth(last);
        }
        if left.len() == 0 {
            return Ok(held);
        }
    }
}

/// Counts series by their labels: those that are the same once labels are left out are one.
#[derive(Debug, Default)]
struct Counted {
    series: usize,
    last: Vec<u8>,
}

impl Counted {
    /// Whether a series is among the first so many.
    fn takes(&mut self, series: SeriesView<'_>, series_max: usize) -> bool {
        if self.series == 0 || self.last != series.labels.0 {
            self.series += 1;
            self.last.clear();
            self.last.extend_from_slice(series.labels.0);
        }
        self.series <= series_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shard_index: i64, total_shards: i64, expect: Result<bool, &str>) {
        let asked = ShardInfo { shard_index, total_shards, by: true, labels: vec!["b".into(), "a".into()] };
        match (query_shard(asked), expect) {
            (Ok(shard), Ok(is_one)) => {
                assert_eq!(shard.is_some(), is_one);
                let sorted = HashedLabels::By(vec!["a".into(), "b".into()]);
                assert!(
                    shard.is_none_or(|shard| shard.hashed == sorted && shard.total == total_shards as u64)
                );
            }
            (Err(fault), Err(words)) => assert!(fault.to_string().contains(words), "{fault}"),
            (found, _) => panic!("{shard_index} of {total_shards}: {found:?}"),
        }
    }

    #[test]
    fn a_query_shard_is_one_of_those_that_there_are() {
        check(0, 0, Ok(false));
        check(5, -1, Ok(false));
        check(0, 1, Ok(true));
        check(6, 7, Ok(true));
        check(7, 7, Err("no shard 7 of 7"));
        check(-1, 7, Err("no shard -1 of 7"));
    }
}
