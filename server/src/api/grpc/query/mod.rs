//! `silverback.v1.Query`: samples, label sets, names and values by matchers, streamed where they can
//! be many. The ways into the shards are those of every other read.
pub(super) mod labels;
mod select;
mod selection;
mod series;

use std::rc::Rc;

use send_wrapper::SendWrapper;
use silverback_proto::v1::query_server::{Query, QueryServer};
use silverback_proto::v1::{
    LabelNamesRequest, LabelNamesResponse, LabelValuesRequest, LabelValuesResponse, SelectRequest,
    SelectResponse, SeriesRequest, SeriesResponse,
};
use tonic::codec::CompressionEncoding;
use tonic::{Request, Response};

use super::status::{self, Replied};
use super::stream::Answers;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::routing::{Asker, ReadInFlight, SharedReservation};
use silverback_model::limits::{READ_MATCHERS_MAX, READ_REQUEST_BYTES_MAX};
use silverback_runtime::timeout;

/// The query service of a core.
pub(crate) fn service(reader: &Rc<Reader>, asker: &Asker) -> QueryServer<NodeQuery> {
    let (reader, asker) = (SendWrapper::new(Rc::clone(reader)), SendWrapper::new(asker.clone()));
    QueryServer::new(NodeQuery { reader, asker })
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(READ_REQUEST_BYTES_MAX)
}

/// Answers reads of the node.
pub(crate) struct NodeQuery {
    // tonic asks for `Send`; a request stays on its core.
    reader: SendWrapper<Rc<Reader>>,
    asker: SendWrapper<Asker>,
}

impl NodeQuery {
    /// Counts a read, bounds the time until its answer begins, and returns its fault.
    fn read<T>(
        &self,
        reading: impl Future<Output = Result<T, ReadRejected>>,
    ) -> SendWrapper<impl Future<Output = Replied<T>>> {
        SendWrapper::new(counted(&self.reader, within(&self.reader, reading)))
    }
}

/// Bounds the time until an answer begins.
pub(super) async fn within<T>(
    reader: &Reader,
    reading: impl Future<Output = Result<T, ReadRejected>>,
) -> Result<T, ReadRejected> {
    let limit = reader.config.request_timeout;
    timeout(limit, reading).await.unwrap_or(Err(ReadRejected::TimedOut(limit)))
}

/// Counts a read, and returns its fault.
pub(super) async fn counted<T>(
    reader: &Reader,
    reading: impl Future<Output = Result<T, ReadRejected>>,
) -> Replied<T> {
    reader.count(|counts| counts.reads += 1);
    reading.await.map(Response::new).map_err(|fault| {
        reader.count(|counts| counts.reads_failed += 1);
        if fault.is_for_room() {
            reader.reads.room_was_refused();
        }
        tracing::debug!(%fault, "a read was refused");
        status::of_read_rejected(&fault)
    })
}

/// A message that is one answer, with its room: that is held until the answer is sent.
pub(super) fn held<T>(read: Replied<(T, SharedReservation)>) -> Replied<T> {
    read.map(|response| {
        let (message, room) = response.into_inner();
        let mut response = Response::new(message);
        response.extensions_mut().insert(SendWrapper::new(room));
        response
    })
}

/// Waits for the turn of a read whose request has so many bytes. Until it comes, the request has its room among the
/// reads in flight.
pub(super) async fn begin<M>(
    reader: &Reader,
    asker: &Asker,
    matchers: &[M],
    request_bytes: usize,
) -> Result<ReadInFlight, ReadRejected> {
    if matchers.len() > READ_MATCHERS_MAX {
        let count = matchers.len();
        let words = format!("the request has {count} matchers, at most {READ_MATCHERS_MAX} are allowed");
        return Err(ReadRejected::BadRequest(words));
    }
    let mut room = reader.read_bytes.begin();
    room.grow(request_bytes + size_of_val(matchers)).map_err(|_| ReadRejected::BudgetExceeded)?;
    reader.begin_read(asker).await
}

#[tonic::async_trait]
impl Query for NodeQuery {
    type SelectStream = Answers<SelectResponse>;

    async fn select(&self, request: Request<SelectRequest>) -> Replied<Self::SelectStream> {
        self.read(select::answer(&self.reader, &self.asker, request.into_inner())).await
    }

    type SeriesStream = Answers<SeriesResponse>;

    async fn series(&self, request: Request<SeriesRequest>) -> Replied<Self::SeriesStream> {
        self.read(series::answer(&self.reader, &self.asker, request.into_inner())).await
    }

    async fn label_names(&self, request: Request<LabelNamesRequest>) -> Replied<LabelNamesResponse> {
        held(self.read(labels::names(&self.reader, &self.asker, request.into_inner())).await)
    }

    async fn label_values(&self, request: Request<LabelValuesRequest>) -> Replied<LabelValuesResponse> {
        held(self.read(labels::values(&self.reader, &self.asker, request.into_inner())).await)
    }
}
