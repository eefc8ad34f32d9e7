//! What an executor's HTTP/2 requests take with their heads, from when a request begins until it ends: a stream may
//! be open for hours, and its head stays. HTTP/1 has one head a connection, which the connection's own place holds.
use std::{cell::Cell, rc::Rc};

use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};

use super::{HttpLimits, watch::Watch};

/// What a request takes beside its head: its stream's state, its task, and what is small of its answer.
const STREAM_BYTES: usize = 8 << 10;
/// What a field takes beside its name and its value: its place in the map, and what the allocator adds.
const FIELD_BYTES: usize = size_of::<HeaderName>() + size_of::<HeaderValue>() + 64;

/// The heads of all connections.
pub(super) struct Heads {
    fields_max: usize,
    /// What a connection's heads may take before they count.
    own_bytes: usize,
    /// What those of all connections may take beyond that.
    bytes_max: usize,
    bytes: Cell<usize>,
}

/// Why a request was refused for its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadRejected {
    TooManyFields,
    BudgetExceeded,
}

/// The room of one head; free again when dropped.
pub(super) struct HeadRoom {
    watch: Rc<Watch>,
    bytes: usize,
}

impl Heads {
    pub(super) fn new(limits: &HttpLimits) -> Self {
        Self {
            fields_max: limits.head_fields_max,
            own_bytes: limits.own_heads_bytes,
            bytes_max: limits.heads_bytes_max,
            bytes: Cell::default(),
        }
    }

    /// Room for a head on a connection, or why there is none.
    pub(super) fn take<B>(watch: &Rc<Watch>, request: &Request<B>) -> Result<HeadRoom, HeadRejected> {
        let heads = watch.heads();
        if request.headers().len() > heads.fields_max {
            return Err(HeadRejected::TooManyFields);
        }
        let bytes = STREAM_BYTES + bytes_of(request.headers()) + request.uri().path().len();
        let (before, after) = (watch.head_bytes.get(), watch.head_bytes.get() + bytes);
        let taken = heads.bytes.get() + heads.shared(after) - heads.shared(before);
        if taken > heads.bytes_max {
            return Err(HeadRejected::BudgetExceeded);
        }
        heads.bytes.set(taken);
        watch.head_bytes.set(after);
        Ok(HeadRoom { watch: watch.clone(), bytes })
    }

    /// What of a connection's heads counts.
    fn shared(&self, of_connection: usize) -> usize {
        of_connection.saturating_sub(self.own_bytes)
    }
}

impl Drop for HeadRoom {
    fn drop(&mut self) {
        let (heads, before) = (self.watch.heads(), self.watch.head_bytes.get());
        let after = before - self.bytes;
        heads.bytes.set(heads.bytes.get() + heads.shared(after) - heads.shared(before));
        self.watch.head_bytes.set(after);
    }
}

impl HeadRejected {
    /// How it is answered. Without words: a body would wait for its client, and its stream with it.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::TooManyFields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BudgetExceeded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// What a head takes in memory.
fn bytes_of(headers: &HeaderMap) -> usize {
    let texts: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    // The map's room doubles as it grows.
    texts + headers.capacity().max(headers.len()) * FIELD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_of_usual_size_takes_some_two_kilobytes_and_a_full_one_a_multiple_of_its_texts() {
        let head = |fields: usize| -> usize {
            let name = |i| HeaderName::try_from(format!("x-{i}")).unwrap();
            bytes_of(&(0..fields).map(|i| (name(i), HeaderValue::from_static("v"))).collect())
        };
        assert!((1 << 10..3 << 10).contains(&head(10)), "{}", head(10));
        assert!((13 << 10..32 << 10).contains(&head(100)), "{}", head(100));
    }
}
