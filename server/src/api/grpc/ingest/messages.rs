//! A stream's messages, taken off its body one at a time: put together, decompressed, and each counted
//! among the requests in flight as long as it lives. Between two messages a stream holds what came and isn't
//! read yet, which is counted too, and nothing else: what tonic reads messages into stays as large as the
//! largest of them, for as long as the stream lives.

use std::io::Read;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::HeaderName;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use snap::read::FrameDecoder;
use tonic::Status;

use crate::api::grpc::status::of_write_rejected;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::response::cause::Cause;
use crate::routing::{ByteBudget, Reservation};
use silverback_runtime::{now, reactor_polled, sleep, timeout};

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// Before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Decompressed bytes between two looks at the reactor: about 200 µs.
const SLICE_BYTES: u64 = 64 << 10;
/// What a zstd message may refer back over, as a power of two: more than a message has.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How long a message that finds no room waits for some: its stream's window fills meanwhile.
pub(super) const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);
const ROOM_AGAIN: Duration = Duration::from_millis(5);
/// How long one that has waited for room keeps the others waiting where its client sends nothing.
const TURN_IDLE_MAX: Duration = Duration::from_secs(1);

/// How messages are compressed, if they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// They are not.
    Identity,
    Gzip,
    Zstd,
    /// Snappy's frame format.
    Snappy,
}

impl Encoding {
    /// Takes the encoding out of a request's headers. One that isn't spoken stays there, for tonic to refuse.
    pub(crate) fn take(headers: &mut HeaderMap) -> Self {
        let encoding = match headers.get(&ENCODING).map(|encoding| encoding.as_bytes()) {
            Some(b"gzip") => Self::Gzip,
            Some(b"zstd") => Self::Zstd,
            Some(b"snappy") => Self::Snappy,
            _none_or_another => return Self::Identity,
        };
        headers.remove(&ENCODING);
        encoding
    }
}

/// What messages may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MessageBounds {
    /// Bytes of one as it is sent, ...
    pub sent_bytes_max: usize,
    /// ... and decompressed.
    pub bytes_max: usize,
    /// How long one that finds no room waits for some.
    pub room_wait: Duration,
}

impl MessageBounds {
    /// Those of a stream, whose messages have so many bytes at most: it is held up where others have the room.
    pub(crate) fn of_stream(bytes_max: usize) -> Self {
        Self { sent_bytes_max: bytes_max, bytes_max, room_wait: ROOM_WAIT_MAX }
    }
}

/// Why there is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    /// It is larger than it may be, as it came or decompressed.
    #[error("a message may have {bytes_max} bytes")]
    TooLarge {
        /// What it may have.
        bytes_max: usize,
    },
    /// It isn't framed or compressed as it says.
    #[error("{0}")]
    Broken(String),
    /// Others have the room.
    #[error("{}", WriteRejected::BudgetExceeded)]
    BudgetExceeded,
}

impl MessageError {
    /// As gRPC's own implementations say it.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::TooLarge { .. } => Cause::TooLarge.status(self.to_string()),
            Self::Broken(words) => Cause::Internal.status(words),
            Self::BudgetExceeded => of_write_rejected(&WriteRejected::BudgetExceeded),
        }
    }
}

impl From<MessageError> for WriteRejected {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::TooLarge { bytes_max } => Self::BodyTooLarge { limit_bytes: bytes_max },
            MessageError::Broken(words) => Self::Message(words),
            MessageError::BudgetExceeded => Self::BudgetExceeded,
        }
    }
}

/// The messages of one stream.
#[derive(Debug)]
pub(crate) struct Messages<B> {
    body: Pin<Box<B>>,
    encoding: Encoding,
    bounds: MessageBounds,
    budget: ByteBudget,
    /// What came and isn't read yet, ...
    rest: Bytes,
    /// ... and its room, that of the whole piece until it is used up.
    rest_room: Reservation,
    /// How long the present message may still wait for room, in all: streams of one connection share its window, and those
    /// that wait keep the others' bytes from coming.
    wait_left: Duration,
}

