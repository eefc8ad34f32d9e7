//! Request bodies as tonic takes them in. tonic knows gzip and zstd; snappy, which Thanos speaks, is
//! taken off here: message by message, so that what tonic sees was never compressed.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::Request;
use http::header::HeaderName;
use http_body::{Body, Frame};
use snap::read::FrameDecoder;
use tonic::Status;

use crate::api::response::cause::Cause;

use super::one_message::Received;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const SNAPPY: &str = "snappy";

/// Before each message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// A request's body, as tonic reads it.
#[derive(Debug)]
pub struct RequestBody<B = Received> {
    body: B,
    /// Of messages in snappy's frame format, which are decompressed as they come.
    snappy: Option<SnappyMessages>,
}

#[derive(Debug)]
struct SnappyMessages {
    /// What came and isn't a whole message yet.
    received: BytesMut,
    message_bytes_max: usize,
}

/// The request with the body that its encoding asks for.
pub(crate) fn decoded(request: Request<Received>, message_bytes_max: usize) -> Request<RequestBody> {
    let (mut head, body) = request.into_parts();
    let is_snappy = head.headers.get(&ENCODING).is_some_and(|encoding| encoding == SNAPPY);
    if is_snappy {
        head.headers.remove(ENCODING);
    }
    let snappy = is_snappy.then(|| SnappyMessages { received: BytesMut::new(), message_bytes_max });
    Request::from_parts(head, RequestBody { body, snappy })
}

/// The client hung up, or broke the protocol.
pub(crate) fn broke_off(error: impl std::fmt::Display) -> Status {
    Cause::BrokeOff.status(format!("the request broke off: {error}"))
}

impl SnappyMessages {
    /// The next whole message, decompressed, after a prefix that says so.
    fn next_message(&mut self) -> Result<Option<Bytes>, Status> {
        let Some([flag, len @ ..]) = self.received.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let len = u32::from_be_bytes(*len) as usize;
        if len > self.message_bytes_max {
            return Err(self.too_large());
        }
        if self.received.len() < PREFIX_BYTES + len {
            return Ok(None);
        }
        let is_compressed = *flag & 1 == 1;
        self.received.advance(PREFIX_BYTES);
        let message = self.received.split_to(len).freeze();
        let message = if is_compressed { self.decompress(&message)? } else { message.to_vec() };
        let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
        framed.put_u8(0);
        framed.put_u32(message.len() as u32);
        framed.put_slice(&message);
        Ok(Some(framed.freeze()))
    }

    fn decompress(&self, message: &[u8]) -> Result<Vec<u8>, Status> {
        let mut out = Vec::new();
        let limit = self.message_bytes_max as u64 + 1;
        let read = FrameDecoder::new(message).take(limit).read_to_end(&mut out);
        read.map_err(|error| Cause::Invalid.status(format!("the message is not snappy: {error}")))?;
        if out.len() > self.message_bytes_max { Err(self.too_large()) } else { Ok(out) }
    }

    fn too_large(&self) -> Status {
        Cause::TooLarge.status(format!("a message may have {} bytes", self.message_bytes_max))
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes, Error = Status> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { body, snappy } = &mut *self;
        let Some(messages) = snappy else { return Pin::new(body).poll_frame(context) };
        loop {
            if let Some(next) = messages.next_message().transpose() {
                return Poll::Ready(Some(next.map(Frame::data)));
            }
            match ready!(Pin::new(&mut *body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(received) => messages.received.extend_from_slice(&received),
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers.map_data(|_| Bytes::new())))),
                },
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None if messages.received.is_empty() => return Poll::Ready(None),
                None => {
                    messages.received.clear();
                    return Poll::Ready(Some(Err(
                        Cause::BrokeOff.status("the request ends within a message")
                    )));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.snappy.is_none() && self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures::executor::block_on;
    use http_body_util::{BodyExt, Full};
    use snap::write::FrameEncoder;

    use super::*;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    fn snappy(message: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::new(Vec::new());
        encoder.write_all(message).unwrap();
        framed(1, &encoder.into_inner().unwrap())
    }

    fn check(body: Vec<u8>, expect: Result<Vec<u8>, tonic::Code>) {
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
        let snappy = Some(SnappyMessages { received: BytesMut::new(), message_bytes_max: 1000 });
        let body = RequestBody { body, snappy };
        let read = block_on(body.collect()).map(|read| read.to_bytes().to_vec());
        assert_eq!(read.map_err(|status| status.code()), expect);
    }

    #[test]
    fn messages_are_decompressed_one_by_one() {
        let messages = [snappy(b"one"), framed(0, b"two"), snappy(&[3; 1000])].concat();
        check(messages, Ok([framed(0, b"one"), framed(0, b"two"), framed(0, &[3; 1000])].concat()));
        check(Vec::new(), Ok(Vec::new()));
    }

    #[test]
    fn what_is_too_large_or_no_message_is_told() {
        use tonic::Code::{Cancelled, InvalidArgument, ResourceExhausted};
        check(snappy(&[0; 1001]), Err(ResourceExhausted));
        check(framed(0, &[0; 1001]), Err(ResourceExhausted));
        check(framed(1, b"not snappy"), Err(InvalidArgument));
        check(framed(0, b"cut off")[..9].to_vec(), Err(Cancelled));
        check(vec![1, 0], Err(Cancelled));
    }
}
