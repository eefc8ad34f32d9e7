//! Answers that are made while they are sent: what is made waits for the client in a bounded buffer.
//!
//! A slice is the executor's only one: it is never held while a shard or the client is awaited.

use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use futures::future::{Either, select};

use crate::api::query::Reader;
use crate::api::response::body::{FrameSender, ResponseBody};
use crate::api::response::reader_pace::{ReaderError, ReaderPace};
use crate::routing::ReadInFlight;
use crate::routing::fanout::FanoutError;
use silverback_model::gorilla::ChunkError;
use silverback_model::histogram::HistogramChunkError;
use silverback_model::limits::{STREAM_BUFFER_BYTES, STREAM_PIECE_BYTES};
use silverback_runtime::{Slice, spawn_background};

/// Why a stream ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Nobody reads any more, or too slowly.
    #[error(transparent)]
    Reader(#[from] ReaderError),
    /// The shards didn't answer.
    #[error(transparent)]
    Shards(#[from] FanoutError),
    /// A chunk in memory can't be read.
    #[error("a stored chunk can't be read: {0}")]
    Chunk(#[from] ChunkError),
    /// A chunk of native histograms in memory can't be read.
    #[error("a stored chunk of histograms can't be read: {0}")]
    Histograms(#[from] HistogramChunkError),
}

/// The making end of a streamed answer.
pub struct AnswerSender {
    made: Vec<u8>,
    frames: FrameSender,
    pace: ReaderPace,
}

impl AnswerSender {
    /// What is made and not sent on yet; more goes to its end.
    pub(crate) fn made(&mut self) -> &mut Vec<u8> {
        &mut self.made
    }

    /// Sends on once there is enough, and waits for the client's room. The slice comes back where it didn't.
    pub(crate) async fn send_if_full(&mut self, slice: Slice) -> Result<Option<Slice>, ReaderError> {
        if self.made.len() < STREAM_BUFFER_BYTES {
            return Ok(Some(slice));
        }
        drop(slice);
        self.send().await?;
        // An answer of more than one piece has pieces of about this size.
        self.made.reserve(STREAM_PIECE_BYTES);
        Ok(None)
    }

    /// Sends bytes on that are made already.
    pub(crate) async fn send_piece(&mut self, piece: Bytes) -> Result<(), ReaderError> {
        self.frames.send(piece, &mut self.pace).await
    }

    async fn send(&mut self) -> Result<(), ReaderError> {
        let made = std::mem::take(&mut self.made);
        if made.is_empty() {
            return Ok(());
        }
        self.send_piece(made.into()).await
    }
}

/// A body that `make` writes in the background, as long as somebody reads it. Its failure cuts the
/// connection, so that the client doesn't take a part for the whole.
pub(crate) fn streamed(
    reader: Rc<Reader>,
    read: ReadInFlight,
    make: impl AsyncFnOnce(&mut AnswerSender) -> Result<(), StreamError> + 'static,
) -> ResponseBody {
    let (frames, mut gone, body) = ResponseBody::stream();
    spawn_background(async move {
        let pace = ReaderPace::new(read.lease().clone());
        let mut outgoing = AnswerSender { made: Vec::new(), frames, pace };
        let making = async {
            make(&mut outgoing).await?;
            Ok(outgoing.send().await?)
        };
        let made = while_read(making, gone.cancellation()).await;
        let AnswerSender { made: rest, frames, pace } = outgoing;
        // Before a client gets it: others may read meanwhile.
        drop((rest, pace, read));
        match made {
            Ok(()) => frames.finish(),
            Err(fault) => {
                count_error(&reader, &fault);
                break_off(frames, &fault).await;
            }
        }
    });
    body
}

/// What `making` comes to; where `gone` comes first it is dropped, and with it all that waits for it.
pub(crate) async fn while_read(
    making: impl Future<Output = Result<(), StreamError>>,
    gone: impl Future<Output = ()>,
) -> Result<(), StreamError> {
    match select(pin!(making), pin!(gone)).await {
        Either::Left((made, _)) => made,
        Either::Right(((), _)) => Err(ReaderError::Gone.into()),
    }
}

/// Counts why an answer ended before its end, and logs it.
pub(crate) fn count_error(reader: &Reader, fault: &StreamError) {
    match fault {
        StreamError::Reader(ReaderError::Gone) => tracing::debug!("a client went away from its read"),
        StreamError::Reader(ReaderError::TooSlow) => {
            reader.count(|counts| counts.reads_slow += 1);
            silverback_host::warn_limited!(%fault, "an answer broke off");
        }
        StreamError::Shards(_) | StreamError::Chunk(_) | StreamError::Histograms(_) => {
            reader.count(|counts| counts.reads_failed += 1);
            silverback_host::warn_limited!(%fault, "an answer broke off");
        }
    }
}

async fn break_off(frames: FrameSender, fault: &StreamError) {
    match fault {
        // It takes no word either: the stream ends where it is.
        StreamError::Reader(_) => drop(frames),
        StreamError::Shards(_) | StreamError::Chunk(_) | StreamError::Histograms(_) => {
            frames.break_off(fault).await
        }
    }
}
