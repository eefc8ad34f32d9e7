//! Snappy's block format, into a buffer that is used again. The length that a body claims is
//! checked before any room is made for it.

use silverback_storage::message::BodyBytes;

/// Why a body can't be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnappyError {
    /// Its own header says that it would be larger than allowed.
    #[error("the body decompresses to {claimed_bytes} bytes, at most {limit_bytes} are allowed")]
    TooLarge {
        /// What the header says.
        claimed_bytes: usize,
        /// What is allowed.
        limit_bytes: usize,
    },
    /// These bytes aren't snappy's block format.
    #[error("the body is not in snappy's block format: {0}")]
    Corrupt(String),
}

/// The length that a body claims to have when decompressed, if that is allowed.
pub fn claimed_bytes(compressed: &[u8], limit_bytes: usize) -> Result<usize, SnappyError> {
    let claimed_bytes = snap::raw::decompress_len(compressed).map_err(corrupt)?;
    if claimed_bytes > limit_bytes {
        return Err(SnappyError::TooLarge { claimed_bytes, limit_bytes });
    }
    Ok(claimed_bytes)
}

/// Decompresses `compressed` into `out`, over what it held before.
pub fn decompress(compressed: &[u8], limit_bytes: usize, out: &mut BodyBytes) -> Result<(), SnappyError> {
    out.truncate(0);
    let claimed_bytes = claimed_bytes(compressed, limit_bytes)?;
    let written = snap::raw::Decoder::new().decompress(compressed, out.prepare(claimed_bytes));
    // After an error the buffer holds bytes of two requests: nobody may read them.
    out.truncate(*written.as_ref().unwrap_or(&0));
    written.map(|_| ()).map_err(corrupt)
}

fn corrupt(error: snap::Error) -> SnappyError {
    SnappyError::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_BYTES: usize = 1 << 20;

    fn compress(bytes: &[u8]) -> Vec<u8> {
        snap::raw::Encoder::new().compress_vec(bytes).unwrap()
    }

    fn check_refused(compressed: &[u8], words: &str) {
        let mut out = BodyBytes::from(b"a former request".to_vec());
        let error = decompress(compressed, LIMIT_BYTES, &mut out).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(out.is_empty(), "nothing of a former request is left");
        assert!(out.capacity() <= LIMIT_BYTES);
    }

    #[test]
    fn a_buffer_is_used_again_without_traces() {
        let mut out = BodyBytes::default();
        for body in [&b"a long body, compressed"[..], b"", b"short"] {
            decompress(&compress(body), LIMIT_BYTES, &mut out).unwrap();
            assert_eq!(&*out, body);
        }
    }

    #[test]
    fn a_body_too_large_is_refused_before_room_is_made() {
        check_refused(&compress(&vec![7; LIMIT_BYTES + 1]), "at most 1048576");
        check_refused(&[0xff, 0xff, 0xff, 0xff, 0x0f], "4294967295");
    }

    #[test]
    fn corrupt_bodies_are_refused() {
        let good = compress(&(0..=255).cycle().take(2000).collect::<Vec<u8>>());
        check_refused(b"", "snappy");
        check_refused(&[0xff; 20], "snappy");
        check_refused(b"\xff\x06\x00\x00sNaPpY", "snappy");
        for cut in 1..good.len() {
            check_refused(&good[..cut], "snappy");
        }
    }

    #[test]
    fn a_flipped_bit_never_panics_and_never_shows_more_than_claimed() {
        let good = compress(&b"some text, some text, some more text".repeat(9));
        let mut out = BodyBytes::default();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // Snappy has no checksum, so some of these decompress, to something else.
            if decompress(&bad, LIMIT_BYTES, &mut out).is_ok() {
                assert_eq!(Ok(out.len()), claimed_bytes(&bad, LIMIT_BYTES));
            }
        }
    }
}
