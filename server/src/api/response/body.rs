//! Response bodies: whole ones, and streams behind a bounded channel.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::channel::{mpsc, oneshot};
use futures::{SinkExt, StreamExt};
use http_body::{Body, Frame, SizeHint};

use crate::api::grpc::deadline::TimedBody;
use crate::api::response::reader_pace::{ReaderError, ReaderPace};
use crate::routing::SharedReservation;
use silverback_model::limits::STREAM_PIECE_BYTES;

/// Frames that wait for a slow client before whoever makes them waits too.
const FRAMES_WAITING_MAX: usize = 2;

/// What a handler answers with.
#[derive(Debug)]
pub enum ResponseBody {
    /// All of it, sent once.
    Whole(Bytes),
    /// Frames as they are made.
    Stream(FrameReceiver),
    /// What a gRPC service answers: messages, and its status in the trailers.
    Grpc(tonic::body::Body),
    /// One of these, as long as its client waits.
    Timed(Box<TimedBody>),
    /// One of these, with the room that it takes until it is sent.
    Held(Box<HeldBody>),
}

/// A body, and what it takes of a budget.
#[derive(Debug)]
pub struct HeldBody {
    body: ResponseBody,
    _room: SharedReservation,
}

/// The end of a stream that its client reads.
#[derive(Debug)]
pub struct FrameReceiver {
    frames: mpsc::Receiver<Result<Bytes, BrokenBodyError>>,
    is_finished: Rc<Cell<bool>>,
    /// The maker of the stream notices when this goes.
    _reading: oneshot::Receiver<Never>,
}

/// A stream that ends before its end: the connection is cut, so that nobody takes what came for all.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the response broke off: {0}")]
pub struct BrokenBodyError(pub String);

/// The making end of a stream.
#[derive(Debug)]
pub struct FrameSender {
    frames: mpsc::Sender<Result<Bytes, BrokenBodyError>>,
    is_finished: Rc<Cell<bool>>,
}

/// Says when the client has gone away.
pub(crate) type ClientGone = oneshot::Sender<Never>;

impl ResponseBody {
    /// A stream, its making end, and what says that nobody reads it.
    pub(crate) fn stream() -> (FrameSender, ClientGone, Self) {
        let (sender, receiver) = mpsc::channel(FRAMES_WAITING_MAX);
        let (gone, reading) = oneshot::channel();
        let is_finished = Rc::new(Cell::new(false));
        let received =
            FrameReceiver { frames: receiver, is_finished: Rc::clone(&is_finished), _reading: reading };
        (FrameSender { frames: sender, is_finished }, gone, Self::Stream(received))
    }

    /// The same body, which keeps its room until it is sent or nobody waits for it.
    pub(crate) fn holding(self, room: SharedReservation) -> Self {
        Self::Held(Box::new(HeldBody { body: self, _room: room }))
    }
}

impl FrameSender {
    /// Waits for room and sends a frame, at the client's pace: by pieces, for one that takes a large frame slowly would seem to
    /// take nothing.
    pub(crate) async fn send(&mut self, mut frame: Bytes, pace: &mut ReaderPace) -> Result<(), ReaderError> {
        loop {
            let piece = frame.split_to(frame.len().min(STREAM_PIECE_BYTES));
            pace.send(&mut self.frames, piece.len(), Ok(piece)).await?;
            if frame.is_empty() {
                return Ok(());
            }
        }
    }

    /// Ends the stream as whole. One that is dropped without this, by a panic for example, is broken.
    pub(crate) fn finish(self) {
        self.is_finished.set(true);
    }

    /// Ends the stream as broken.
    pub(crate) async fn break_off(mut self, why: impl ToString) {
        // A client that is gone needs no error.
        drop(self.frames.send(Err(BrokenBodyError(why.to_string()))).await);
        self.is_finished.set(true);
    }
}

impl FrameReceiver {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BrokenBodyError>>> {
        let frame = ready!(self.frames.poll_next_unpin(context));
        Poll::Ready(match frame {
            // Reported once: whoever polls again after an error finds the end.
            None if !self.is_finished.replace(true) => {
                Some(Err(BrokenBodyError("its maker ended early".to_owned())))
            }
            frame => frame,
        })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBodyError>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(frames) => frames.poll_frame(context).map(|f| f.map(|f| f.map(Frame::data))),
            Self::Grpc(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(frame.map(|f| f.map_err(|status| BrokenBodyError(status.to_string()))))
            }
            Self::Timed(body) => Pin::new(&mut **body).poll_frame(context),
            Self::Held(held) => Pin::new(&mut held.body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(_) => false,
            Self::Grpc(body) => body.is_end_stream(),
            Self::Timed(body) => body.is_end_stream(),
            Self::Held(held) => held.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
            Self::Grpc(body) => body.size_hint(),
            Self::Timed(body) => body.size_hint(),
            Self::Held(held) => held.body.size_hint(),
        }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        Self::Whole(text.into())
    }
}

impl From<&'static str> for ResponseBody {
    fn from(text: &'static str) -> Self {
        Self::Whole(Bytes::from_static(text.as_bytes()))
    }
}

/// The error of services that always answer.
pub(crate) type Never = Infallible;

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use http_body_util::BodyExt;

    use super::*;

    fn check(end: impl AsyncFnOnce(FrameSender), expect: Result<&[u8], &str>) {
        let (mut frames, _gone, body) = ResponseBody::stream();
        let collected = block_on(async {
            frames.frames.send(Ok("some".into())).await.unwrap();
            futures::join!(end(frames), body.collect()).1
        });
        let collected = collected.map(|body| body.to_bytes().to_vec()).map_err(|broken| broken.0);
        assert_eq!(collected, expect.map(<[u8]>::to_vec).map_err(str::to_owned));
    }

    #[test]
    fn only_a_stream_that_is_finished_is_whole() {
        check(async |frames| frames.finish(), Ok(b"some"));
        check(async |frames| frames.break_off("no").await, Err("no"));
        check(async |frames| drop(frames), Err("its maker ended early"));
    }
}
