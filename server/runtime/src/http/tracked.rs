//! A service whose requests are counted, watched, and caught when they panic.
use std::{
    any::Any,
    error::Error,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use http::{
    HeaderValue, Request, Response, StatusCode,
    header::{RETRY_AFTER, X_CONTENT_TYPE_OPTIONS},
};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, service::Service};
use pin_project_lite::pin_project;

use super::{
    heads::{HeadRejected, HeadRoom, Heads},
    spawner::LocalSpawner,
    stream_watch::StreamWatch,
    watch::Watch,
    watched_body::WatchedBody,
};
use crate::{counters, tasks::panic_text};

pub(super) struct TrackedService<S> {
    service: S,
    watch: Rc<Watch>,
    /// What spawns the connection's streams, where it has any.
    streams: Option<LocalSpawner>,
}

impl<S> TrackedService<S> {
    /// For a connection whose requests come one after the other.
    pub(super) fn of_requests(service: S, watch: Rc<Watch>) -> Self {
        Self { service, watch, streams: None }
    }

    /// For a connection whose requests are streams that `spawner` spawns.
    pub(super) fn of_streams(service: S, watch: Rc<Watch>, spawner: LocalSpawner) -> Self {
        Self { service, watch, streams: Some(spawner) }
    }

    fn watch_stream(&self) -> Option<Rc<StreamWatch>> {
        self.streams.as_ref().map(|spawner| {
            let stream = self.watch.add_stream();
            spawner.begins(Rc::clone(&stream));
            stream
        })
    }
}

impl<S, B> Service<Request<Incoming>> for TrackedService<S>
where
    S: Service<Request<WatchedBody>, Response = Response<B>>,
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = TrackedFuture<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut in_flight = InFlight::new(self.watch.clone(), self.watch_stream());
        if self.streams.is_some() {
            match Heads::take(&self.watch, &request) {
                Ok(room) => in_flight.head_room = Some(room),
                Err(refused) => {
                    counters::with(|c| c.heads_refused += 1);
                    tracing::debug!(reason = ?refused, "an HTTP/2 request was refused for its head");
                    return TrackedFuture {
                        inner: None,
                        unserved: Unserved::Refused(refused),
                        in_flight: Some(in_flight),
                    };
                }
            }
        }
        let request = request.map(|body| WatchedBody::new(body, self.watch.clone()));
        // It may panic before there is a future.
        let inner = catch_unwind(AssertUnwindSafe(|| self.service.call(request)))
            .map_err(|panic| tell_of_panic(&*panic))
            .ok();
        TrackedFuture { inner, unserved: Unserved::Panicked, in_flight: Some(in_flight) }
    }
}

/// One request from its call to the end of its answer.
struct InFlight {
    watch: Rc<Watch>,
    stream: Option<Rc<StreamWatch>>,
    head_room: Option<HeadRoom>,
}

impl InFlight {
    fn new(watch: Rc<Watch>, stream: Option<Rc<StreamWatch>>) -> Self {
        watch.request_begins();
        counters::with(|c| {
            c.requests += 1;
            c.requests_in_flight += 1;
        });
        Self { watch, stream, head_room: None }
    }

    /// Its body is asked for a frame.
    fn asked(&self) {
        if let Some(stream) = &self.stream {
            stream.asked();
        }
    }

    /// Its body gave one.
    fn gave(&self) {
        if let Some(stream) = &self.stream {
            stream.gave(self.watch.now());
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        counters::with(|c| c.requests_in_flight -= 1);
        self.watch.request_ends();
    }
}

fn tell_of_panic(panic: &(dyn Any + Send)) {
    counters::with(|c| c.request_panics += 1);
    tracing::error!(panic = panic_text(panic), "a request panicked; it alone is ended");
}

/// Why a request has no answer of the service.
#[derive(Debug, Clone, Copy)]
enum Unserved {
    Panicked,
    Refused(HeadRejected),
}

impl Unserved {
    fn response<B>(self, in_flight: Option<InFlight>) -> Response<TrackedBody<B>> {
        let status = match self {
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Refused(refused) => refused.status(),
        };
        let mut response = Response::new(TrackedBody { body: None, in_flight });
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

pin_project! {
    pub(super) struct TrackedFuture<F> {
        #[pin]
        inner: Option<F>,
        // Where there is no future.
        unserved: Unserved,
        in_flight: Option<InFlight>,
    }
}

impl<F, B, E> Future for TrackedFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TrackedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = match this.inner.as_pin_mut() {
            Some(future) => catch_unwind(AssertUnwindSafe(|| future.poll(cx))).map_err(|panic| {
                tell_of_panic(&*panic);
                Unserved::Panicked
            }),
            None => Err(*this.unserved),
        };
        let in_flight = this.in_flight;
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(result.map(|response| {
                let in_flight = in_flight.take();
                response.map(|body| TrackedBody { body: Some(body), in_flight })
            })),
            Err(unserved) => Poll::Ready(Ok(unserved.response(in_flight.take()))),
        }
    }
}

pin_project! {
    /// An answer's body; the request is in flight until it is dropped.
    pub(super) struct TrackedBody<B> {
        // None: the request panicked or was refused, and there is none.
        #[pin]
        body: Option<B>,
        in_flight: Option<InFlight>,
    }
}

impl<B> Body for TrackedBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.project();
        let Some(body) = this.body.as_pin_mut() else { return Poll::Ready(None) };
        this.in_flight.iter().for_each(InFlight::asked);
        match catch_unwind(AssertUnwindSafe(|| body.poll_frame(cx))) {
            Ok(polled) => {
                if let Poll::Ready(Some(Ok(_))) = &polled {
                    this.in_flight.iter().for_each(InFlight::gave);
                }
                polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            Err(panic) => {
                tell_of_panic(&*panic);
                // The head is out: all that is left is not to pretend that the body is whole.
                Poll::Ready(Some(Err("the response body panicked".into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}