/// One message, and the room that it takes until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamMessage {
    /// As it was before it was compressed.
    pub bytes: Bytes,
    /// What it takes.
    pub room: Reservation,
}

impl<B: Body<Data = Bytes>> Messages<B> {
    /// The messages in a body, within their bounds; each takes room in `budget`.
    pub(crate) fn new(body: B, encoding: Encoding, bounds: MessageBounds, budget: ByteBudget) -> Self {
        let rest_room = budget.begin();
        let wait_left = bounds.room_wait;
        Self { body: Box::pin(body), encoding, bounds, budget, rest: Bytes::new(), rest_room, wait_left }
    }

    /// The next message; none after the last, and where the client has gone.
    pub(crate) async fn next(&mut self) -> Result<Option<StreamMessage>, MessageError> {
        let mut room = self.begin();
        self.wait_left = self.bounds.room_wait;
        let Some(prefix) = self.take(PREFIX_BYTES, &mut room).await? else { return Ok(None) };
        let [flag, len @ ..] = *prefix.first_chunk::<PREFIX_BYTES>().expect("so many were asked for");
        let len = u32::from_be_bytes(len) as usize;
        if len > self.bounds.sent_bytes_max {
            return Err(MessageError::TooLarge { bytes_max: self.bounds.sent_bytes_max });
        }
        let Some(sent) = self.take(len, &mut room).await? else { return Ok(None) };
        let bytes = match (flag, self.encoding) {
            (0, _) => sent,
            (1, Encoding::Identity) => {
                let words = "a message is compressed, and grpc-encoding doesn't say how";
                return Err(MessageError::Broken(words.to_owned()));
            }
            (1, Encoding::Gzip) => self.decompress(MultiGzDecoder::new(&*sent), 1, &mut room).await?,
            // What it may refer back to is kept apart.
            (1, Encoding::Zstd) => self.decompress(zstd_decoder(&sent)?, 2, &mut room).await?,
            (1, Encoding::Snappy) => self.decompress(FrameDecoder::new(&*sent), 1, &mut room).await?,
            (other, _) => {
                return Err(MessageError::Broken(format!("a message has the flag {other}: 0 or 1")));
            }
        };
        Ok(Some(StreamMessage { bytes, room }))
    }

    /// So many bytes; none where the body ends before the first of them, or the client has gone. Bytes
    /// that came in one piece are not copied.
    async fn take(&mut self, count: usize, room: &mut Reservation) -> Result<Option<Bytes>, MessageError> {
        if self.rest.len() >= count {
            return Ok(Some(self.split_rest(count)));
        }
        let mut joined = Vec::new();
        loop {
            let missing = count - joined.len();
            let piece = self.split_rest(missing.min(self.rest.len()));
            if joined.is_empty() && piece.len() == count {
                return Ok(Some(piece));
            }
            if !piece.is_empty() {
                let more = grown(&joined, piece.len(), count) - joined.capacity();
                self.make_room(room, more).await?;
                joined.reserve_exact(grown(&joined, piece.len(), count) - joined.len());
                joined.extend_from_slice(&piece);
            }
            if joined.len() == count {
                return Ok(Some(joined.into()));
            }
            match self.frame(room).await {
                // A reset, or the connection's end: there is nobody left to answer.
                Some(Err(_)) => return Ok(None),
                Some(Ok(frame)) => {
                    self.rest = frame.into_data().unwrap_or_default();
                    self.make_room(room, self.rest.len()).await?;
                    self.rest_room = room.split_off(self.rest.len());
                }
                None if joined.is_empty() => return Ok(None),
                None => return Err(MessageError::Broken("the stream ends within a message".to_owned())),
            }
        }
    }

