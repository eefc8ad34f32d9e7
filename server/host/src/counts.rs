//! What a thread has counted about itself: plain numbers, as they are sent and shown.

/// The counters of one executor as they stood at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections that are open now.
    pub connections_open: u64,
    /// Connections accepted and served.
    pub connections_accepted: u64,
    /// Connections accepted and handed to an executor with fewer.
    pub connections_handed_over: u64,
    /// Connections closed at once because the limit was reached.
    pub connections_refused: u64,
    /// Connections closed because a header, the next request or progress stayed away.
    pub connections_timed_out: u64,
    /// HTTP/2 streams reset because their client took nothing of the answer.
    pub streams_timed_out: u64,
    /// HTTP/2 connections that were asked to go because they sent frames without data.
    pub connections_flooding: u64,
    /// HTTP/2 requests refused for their heads: too many fields, or no memory beside the heads of others.
    pub heads_refused: u64,
    /// Times that a connection waited to be read on, for others' requests took the memory for that.
    pub reads_held_back: u64,
    /// Times when no connection could be accepted, for want of descriptors or the like.
    pub accept_failures: u64,
    /// Connections that ended with a protocol or a socket error.
    pub connection_errors: u64,
    /// Requests called and not answered to the end.
    pub requests_in_flight: u64,
    /// Requests called.
    pub requests: u64,
    /// Requests that panicked and were answered 500.
    pub request_panics: u64,
    /// Tasks (connections too) that a panic ended.
    pub task_panics: u64,
    /// Messages that a lane refused.
    pub lane_refusals: u64,
}
