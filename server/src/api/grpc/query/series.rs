//! Label sets, without samples.

use std::rc::Rc;

use prost::Message;
use silverback_proto::v1::{LabelSet, SeriesRequest, SeriesResponse};

use super::begin;
use super::labels::{proto_labels, text_bytes};
use super::selection::selection;
use crate::api::grpc::stream::{Answers, streamed};
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::api::query::selector::Breadth;
use crate::routing::Asker;
use silverback_model::limits::STREAM_BUFFER_BYTES;
use silverback_storage::message::{SeriesBatch, SeriesWanted};

/// The label sets that match, ascending.
pub(super) async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: SeriesRequest,
) -> Result<Answers<SeriesResponse>, ReadRejected> {
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    let selection = selection(reader, &request.matchers, request.range, Breadth::Narrowed).await?;
    let mut stream: RowStream<SeriesBatch> =
        RowStream::open_all(reader, read.lease(), selection, SeriesWanted::LabelSets, 1).await?;
    Ok(streamed(reader, read, async move |outgoing| {
        let (mut response, mut bytes, mut held) = (SeriesResponse::default(), 0, None);
        while let Some(slice) = stream.advance(held).await? {
            let labels = proto_labels(stream.series().labels);
            held = Some(slice);
            bytes += text_bytes(&labels);
            response.series.push(LabelSet { labels });
            if bytes >= STREAM_BUFFER_BYTES {
                drop(held.take());
                outgoing.send(std::mem::take(&mut response)).await?;
                bytes = 0;
            }
        }
        if !response.series.is_empty() {
            outgoing.send(response).await?;
        }
        Ok(())
    }))
}