    /// Waits for room for so many bytes more of the present message.
    async fn make_room(&mut self, room: &mut Reservation, bytes: usize) -> Result<(), MessageError> {
        let began = now();
        let made = make_room(room, bytes, self.wait_left).await;
        self.wait_left = self.wait_left.saturating_sub(began.elapsed());
        made
    }

    /// The room of a message. One that waits does so with what came of it in hand, as others do.
    fn begin(&self) -> Reservation {
        if self.bounds.room_wait.is_zero() { self.budget.begin() } else { self.budget.begin_in_line() }
    }

    /// What comes next of the body.
    async fn frame(&mut self, room: &mut Reservation) -> Option<Result<Frame<Bytes>, B::Error>> {
        if room.has_waited() {
            match timeout(TURN_IDLE_MAX, self.body.frame()).await {
                Ok(frame) => return frame,
                Err(_) => room.let_others_go_first(),
            }
        }
        self.body.frame().await
    }

    fn split_rest(&mut self, count: usize) -> Bytes {
        let piece = self.rest.split_to(count);
        if self.rest.is_empty() {
            self.rest_room = self.budget.begin();
        }
        piece
    }

    /// In slices; every byte has its room before it comes out, for each of so many copies.
    async fn decompress(
        &mut self,
        mut decoder: impl Read,
        copies: usize,
        room: &mut Reservation,
    ) -> Result<Bytes, MessageError> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.capacity();
            bytes.reserve(SLICE_BYTES as usize);
            self.make_room(room, copies * (bytes.capacity() - before)).await?;
            let read = (&mut decoder).take(SLICE_BYTES).read_to_end(&mut bytes);
            let read = read.map_err(|error| {
                MessageError::Broken(format!("a message is not compressed as grpc-encoding says: {error}"))
            })?;
            if bytes.len() > self.bounds.bytes_max {
                return Err(MessageError::TooLarge { bytes_max: self.bounds.bytes_max });
            }
            if (read as u64) < SLICE_BYTES {
                return Ok(bytes.into());
            }
            reactor_polled().await;
        }
    }
}

/// What the buffer of a message of `count` bytes has room for once `more` are in it: it doubles as they come, so
/// that a length that is only claimed takes nothing.
fn grown(joined: &Vec<u8>, more: usize, count: usize) -> usize {
    let needed = joined.len() + more;
    if needed <= joined.capacity() { joined.capacity() } else { needed.max(2 * joined.capacity()).min(count) }
}

fn zstd_decoder(sent: &[u8]) -> Result<impl Read + '_, MessageError> {
    let broken = |error| MessageError::Broken(format!("a message is not zstd: {error}"));
    let mut decoder = zstd::stream::read::Decoder::with_buffer(sent).map_err(broken)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(broken)?;
    Ok(decoder)
}

