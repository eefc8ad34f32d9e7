//! How an evaluation gives its core to others: by slices, and until its read is to end.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::api::query::Reader;
use crate::routing::ReadLease;
use silverback_promql::{Interruption, Pace};
use silverback_runtime::{Slice, now};
use silverback_storage::message::ReadTicket;

/// A slice, as an evaluation gives it up. Nothing else is awaited while it is held.
pub(super) struct SlicePace {
    slice: RefCell<Option<Slice>>,
    /// Of the read: others end it, too.
    ticket: ReadTicket,
    /// When the answer was there, and was to be put in order.
    sorted_since: Cell<Option<Instant>>,
}

impl SlicePace {
    pub(super) async fn begin(reader: &Reader, lease: &ReadLease) -> Self {
        let slice = RefCell::new(Some(reader.slicer.begin().await));
        Self { slice, ticket: lease.ticket().clone(), sorted_since: Cell::new(None) }
    }

    /// How long its answer has been put in order until now.
    pub(super) fn sort_time(&self) -> Duration {
        self.sorted_since.get().map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Takes the slice, for something that gives it up itself.
    pub(super) fn take(&self) -> Option<Slice> {
        self.slice.borrow_mut().take()
    }

    /// Goes on in a slice.
    pub(super) fn put(&self, slice: Slice) {
        *self.slice.borrow_mut() = Some(slice);
    }
}

impl Pace for SlicePace {
    fn is_due(&self) -> bool {
        self.slice.borrow().as_ref().is_some_and(Slice::is_spent)
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
        Box::pin(async {
            // Taken out: no borrow lasts while others run.
            if let Some(mut slice) = self.take() {
                slice.yield_now().await;
                self.put(slice);
            }
            if self.ticket.is_cancelled() { Err(Interruption::Canceled) } else { Ok(()) }
        })
    }

    fn sorts(&self) {
        self.sorted_since.set(Some(now()));
    }
}
