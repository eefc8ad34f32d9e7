//! Reads a request's body whole, within its limits of size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use http_body_util::BodyExt;

use crate::routing::{BudgetExceeded, Reservation};
use silverback_runtime::timeout;

/// What arrives as the body of a request over HTTP.
pub trait HttpBody: Body<Data = Bytes, Error: std::fmt::Display> {}

impl<B: Body<Data = Bytes, Error: std::fmt::Display>> HttpBody for B {}

/// Why a body wasn't read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It is larger than allowed.
    #[error("the request body is larger than {0} bytes")]
    TooLarge(usize),
    /// It didn't arrive in time.
    #[error("the request body did not arrive within {0:?}")]
    TimedOut(Duration),
    /// The client hung up or broke the protocol midway.
    #[error("the request body broke off: {0}")]
    BrokeOff(String),
    /// Others have the memory that it takes.
    #[error("requests in flight have all the memory that they may have; send again later")]
    BudgetExceeded,
}

/// The same, of which every byte takes its room in `reserved` as it arrives: a length that is only
/// claimed takes none from others.
pub(crate) fn read_reserving<B: HttpBody>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
    limit: Duration,
    reserved: &mut Reservation,
) -> impl Future<Output = Result<Bytes, BodyError>> {
    async move {
        reserved.expect(claimed_bytes(headers).unwrap_or(0));
        let reading = read_with(headers, body, bytes_max, |bytes| reserved.grow(bytes));
        timeout(limit, reading).await.unwrap_or(Err(BodyError::TimedOut(limit)))
    }
}

/// The same without a limit of time: on whatever runtime its caller keeps one.
pub fn read_untimed<B: HttpBody>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
) -> impl Future<Output = Result<Bytes, BodyError>> {
    read_with(headers, body, bytes_max, |_| Ok(()))
}

/// The length that a request claims to have.
fn claimed_bytes(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Room made ahead for a claimed length: what is beyond it grows as it arrives, so that a claim
/// alone costs little.
const CLAIM_TRUSTED_MAX: usize = 256 << 10;

fn read_with<B: HttpBody>(
    headers: &HeaderMap,
    body: B,
    bytes_max: usize,
    mut make_room: impl FnMut(usize) -> Result<(), BudgetExceeded>,
) -> impl Future<Output = Result<Bytes, BodyError>> {
    async move {
        let claimed = claimed_bytes(headers).unwrap_or(0);
        if claimed > bytes_max {
            return Err(BodyError::TooLarge(bytes_max));
        }
        let mut body = std::pin::pin!(body);
        let mut first = Bytes::new();
        let mut joined = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| BodyError::BrokeOff(error.to_string()))?;
            let Ok(frame) = frame.into_data() else { continue };
            if first.len() + joined.len() + frame.len() > bytes_max {
                return Err(BodyError::TooLarge(bytes_max));
            }
            make_room(frame.len()).map_err(|_| BodyError::BudgetExceeded)?;
            if first.is_empty() && joined.is_empty() {
                // A body that came in one piece is not copied.
                first = frame;
                continue;
            }
            if joined.is_empty() {
                joined.reserve(claimed.min(CLAIM_TRUSTED_MAX).max(first.len() + frame.len()));
                joined.extend_from_slice(&std::mem::take(&mut first));
            }
            joined.extend_from_slice(&frame);
        }
        Ok(if joined.is_empty() { first } else { joined.freeze() })
    }
}
