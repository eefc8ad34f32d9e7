//! Answers that are made while they are sent: what is made waits for the client in a bounded buffer.
//!
//! A slice is the executor's only one: it is never held while a shard or the client is awaited.

use std::rc::Rc;

use bytes::Bytes;

use crate::api::body::{ClientGone, FrameSender, ResponseBody};
use crate::api::core::Core;
use crate::api::fanout::FanoutError;
use crate::api::read_permit::ReadPermit;
use crate::gorilla::ChunkError;
use crate::limits::STREAM_BUFFER_BYTES;
use crate::runtime::spawn_background;

/// Why a stream ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum StreamFault {
    /// Nobody reads any more.
    #[error(transparent)]
    ClientGone(#[from] ClientGone),
    /// The shards didn't answer.
    #[error(transparent)]
    Shards(#[from] FanoutError),
    /// A chunk in memory can't be read.
    #[error("a stored chunk can't be read: {0}")]
    Chunk(#[from] ChunkError),
}

/// The making end of a streamed answer.
pub struct Outgoing {
    made: Vec<u8>,
    frames: FrameSender,
}

impl Outgoing {
    /// What is made and not sent on yet; more goes to its end.
    pub fn made(&mut self) -> &mut Vec<u8> {
        &mut self.made
    }

    /// Whether it is time to send on: nobody may hold a slice then.
    pub fn is_full(&self) -> bool {
        self.made.len() >= STREAM_BUFFER_BYTES
    }

    /// Sends on once there is enough, and waits for the client's room.
    pub async fn send_if_full(&mut self) -> Result<(), ClientGone> {
        match self.is_full() {
            true => self.send().await,
            false => Ok(()),
        }
    }

    /// Sends bytes on that are made already.
    pub async fn send_piece(&mut self, piece: Bytes) -> Result<(), ClientGone> {
        self.frames.send(piece).await
    }

    async fn send(&mut self) -> Result<(), ClientGone> {
        let made = std::mem::take(&mut self.made);
        if made.is_empty() {
            return Ok(());
        }
        self.frames.send(made).await
    }
}

/// A body that `make` writes in the background. It holds the permit until its end; its failure cuts
/// the connection, so that the client doesn't take a part for the whole.
pub fn streamed(
    core: Rc<Core>,
    permit: ReadPermit,
    make: impl AsyncFnOnce(&mut Outgoing) -> Result<(), StreamFault> + 'static,
) -> ResponseBody {
    let (frames, body) = ResponseBody::stream();
    spawn_background(async move {
        let mut outgoing = Outgoing { made: Vec::new(), frames };
        let made = match make(&mut outgoing).await {
            Ok(()) => outgoing.send().await.map_err(StreamFault::from),
            Err(fault) => Err(fault),
        };
        match made {
            Ok(()) => outgoing.frames.finish(),
            Err(fault) => end_early(&core, outgoing.frames, &fault).await,
        }
        drop(permit);
    });
    body
}

async fn end_early(core: &Core, frames: FrameSender, fault: &StreamFault) {
    match fault {
        StreamFault::ClientGone(_) => tracing::debug!("a client went away from its read"),
        StreamFault::Shards(_) | StreamFault::Chunk(_) => {
            core.count(|counts| counts.reads_failed += 1);
            tracing::warn!(%fault, "an answer broke off");
            frames.break_off(fault).await;
        }
    }
}
