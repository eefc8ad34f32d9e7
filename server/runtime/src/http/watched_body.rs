//! A request's body as it comes: its connection's watch learns when the client is waited for, and what comes.
//!
//! What of it may be held, and how long it may take as a whole, is the service's to bound.
use std::{
    cell::Cell,
    fmt,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use send_wrapper::SendWrapper;

use super::watch::Watch;

/// The body of a request, over HTTP/1 or HTTP/2. It stays on its executor.
pub struct WatchedBody {
    incoming: Incoming,
    // Services may ask for `Send`.
    awaited: SendWrapper<Awaited>,
}

impl WatchedBody {
    pub(super) fn new(incoming: Incoming, watch: Rc<Watch>) -> Self {
        Self { incoming, awaited: SendWrapper::new(Awaited { watch, is_awaited: Cell::new(false) }) }
    }
}

impl fmt::Debug for WatchedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedBody").field("incoming", &self.incoming).finish_non_exhaustive()
    }
}

impl Body for WatchedBody {
    type Data = <Incoming as Body>::Data;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        match &polled {
            Poll::Pending => self.awaited.set(true),
            Poll::Ready(Some(Ok(frame))) => {
                self.awaited.set(false);
                let bytes = frame.data_ref().map_or(0, |data| data.len());
                self.awaited.watch.body_came(bytes as u64);
            }
            Poll::Ready(Some(Err(_)) | None) => self.awaited.set(false),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// Whether the client is waited for.
struct Awaited {
    watch: Rc<Watch>,
    is_awaited: Cell<bool>,
}

impl Awaited {
    fn set(&self, is_awaited: bool) {
        match (self.is_awaited.replace(is_awaited), is_awaited) {
            (false, true) => self.watch.body_is_awaited(),
            (true, false) => self.watch.body_is_not_awaited(),
            (false, false) | (true, true) => {}
        }
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.set(false);
    }
}
