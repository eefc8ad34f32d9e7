//! Reads a write request's body whole, compressed with gzip or not: in slices, and within the bounds of both.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::api::http::request_body::{HttpBody, read_reserving};
use crate::api::ingest::Ingest;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::negotiate::header_text;
use crate::routing::Reservation;
use silverback_runtime::reactor_polled;

/// Bytes between two looks at the reactor: about 200 µs.
const SLICE_BYTES: u64 = 64 << 10;

/// A body that is here.
pub(crate) struct Arrived {
    /// What its sender compressed.
    pub bytes: Bytes,
    /// Its room.
    pub reserved: Reservation,
    /// How much of that these bytes take, and those that arrived.
    pub held_bytes: usize,
}

/// Reads a body.
pub(crate) async fn read_body<B: HttpBody>(
    ingest: &Ingest,
    headers: &HeaderMap,
    body: B,
) -> Result<Arrived, WriteRejected> {
    let is_gzip = is_gzip(headers)?;
    let (config, mut reserved) = (&ingest.config, ingest.bodies.begin());
    let (bytes_max, limit) = (config.max_body_bytes, config.request_timeout);
    let bytes = read_reserving(headers, body, bytes_max, limit, &mut reserved).await?;
    ingest.count(|counts| counts.write_bytes += bytes.len() as u64);
    let held_bytes = bytes.len();
    if !is_gzip {
        return Ok(Arrived { bytes, reserved, held_bytes });
    }
    let bytes = Bytes::from(decompress(&bytes, config.max_decoded_bytes, &mut reserved).await?);
    let held_bytes = held_bytes + bytes.len();
    Ok(Arrived { bytes, reserved, held_bytes })
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, WriteRejected> {
    match header_text(headers, CONTENT_ENCODING)? {
        gzip if gzip.eq_ignore_ascii_case("gzip") => Ok(true),
        none if none.is_empty() || none.eq_ignore_ascii_case("identity") => Ok(false),
        other => Err(WriteRejected::NotGzip(other.to_owned())),
    }
}

/// What was compressed. Every byte takes its room in `reserved` as it comes out.
async fn decompress(
    compressed: &[u8],
    bytes_max: usize,
    reserved: &mut Reservation,
) -> Result<Vec<u8>, WriteRejected> {
    let mut decoder = MultiGzDecoder::new(compressed);
    let mut bytes = Vec::new();
    loop {
        let read = take_slice(&mut decoder, &mut bytes)?;
        if read == 0 {
            return Ok(bytes);
        }
        if bytes.len() > bytes_max {
            return Err(WriteRejected::BodyTooLarge { limit_bytes: bytes_max });
        }
        reserved.grow(read)?;
        reactor_polled().await;
    }
}

fn take_slice(decoder: &mut impl Read, bytes: &mut Vec<u8>) -> Result<usize, WriteRejected> {
    decoder.take(SLICE_BYTES).read_to_end(bytes).map_err(|error| WriteRejected::Gzip(error.to_string()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_taken_and_no_encoding_is() {
        let check = |encoding| {
            let value = HeaderValue::from_static(encoding);
            is_gzip(&HeaderMap::from_iter([(CONTENT_ENCODING, value)])).ok()
        };
        assert_eq!(["gzip", "GZIP"].map(check), [Some(true); 2]);
        assert_eq!(["", "identity"].map(check), [Some(false); 2]);
        assert_eq!(["zstd", "snappy", "gzip, gzip"].map(check), [None; 3]);
    }
}
