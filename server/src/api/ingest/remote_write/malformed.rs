//! Why a body as a whole isn't a write request. What is wrong with one series alone is a
//! [`silverback_model::RefusedReason`] instead.

use silverback_model::limits::{REQUEST_SAMPLES_MAX, SYMBOLS_MAX};

/// A body that can't be read on: nothing of it may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{} request at byte {offset} of the decompressed body: {cause}", .cause.kind())]
pub struct MalformedError {
    /// Where, in the decompressed body.
    pub offset: usize,
    /// What.
    pub cause: MalformedErrorKind,
}

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedErrorKind {
    /// A field is longer than what is left of the message around it.
    #[error("the field ends past the end of its message")]
    Truncated,
    /// A varint has more than ten bytes or more than 64 bits.
    #[error("the varint is longer than 64 bits")]
    VarintTooLong,
    /// A tag has the field number zero, or one beyond 29 bits.
    #[error("the field number is out of range")]
    FieldNumber,
    /// A group, known from the first protocol buffers, opens or closes here.
    #[error("groups are not part of the protocol")]
    Group,
    /// The wire types 6 and 7 don't exist.
    #[error("the wire type does not exist")]
    UnknownWireType,
    /// A field of the protocol is encoded as another type.
    #[error("the field has the wrong wire type")]
    WrongWireType,
    /// One version's request under the other's content type.
    #[error(
        "the field is of the other version of remote write; its content type has to say \
         proto=io.prometheus.write.v2.Request for remote write 2, and mustn't for remote write 1"
    )]
    OtherVersion,
    /// Thanos' request without a field that series come in.
    #[error(
        "the request has neither timeseries (field 1) with their tenant (2) nor timeseriesTenantData (4): nothing \
         of it is known here"
    )]
    NoKnownField,
    /// A message or a text inside of the request that isn't one.
    #[error("what begins here can't be read")]
    BrokenMessage,
    /// More symbols than a request may have.
    #[error("the request has more than {SYMBOLS_MAX} symbols; send fewer series at a time")]
    TooManySymbols,
    /// More samples than a request may have.
    #[error("the request has more than {REQUEST_SAMPLES_MAX} samples; send fewer at a time")]
    TooManySamples,
    /// The label sets, written out, take more room than a request may have.
    #[error(
        "the request's label sets, written out, are too large; send fewer series at a time, or shorter labels"
    )]
    LabelsTooLarge,
    /// The body is larger than its offsets can say.
    #[error("the body is too large; send fewer series at a time")]
    BodyTooLarge,
}

impl MalformedErrorKind {
    /// Whether nothing is wrong with the body but that it has more than one request may: part of it would do.
    pub(crate) fn is_too_much(self) -> bool {
        match self {
            Self::TooManySymbols | Self::TooManySamples | Self::LabelsTooLarge | Self::BodyTooLarge => true,
            Self::Truncated
            | Self::VarintTooLong
            | Self::FieldNumber
            | Self::Group
            | Self::UnknownWireType
            | Self::WrongWireType
            | Self::OtherVersion
            | Self::NoKnownField
            | Self::BrokenMessage => false,
        }
    }

    fn kind(self) -> &'static str {
        if self.is_too_much() { "too large a" } else { "malformed" }
    }
}
