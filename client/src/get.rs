//! What the node's HTTP API answers to a GET or a DELETE, over the connection that gRPC has: its TLS, its credentials, its
//! deadline. Knows nothing of what the answers mean.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service;

use crate::client::{Client, MESSAGE_BYTES_MAX};
use crate::error::RequestError;

/// What is kept of a refusal's text, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

impl Client {
    /// The body of the answer to a GET of `path`, of 64 MiB at most: what the node answers over HTTP alone.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = silverback_client::Client::connect("http://127.0.0.1:9009").await?;
    /// let json = client.get("/api/v1/status/tsdb").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, path: &str) -> Result<Bytes, RequestError> {
        self.ask_over_http(Method::GET, path).await
    }

    /// The body of the answer to a DELETE of `path`, likewise: `/api/v1/status/active_queries/ID` cancels a query.
    ///
    /// Where the node has no such thing the error is [`RequestError::Failed`], with its own words.
    pub async fn delete(&self, path: &str) -> Result<Bytes, RequestError> {
        self.ask_over_http(Method::DELETE, path).await
    }

    async fn ask_over_http(&self, method: Method, path: &str) -> Result<Bytes, RequestError> {
        let request = Request::builder().method(method.clone()).uri(path).body(Body::empty());
        let request = request.map_err(|_| RequestError::Invalid(format!("{path:?} isn't a path")))?;
        self.in_time(self.whole_answer(request, &method, path)).await
    }

    async fn whole_answer(
        &self,
        request: Request<Body>,
        method: &Method,
        path: &str,
    ) -> Result<Bytes, RequestError> {
        let broken = |error: tonic::transport::Error| RequestError::Connection(Arc::new(error));
        let mut transport = self.transport();
        poll_fn(|context| transport.poll_ready(context)).await.map_err(broken)?;
        let response = transport.call(request).await.map_err(broken)?;
        let (head, body) = Response::into_parts(response);
        let body = match Limited::new(body, MESSAGE_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(RequestError::BrokenAnswer("it is longer than 64 MiB"));
            }
            Err(error) => return Err(RequestError::Connection(error.into())),
        };
        if head.status.is_success() { Ok(body) } else { Err(refused(head.status, method, path, &body)) }
    }
}

fn refused(status: StatusCode, method: &Method, path: &str, body: &[u8]) -> RequestError {
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
    let message = format!("{status}: {}", text.trim());
    match status {
        StatusCode::NOT_FOUND if method == Method::DELETE => {
            RequestError::Failed { code: Code::NotFound, message: text.trim().to_owned() }
        }
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
            RequestError::Unsupported(format!("{method} {path}: {message}"))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RequestError::Denied(message),
        StatusCode::TOO_MANY_REQUESTS => RequestError::Busy { message, retry_after: None },
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
            RequestError::Unavailable(message)
        }
        status if status.is_client_error() => RequestError::Invalid(message),
        _other => RequestError::Failed { code: Code::Unknown, message },
    }
}
