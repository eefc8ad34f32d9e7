//! Gzip, decompressed in slices and within a bound.

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::fault::Fault;
use crate::api::remote_write::Rejection;
use crate::routing::Reserved;
use crate::runtime::reactor_polled;

/// Bytes between two looks at the reactor: about 200 µs.
const SLICE_BYTES: u64 = 64 << 10;

/// What was compressed. Every byte takes its room in `reserved` as it comes out.
pub async fn decompress(
    compressed: &[u8],
    bytes_max: usize,
    reserved: &mut Reserved,
) -> Result<Vec<u8>, Fault> {
    let mut decoder = MultiGzDecoder::new(compressed);
    let mut bytes = Vec::new();
    loop {
        let read = take_slice(&mut decoder, &mut bytes)?;
        if read == 0 {
            return Ok(bytes);
        }
        if bytes.len() > bytes_max {
            return Err(Rejection::BodyTooLarge { limit_bytes: bytes_max }.into());
        }
        reserved.grow(read).map_err(Rejection::from)?;
        reactor_polled().await;
    }
}

fn take_slice(decoder: &mut impl Read, bytes: &mut Vec<u8>) -> Result<usize, Fault> {
    decoder.take(SLICE_BYTES).read_to_end(bytes).map_err(|error| Fault::Gzip(error.to_string()))
}
