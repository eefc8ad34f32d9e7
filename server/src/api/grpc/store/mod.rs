//! Thanos' APIs for Thanos Query: `thanos.Store`, `thanos.Exemplars`, `thanos.Query` and `thanos.info.Info`. The ways into
//! the shards are those of every other read.
//!
//! Series are seen here with the node's external labels, as a store beside others has to give them; nothing is stored
//! with these.
mod evaluated;
mod exemplars;
mod framed;
mod frames;
mod info;
mod labels;
mod query;
mod select;
mod series;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use http::Request;
use prost::Message;
use silverback_proto::thanos;
use silverback_proto::thanos::info::InfoRequest;
use tonic::Status;
use tonic::server::UnaryService;

use super::query::{counted, held, within};
use super::request_body::RequestBody;
use super::stream::Answers;
use super::{codec, with_room};
use crate::api::query::Reader;
use crate::api::query::http_api::promql::QueryCaller;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::response::NodeResponse;
use crate::routing::{Asker, SharedReservation};
use silverback_model::limits::READ_REQUEST_BYTES_MAX;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreMethod {
    Info,
    Series,
    LabelNames,
    LabelValues,
    Exemplars,
    Query,
    QueryRange,
}

/// Answers one call.
pub(super) async fn answer(
    reader: &Rc<Reader>,
    asker: &Asker,
    client: QueryCaller,
    method: StoreMethod,
    request: Request<RequestBody>,
) -> NodeResponse {
    match method {
        StoreMethod::Info => {
            unary(reader, request, async |_: InfoRequest| info::answer(reader).map(free)).await
        }
        StoreMethod::LabelNames => {
            unary(reader, request, async |asked: thanos::LabelNamesRequest| {
                labels::names(reader, asker, asked).await
            })
            .await
        }
        StoreMethod::LabelValues => {
            unary(reader, request, async |asked: thanos::LabelValuesRequest| {
                labels::values(reader, asker, asked).await
            })
            .await
        }
        StoreMethod::Series => {
            streaming(reader, request, async |asked| {
                within(reader, series::answer(reader, asker, asked)).await
            })
            .await
        }
        StoreMethod::Exemplars => {
            streaming(reader, request, async |asked| {
                within(reader, exemplars::answer(reader, asker, asked)).await
            })
            .await
        }
        // They have a time of their own.
        StoreMethod::Query => {
            streaming(reader, request, async |asked| query::instant(reader, asker, client, asked).await).await
        }
        StoreMethod::QueryRange => {
            streaming(reader, request, async |asked| query::range(reader, asker, client, asked).await).await
        }
    }
}

/// An answer, and the room that it takes until it is sent, if it takes any to speak of.
type Roomed<A> = (A, Option<SharedReservation>);

fn free<A>(answer: A) -> Roomed<A> {
    (answer, None)
}

/// One message for another. tonic reads it, within what a read's request may have.
async fn unary<Q, A>(
    reader: &Rc<Reader>,
    request: Request<RequestBody>,
    answer: impl AsyncFnOnce(Q) -> Result<Roomed<A>, ReadRejected>,
) -> NodeResponse
where
    Q: Message + Default,
    A: Message + Send + 'static,
{
    asked(reader, request, async |question| within(reader, answer(question)).await).await
}

/// The same in whatever time it takes.
async fn asked<Q, A>(
    reader: &Rc<Reader>,
    request: Request<RequestBody>,
    answer: impl AsyncFnOnce(Q) -> Result<Roomed<A>, ReadRejected>,
) -> NodeResponse
where
    Q: Message + Default,
    A: Message + Send + 'static,
{
    let service = UnaryHandler(Some(async move |message: Bytes| {
        let answered = counted(reader, async move { answer(decode(&message)?).await }).await?;
        let (answer, room) = answered.into_inner();
        match room {
            Some(room) => held(Ok(tonic::Response::new((answer, room)))),
            None => Ok(tonic::Response::new(answer)),
        }
    }));
    let mut grpc = codec::raw::<A>(reader).max_decoding_message_size(READ_REQUEST_BYTES_MAX);
    with_room(grpc.unary(service, request).await)
}

/// One message for many, which come framed, many in a piece: tonic reads the one, and refuses it where it has to, and
/// the others go past it, so that they aren't copied once more. How long it may take until they begin is the caller's.
async fn streaming<Q: Message + Default>(
    reader: &Rc<Reader>,
    request: Request<RequestBody>,
    answer: impl AsyncFnOnce(Q) -> Result<Answers<Bytes>, ReadRejected>,
) -> NodeResponse {
    let opened = RefCell::new(None);
    let refused = asked(reader, request, async |question| {
        let answers = answer(question).await?;
        *opened.borrow_mut() = Some(answers);
        Ok(free(()))
    })
    .await;
    opened.into_inner().map_or(refused, framed::respond)
}

fn decode<Q: Message + Default>(message: &Bytes) -> Result<Q, ReadRejected> {
    // A clone is no copy: what is decoded shares the bytes.
    Q::decode(message.clone())
        .map_err(|error| ReadRejected::BadRequest(format!("the message is malformed: {error}")))
}

/// A question that is answered once.
struct UnaryHandler<F>(Option<F>);

impl<F, Answering, A> UnaryService<Bytes> for UnaryHandler<F>
where
    F: FnOnce(Bytes) -> Answering,
    Answering: Future<Output = Result<tonic::Response<A>, Status>>,
    A: Message + Send + 'static,
{
    type Response = A;
    type Future = Answering;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let answer = self.0.take().expect("tonic asks once");
        answer(request.into_inner())
    }
}