/// Waits for room for so many bytes more.
pub(super) async fn make_room(
    room: &mut Reservation,
    bytes: usize,
    wait: Duration,
) -> Result<(), MessageError> {
    if room.grow(bytes).is_ok() {
        return Ok(());
    }
    let began = now();
    while began.elapsed() < wait {
        sleep(ROOM_AGAIN).await;
        if room.grow(bytes).is_ok() {
            return Ok(());
        }
    }
    Err(MessageError::BudgetExceeded)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Write;

    use futures::executor::block_on;
    use futures::stream;
    use http_body_util::StreamBody;
    use tonic::Code;

    use super::*;

    const MAX: usize = 1000;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    /// The messages of a body that comes in pieces of so many bytes.
    fn read(body: &[u8], piece: usize, encoding: Encoding) -> Result<Vec<Vec<u8>>, Code> {
        let frames =
            body.chunks(piece).map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece))));
        let frames: Vec<_> = frames.collect();
        let budget = ByteBudget::new(1 << 20);
        let mut messages = Messages::new(
            StreamBody::new(stream::iter(frames)),
            encoding,
            MessageBounds::of_stream(MAX),
            budget.clone(),
        );
        let mut read = Vec::new();
        loop {
            match block_on(messages.next()) {
                Ok(Some(message)) => read.push(message.bytes.to_vec()),
                Ok(None) => break,
                Err(error) => return Err(error.status().code()),
            }
            let of_piece = piece.min(body.len());
            assert!(
                budget.taken_bytes() <= of_piece,
                "between messages a stream holds the last piece's rest"
            );
        }
        assert_eq!(budget.taken_bytes(), 0, "it is used up");
        Ok(read)
    }

    fn check(body: &[u8], encoding: Encoding, expect: Result<&[&[u8]], Code>) {
        for piece in [1, 3, 7, 100, usize::MAX] {
            let expect = expect.map(|messages| messages.iter().map(|message| message.to_vec()).collect());
            assert_eq!(read(body, piece, encoding), expect, "in pieces of {piece}");
        }
    }

    fn gzip(message: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(message).unwrap();
        encoder.finish().unwrap()
    }

    fn snappy(message: &[u8]) -> Vec<u8> {
        let mut encoder = snap::write::FrameEncoder::new(Vec::new());
        encoder.write_all(message).unwrap();
        encoder.into_inner().unwrap()
    }

    #[test]
    fn messages_come_out_as_they_were_sent_however_they_are_cut() {
        let plain = [framed(0, b"one"), framed(0, b""), framed(0, &[3; MAX])].concat();
        check(&plain, Encoding::Identity, Ok(&[b"one", b"", &[3; MAX]]));
        check(b"", Encoding::Gzip, Ok(&[]));
        let of = |compress: fn(&[u8]) -> Vec<u8>| {
            [framed(1, &compress(b"one")), framed(0, b"two"), framed(1, &compress(&[3; MAX]))].concat()
        };
        check(&of(gzip), Encoding::Gzip, Ok(&[b"one", b"two", &[3; MAX]]));
        check(&of(snappy), Encoding::Snappy, Ok(&[b"one", b"two", &[3; MAX]]));
        let zstd = |message: &[u8]| zstd::encode_all(message, 3).unwrap();
        check(&of(zstd), Encoding::Zstd, Ok(&[b"one", b"two", &[3; MAX]]));
    }

    #[test]
    fn what_is_too_large_or_no_message_is_told() {
        check(&framed(0, &[0; MAX + 1]), Encoding::Identity, Err(Code::ResourceExhausted));
        check(&framed(1, &gzip(&[0; MAX + 1])), Encoding::Gzip, Err(Code::ResourceExhausted));
        check(&framed(1, &snappy(&[0; 500_000])), Encoding::Snappy, Err(Code::ResourceExhausted));
        check(&framed(1, b"no gzip"), Encoding::Gzip, Err(Code::Internal));
        check(&framed(1, b"no zstd"), Encoding::Zstd, Err(Code::Internal));
        check(&framed(1, b"x"), Encoding::Identity, Err(Code::Internal));
        check(&framed(7, b"x"), Encoding::Identity, Err(Code::Internal));
        check(&framed(0, b"cut off")[..9], Encoding::Identity, Err(Code::Internal));
        check(&[0, 0], Encoding::Identity, Err(Code::Internal));
    }

    #[test]
    fn a_length_that_is_only_claimed_takes_nothing() {
        let frames = [&(1u32 << 20).to_be_bytes()[..], b"0123456789"].concat();
        let frames = [vec![0], frames].concat();
        let first: Result<Frame<Bytes>, Infallible> = Ok(Frame::data(frames.into()));
        let body = StreamBody::new(futures::StreamExt::chain(stream::iter([first]), stream::pending()));
        let budget = ByteBudget::new(4 << 20);
        let mut messages =
            Messages::new(body, Encoding::Identity, MessageBounds::of_stream(4 << 20), budget.clone());
        let mut next = Box::pin(messages.next());
        assert!(futures::FutureExt::now_or_never(&mut next).is_none());
        assert_eq!(budget.taken_bytes(), 10);
        drop(next);
        assert_eq!(budget.taken_bytes(), 0);
    }
}
