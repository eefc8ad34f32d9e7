//! Snappy's block format, into a buffer that is used again. The length that a body claims is
//! checked before any room is made for it.

use crate::{limits::DECODED_BYTES_MAX, message::BodyBytes};

/// Why a body can't be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnappyError {
    /// Its own header says that it would be larger than allowed.
    #[error("the body decompresses to {claimed} bytes, at most {limit} are allowed")]
    TooLarge {
        /// What the header says.
        claimed: usize,
        /// What is allowed.
        limit: usize,
    },
    /// These bytes aren't snappy's block format.
    #[error("the body is not in snappy's block format: {0}")]
    Corrupt(String),
}

/// The length that a body claims to have decompressed, when that is at most `limit`.
pub fn decompressed_len(compressed: &[u8], limit: usize) -> Result<usize, SnappyError> {
    let claimed =
        snap::raw::decompress_len(compressed).map_err(|error| SnappyError::Corrupt(error.to_string()))?;
    if claimed > limit { Err(SnappyError::TooLarge { claimed, limit }) } else { Ok(claimed) }
}

/// Decompresses `compressed` into `out`, over what it held before.
pub fn decompress(compressed: &[u8], out: &mut BodyBytes) -> Result<(), SnappyError> {
    let corrupt = |error: snap::Error| SnappyError::Corrupt(error.to_string());
    out.truncate(0);
    let claimed = snap::raw::decompress_len(compressed).map_err(corrupt)?;
    if claimed > DECODED_BYTES_MAX {
        return Err(SnappyError::TooLarge { claimed, limit: DECODED_BYTES_MAX });
    }
    let written = snap::raw::Decoder::new().decompress(compressed, out.prepare(claimed));
    // After an error the buffer holds bytes of two requests: nobody may read them.
    out.truncate(written.as_ref().copied().unwrap_or(0));
    written.map(|_| ()).map_err(corrupt)
}
