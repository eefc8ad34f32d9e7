//! Answers of many messages, made while they are sent: what is made waits for the client in a
//! bounded buffer, and a client that stops reading holds that and its permit, until others want it.

use std::future::ready;
use std::pin::Pin;
use std::rc::Rc;

use futures::channel::{mpsc, oneshot};
use futures::stream::{self, Stream, StreamExt};
use prost::Message;
use tonic::Status;

use super::status;
use crate::api::query::Reader;
use crate::api::query::stream::{StreamError, count_error, while_read};
use crate::api::response::cause::Cause;
use crate::api::response::reader_pace::{ReaderError, ReaderPace};
use crate::routing::ReadInFlight;
use silverback_runtime::spawn_background;

/// Messages that wait for a slow client before whoever makes them waits too, besides one that is
/// on its way into this.
const MESSAGES_WAITING_MAX: usize = 1;

/// Messages as a client gets them, and their end.
pub(crate) type Answers<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// The making end of a streamed answer.
pub(super) struct MessageSender<M> {
    messages: mpsc::Sender<M>,
    pace: ReaderPace,
}

impl<M: Message> MessageSender<M> {
    /// Waits for room and sends a message, at the client's pace. No slice may be held meanwhile.
    pub(crate) async fn send(&mut self, message: M) -> Result<(), ReaderError> {
        let bytes = message.encoded_len();
        self.pace.send(&mut self.messages, bytes, message).await
    }
}

/// Messages that `make` writes in the background, as long as somebody reads them.
pub(crate) fn streamed<M: Message + 'static>(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    make: impl AsyncFnOnce(&mut MessageSender<M>) -> Result<(), StreamError> + 'static,
) -> Answers<M> {
    let (messages, sent) = mpsc::channel(MESSAGES_WAITING_MAX);
    let (mut end, ended) = oneshot::channel();
    let reader = Rc::clone(reader);
    spawn_background(async move {
        let pace = ReaderPace::new(read.lease().clone());
        let mut outgoing = MessageSender { messages, pace };
        let made = while_read(make(&mut outgoing), end.cancellation()).await;
        drop((outgoing, read));
        let made = made.map_err(|fault| {
            count_error(&reader, &fault);
            status::of_stream_error(&fault)
        });
        // Nobody waits for the end of a stream that nobody reads.
        drop(end.send(made));
    });
    Box::pin(with_end(sent, ended))
}

/// The messages, and after them how it ended. A maker that went silently, by a panic for
/// example, left an answer that isn't whole.
fn with_end<M>(
    messages: impl Stream<Item = M>,
    ended: oneshot::Receiver<Result<(), Status>>,
) -> impl Stream<Item = Result<M, Status>> {
    let end = stream::once(ended).filter_map(|end| {
        ready(match end {
            Ok(Ok(())) => None,
            Ok(Err(status)) => Some(Err(status)),
            Err(oneshot::Canceled) => Some(Err(Cause::Internal.status("the answer broke off"))),
        })
    });
    messages.map(Ok).chain(end)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use tonic::Code;

    use super::*;

    fn check(end: impl FnOnce(oneshot::Sender<Result<(), Status>>), expect: Option<Code>) {
        let (sender, ended) = oneshot::channel();
        end(sender);
        let got: Vec<_> = block_on(with_end(stream::iter([1, 2]), ended).collect());
        assert_eq!(got[..2].iter().map(|m| *m.as_ref().unwrap()).collect::<Vec<_>>(), [1, 2]);
        let last = got.get(2).map(|end| end.as_ref().unwrap_err().code());
        assert_eq!(last, expect);
    }

    #[test]
    fn only_a_stream_that_is_told_to_be_whole_ends_well() {
        check(|end| end.send(Ok(())).unwrap(), None);
        check(|end| end.send(Err(Status::data_loss("x"))).unwrap(), Some(Code::DataLoss));
        check(drop, Some(Code::Internal));
    }
}
