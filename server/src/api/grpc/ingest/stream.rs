//! One `Ingest.Stream` from its first message to its status: what it accepts, and its responses.
//!
//! Both halves are one task: the response stream polls what takes messages in, and is polled no further while
//! the client reads no responses or has no room for them. So a client that stops reading stops being
//! read, and the bytes that wait are those of HTTP/2's windows.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::api::response::cause::Cause;
use futures::Stream;
use silverback_proto::v1;
use tonic::Status;

use super::flight::BatchesInFlight;
use super::messages::{Messages, StreamMessage};
use super::stream_ingester::{CallKind, StreamIngester, stopping};
use super::{refuse_message, terms};
use crate::api::grpc::one_message::Received;
use crate::api::grpc::status::of_write_rejected;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use silverback_runtime::{reactor_polled, timeout};

/// Bytes of messages that are accepted between two looks at the reactor: about 200 µs.
const SLICE_BYTES: usize = 128 << 10;

type Ending = Result<(), Status>;

/// The responses of one stream.
pub(super) struct Responses {
    caller: Caller,
    terms: Option<v1::Terms>,
    flight: Rc<RefCell<BatchesInFlight>>,
    /// Takes the client's messages in; `None` once it has ended.
    receiving: Option<Pin<Box<dyn Future<Output = Ending>>>>,
    ending: Ending,
}

impl Responses {
    /// To a client's messages.
    pub(crate) fn new(caller: Caller, messages: Messages<Received>) -> Self {
        caller.count(|counts| {
            counts.streams += 1;
            counts.streams_open += 1;
        });
        let flight = Rc::<RefCell<BatchesInFlight>>::default();
        let receiving = Box::pin(take_in(caller.clone(), messages, Rc::clone(&flight)));
        let terms = Some(terms(&caller));
        Self { caller, terms, flight, receiving: Some(receiving), ending: Ok(()) }
    }

    fn fail(&mut self, status: Status) -> Poll<Option<Result<v1::StreamResponse, Status>>> {
        tracing::debug!(%status, "a gRPC stream ends with an error");
        self.caller.count(|counts| counts.streams_failed += 1);
        self.receiving = None;
        *self.flight.borrow_mut() = BatchesInFlight::default();
        Poll::Ready(Some(Err(status)))
    }
}

impl Drop for Responses {
    fn drop(&mut self) {
        self.caller.count(|counts| counts.streams_open -= 1);
    }
}

impl Stream for Responses {
    type Item = Result<v1::StreamResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(terms) = self.terms.take() {
            return Poll::Ready(Some(Ok(v1::StreamResponse { terms: Some(terms), ..Default::default() })));
        }
        if let Some(receiving) = &mut self.receiving
            && let Poll::Ready(ending) = receiving.as_mut().poll(context)
        {
            self.receiving = None;
            self.ending = ending;
        }
        let completed = self.flight.borrow_mut().poll_completed(&self.caller, context);
        match completed {
            Poll::Ready(Ok(response)) => Poll::Ready(Some(Ok(response))),
            Poll::Ready(Err(rejection)) => {
                self.caller.note_request(rejection.reason(), &rejection.to_string());
                self.fail(of_write_rejected(&rejection))
            }
            Poll::Pending if self.receiving.is_some() || !self.flight.borrow().is_empty() => Poll::Pending,
            // What was in flight is acknowledged: now the stream's own end.
            Poll::Pending => match std::mem::replace(&mut self.ending, Ok(())) {
                Ok(()) => Poll::Ready(None),
                Err(status) => self.fail(status),
            },
        }
    }
}

/// Takes messages in, as far as there is room for what is in flight, until the client's last.
async fn take_in(
    caller: Caller,
    mut messages: Messages<Received>,
    flight: Rc<RefCell<BatchesInFlight>>,
) -> Ending {
    let mut receiver =
        StreamIngester::new(caller.clone(), CallKind::Stream { last_number: 0 }, Rc::clone(&flight));
    let mut ending = pin!(caller.shutdown.requested());
    let mut taken_bytes = 0;
    loop {
        // No waker: whoever makes room is the stream that polls this, and it polls on.
        poll_fn(|_| if flight.borrow().has_room() { Poll::Ready(()) } else { Poll::Pending }).await;
        let mut next = pin!(next_message(&caller, &mut messages));
        let message = poll_fn(|context| match ending.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(Err(of_write_rejected(&stopping()))),
            Poll::Pending => next.as_mut().poll(context),
        });
        let Some(message) = message.await? else { return Ok(()) };
        let message_bytes = message.bytes.len();
        // With its room, which goes before the next one is waited for, or with what is in flight of it.
        let sent = receiver.take(message).await.map_err(|fault| refuse_message(&caller, &fault))?;
        caller.count(|counts| {
            counts.write_bytes += message_bytes as u64;
            counts.stream_batches += u64::from(sent.number() > 0);
        });
        if !sent.is_nothing() {
            flight.borrow_mut().push(sent);
        }
        taken_bytes += message_bytes;
        if taken_bytes >= SLICE_BYTES {
            taken_bytes = 0;
            reactor_polled().await;
        }
    }
}

/// The client's next message, `None` after its last. A client that is silent for too long gets an error.
async fn next_message(
    ingest: &Ingest,
    messages: &mut Messages<Received>,
) -> Result<Option<StreamMessage>, Status> {
    let limit = ingest.config.stream_idle_timeout;
    match timeout(limit, messages.next()).await {
        Ok(message) => message.map_err(|error| error.status()),
        Err(_) => Err(Cause::TimedOut.status(format!(
            "no message for {limit:?}: open the stream again when there is something to write"
        ))),
    }
}
