//! Answers whose messages are framed already: pieces of any number of whole messages, and the status in the trailers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::StreamExt;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tonic::Status;

use crate::api::grpc::GRPC;
use crate::api::grpc::stream::Answers;
use crate::api::response::NodeResponse;
use crate::api::response::body::ResponseBody;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// Nothing went wrong.
const WHOLE: HeaderValue = HeaderValue::from_static("0");

/// A body of pieces; `None` after its trailers.
struct FramedBody(Option<Answers<Bytes>>);

/// An answer that is sent as it comes.
pub(super) fn respond(pieces: Answers<Bytes>) -> NodeResponse {
    let body = tonic::body::Body::new(FramedBody(Some(pieces)));
    let mut response = Response::new(ResponseBody::Grpc(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    response
}

impl Body for FramedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(pieces) = &mut self.0 else { return Poll::Ready(None) };
        let mut trailers = HeaderMap::new();
        let told = match ready!(pieces.poll_next_unpin(context)) {
            Some(Ok(piece)) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
            Some(Err(status)) => status.add_header(&mut trailers),
            None => {
                trailers.insert(STATUS, WHOLE);
                Ok(())
            }
        };
        self.0 = None;
        Poll::Ready(Some(told.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;
    use http_body_util::BodyExt;

    use super::*;

    fn check(pieces: Vec<Result<Bytes, Status>>, expect: (&[u8], &str, Option<&str>)) {
        let body = FramedBody(Some(Box::pin(stream::iter(pieces))));
        let collected = block_on(body.collect()).unwrap();
        let trailers = collected.trailers().unwrap().clone();
        let told = |name: &str| trailers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!((told("grpc-status"), told("grpc-message")), (Some(expect.1), expect.2));
        assert_eq!(collected.to_bytes(), expect.0);
    }

    #[test]
    fn a_status_follows_whatever_was_sent() {
        check(vec![], (b"", "0", None));
        check(vec![Ok("ab".into()), Ok("c".into())], (b"abc", "0", None));
        let broken = vec![Ok("ab".into()), Err(Status::data_loss("gone")), Ok("never".into())];
        check(broken, (b"ab", "15", Some("gone")));
    }
}
