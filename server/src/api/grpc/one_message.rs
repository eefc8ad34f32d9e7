//! The body of a request as it comes. One that is one message has the time and the room of every request: it comes
//! within the request timeout, and what has come counts among the requests in flight.
//!
//! tonic waits for a message for as long as its connection lives, and a client that answers pings keeps
//! that alive forever.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame};
use send_wrapper::SendWrapper;
use silverback_runtime::WatchedBody;
use tonic::Status;

use super::request_body::broke_off;
use crate::api::http::request_body::BodyError;
use crate::api::ingest::Ingest;
use crate::routing::Reservation;
use silverback_runtime::{now, sleep};

/// A request's body as it arrives.
pub struct Received {
    body: WatchedBody,
    /// Those of one message. How long a stream may take, and what it may hold, is its reader's to bound.
    // tonic asks for `Send`; a request stays on its core.
    bounds: Option<SendWrapper<Bounds>>,
}

/// A fault of a body, as its caller expects it.
pub(crate) type ToStatus = fn(BodyError) -> Status;

struct Bounds {
    ingest: Rc<Ingest>,
    reserved: Reservation,
    told: ToStatus,
    began: Instant,
    /// Armed once the body has to be waited for: mostly it is there with its head.
    time: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Received {
    /// The body of a request of one message that begins now; `told` is how its method reports that it wasn't read.
    pub(crate) fn message(ingest: &Rc<Ingest>, body: WatchedBody, told: ToStatus) -> Self {
        let (ingest, reserved) = (Rc::clone(ingest), ingest.bodies.begin());
        let bounds = Bounds { ingest, reserved, told, began: now(), time: None };
        Self { body, bounds: Some(SendWrapper::new(bounds)) }
    }

    /// The body of a request of as many messages as come.
    pub(crate) fn stream(body: WatchedBody) -> Self {
        Self { body, bounds: None }
    }
}

impl Bounds {
    fn make_room(&mut self, bytes: usize) -> Result<(), Status> {
        self.reserved.grow(bytes).map_err(|_| self.refuse(BodyError::BudgetExceeded))
    }

    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let limit = self.ingest.config.request_timeout;
        let began = self.began;
        let left = || -> Duration { limit.saturating_sub(began.elapsed()) };
        let time = self.time.get_or_insert_with(|| Box::pin(sleep(left())));
        time.as_mut().poll(context).map(|()| self.refuse(BodyError::TimedOut(limit)))
    }

    fn refuse(&self, error: BodyError) -> Status {
        self.ingest.count(|counts| counts.grpc_requests_unread += 1);
        tracing::debug!(%error, "a gRPC request was given up");
        (self.told)(error)
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { body, bounds } = &mut *self;
        match (Pin::new(body).poll_frame(context), bounds) {
            (Poll::Ready(Some(Ok(frame))), bounds) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let room = bounds.as_mut().map_or(Ok(()), |bounds| bounds.make_room(bytes));
                Poll::Ready(Some(room.map(|()| frame)))
            }
            (Poll::Ready(Some(Err(error))), _) => Poll::Ready(Some(Err(broke_off(error)))),
            (Poll::Ready(None), _) => Poll::Ready(None),
            (Poll::Pending, Some(bounds)) => bounds.poll_time(context).map(|status| Some(Err(status))),
            (Poll::Pending, None) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl std::fmt::Debug for Received {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Received").field("body", &self.body).finish_non_exhaustive()
    }
}
