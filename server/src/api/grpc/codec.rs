//! How tonic hands messages over: requests as the bytes that they are, answers by prost.

use std::marker::PhantomData;

use bytes::{Buf, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::Grpc;

use crate::api::core::CoreContext;
use crate::api::response::cause::Cause;
use silverback_model::limits::GRPC_MESSAGE_BYTES_MAX;

/// Takes requests in undecoded, without a copy of their bytes.
#[derive(Debug)]
pub struct RawRequests<A>(PhantomData<A>);

/// Encodes answers.
#[derive(Debug)]
pub struct AnswerEncoder<A>(PhantomData<A>);

/// Decodes nothing.
#[derive(Debug)]
pub struct RawDecoder;

/// A method whose requests are accepted undecoded, compressed or not.
pub(crate) fn raw<A: Message + Send + 'static>(core: &CoreContext) -> Grpc<RawRequests<A>> {
    Grpc::new(RawRequests(PhantomData))
        .accept_compressed(CompressionEncoding::Gzip)
        .accept_compressed(CompressionEncoding::Zstd)
        .max_decoding_message_size(message_bytes_max(core))
}

/// A message in bytes, decompressed.
pub(crate) fn message_bytes_max(core: &CoreContext) -> usize {
    core.config.max_decoded_bytes.min(GRPC_MESSAGE_BYTES_MAX)
}

impl<A: Message + Send + 'static> Codec for RawRequests<A> {
    type Encode = A;
    type Decode = Bytes;
    type Encoder = AnswerEncoder<A>;
    type Decoder = RawDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        AnswerEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        RawDecoder
    }
}

impl<A: Message> Encoder for AnswerEncoder<A> {
    type Item = A;
    type Error = Status;

    fn encode(&mut self, answer: A, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(out).map_err(|error| Cause::Internal.status(error.to_string()))
    }
}

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}
