//! Connections: accepted by one task, served by hyper on any worker, ended in order.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use silverback::api::response::body::ResponseBody;
use silverback_runtime::HttpLimits;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Contender;

/// How long to wait for a descriptor when the process has none left.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(50);

/// Serves until `told_to_end`, and then what is in flight, for a limited time.
pub async fn serve(contender: Arc<Contender>, listener: TcpListener, told_to_end: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(contender.config.max_connections));
    let (http, graceful) = (http(), GracefulShutdown::new());
    let mut told_to_end = pin!(told_to_end);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut told_to_end => break,
        };
        match accepted {
            // One above the limit is closed at once.
            Ok((stream, _)) => {
                if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                    spawn(&contender, &http, &graceful, stream, place);
                }
            }
            Err(error) => wait_after(&error).await,
        }
    }
    drop(listener);
    contender.ending.store(true, Ordering::Relaxed);
    let limit = contender.config.shutdown_timeout;
    if tokio::time::timeout(limit, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections did not end in time and are cut");
    }
}

fn spawn(
    contender: &Arc<Contender>,
    http: &auto::Builder<TokioExecutor>,
    graceful: &GracefulShutdown,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection ended before it began");
        return;
    }
    let contender = Arc::clone(contender);
    let service = service_fn(move |request| {
        let contender = Arc::clone(&contender);
        async move { Ok::<_, Infallible>(contender.answer(request).await.map(whole)) }
    });
    let connection = http.serve_connection(TokioIo::new(stream), service).into_owned();
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended with an error");
        }
        drop(place);
    });
}

/// The node's streams stay on their core; a response here may be sent from any worker.
fn whole(body: ResponseBody) -> Full<Bytes> {
    match body {
        ResponseBody::Whole(bytes) => Full::new(bytes),
        ResponseBody::Stream(_) | ResponseBody::Grpc(_) | ResponseBody::Timed(_) | ResponseBody::Held(_) => {
            unreachable!("every answer of the contender is whole")
        }
    }
}

/// What is wrong with one connection passes with it; without a descriptor there is none to accept.
async fn wait_after(error: &io::Error) {
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    tracing::warn!(%error, "no connection can be accepted for now");
    tokio::time::sleep(DESCRIPTOR_WAIT).await;
}

/// Limits as on the node. It arms no timer for a request's head either.
fn http() -> auto::Builder<TokioExecutor> {
    let limits = HttpLimits::default();
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().header_read_timeout(None).max_buf_size(limits.read_buffer_bytes_max).half_close(false);
    http.http2()
        .max_concurrent_streams(limits.concurrent_streams_max)
        .max_header_list_size(limits.stream_head_bytes_max)
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes);
    http
}
