//! `grpc-timeout`: a call that is not answered whole within its client's time ends with its own
//! status, wherever it is; its handler is dropped there.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use super::refuse;
use crate::api::response::NodeResponse;
use crate::api::response::body::{BrokenBodyError, ResponseBody};
use crate::api::response::cause::Cause;
use silverback_runtime::{now, sleep, timeout};

const TIMEOUT: &str = "grpc-timeout";

/// A body that ends, with a status, when its time is over.
pub struct TimedBody {
    body: ResponseBody,
    time: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// How long a call may take; `None`: as long as it takes.
pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Duration>, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    match value.to_str().ok().and_then(parse) {
        Some(limit) => Ok(Some(limit)),
        None => Err(Cause::Invalid.status(format!(
            "grpc-timeout is {value:?}: up to eight digits and one of H, M, S, m, u, n were expected"
        ))),
    }
}

/// At most eight digits and a unit, as gRPC over HTTP/2 has it.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count = digits.parse::<u64>().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _no_unit => None,
    }
}

/// The answer, as far as there is time for it.
pub(crate) async fn within(limit: Duration, answering: impl Future<Output = NodeResponse>) -> NodeResponse {
    let began = now();
    match timeout(limit, answering).await {
        Err(_) => refuse(&exceeded()),
        Ok(response) => response.map(|body| {
            let time = Some(Box::pin(sleep(limit.saturating_sub(began.elapsed()))) as _);
            ResponseBody::Timed(Box::new(TimedBody { body, time }))
        }),
    }
}

fn exceeded() -> Status {
    Cause::TimedOut.status("the call took longer than its grpc-timeout")
}

impl Body for TimedBody {
    type Data = Bytes;
    type Error = BrokenBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBodyError>>> {
        let this = &mut *self;
        // `None`: its time was over, and that is reported.
        let Some(time) = &mut this.time else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        if time.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        (this.time, this.body) = (None, ResponseBody::Whole(Bytes::new()));
        let mut trailers = HeaderMap::new();
        match exceeded().add_header(&mut trailers) {
            Ok(()) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Err(status) => Poll::Ready(Some(Err(BrokenBodyError(status.to_string())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.time.is_none() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl std::fmt::Debug for TimedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimedBody").field("body", &self.body).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(text: &str, expect: Option<Duration>) {
        let headers =
            HeaderMap::from_iter([(TIMEOUT.parse().unwrap(), HeaderValue::from_str(text).unwrap())]);
        match of(&headers) {
            Ok(limit) => assert_eq!(limit, expect, "{text}"),
            Err(status) => {
                assert!(expect.is_none() && status.message().contains("grpc-timeout is"), "{text}: {status}");
            }
        }
    }

    #[test]
    fn a_timeout_is_digits_and_a_unit() {
        check("1S", Some(Duration::from_secs(1)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3600)));
        check("2M", Some(Duration::from_secs(120)));
        check("250m", Some(Duration::from_millis(250)));
        check("7u", Some(Duration::from_micros(7)));
        check("7n", Some(Duration::from_nanos(7)));
        for wrong in ["", "S", "1", "100000000S", "-1S", "1s", "1.5S", "1é"] {
            check(wrong, None);
        }
        assert_eq!(of(&HeaderMap::new()).unwrap(), None);
    }
}
