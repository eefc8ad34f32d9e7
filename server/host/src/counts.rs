//! What a thread has counted about itself: plain numbers, as they are sent and shown.

use crate::counters;

counters! {
    /// The counters of one executor as they stood at one moment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Counts {
        /// Open connections.
        connections_open: u64 => Gauge "silverback_connections",
        /// Connections served, those that came from another core too.
        connections_accepted: u64 => Counter "silverback_connections_accepted_total",
        /// Connections that another core with fewer was given before anything was read.
        connections_handed_over: u64 => Counter "silverback_connections_handed_over_total",
        /// Connections closed at the limit, where none could be spared for them.
        connections_refused: u64 => Counter "silverback_connections_refused_total",
        /// Connections closed at the limit while they waited for a request: a new one took the place.
        connections_evicted: u64 => Counter "silverback_connections_evicted_total",
        /// Times that a connection waited to be read on for want of memory.
        reads_held_back: u64 => Counter "silverback_connection_reads_held_back_total",
        /// Connections closed for being slow.
        connections_timed_out: u64 => Counter "silverback_connections_timed_out_total",
        /// HTTP/2 streams reset because their client took nothing of the answer.
        streams_timed_out: u64 => Counter "silverback_http_streams_timed_out_total",
        /// HTTP/2 connections that were asked to go: they sent frames without data, such as pings, in excess.
        connections_flooding: u64 => Counter "silverback_http_connections_flooding_total",
        /// HTTP/2 requests refused for their heads: too many fields, or no memory beside the heads of others.
        heads_refused: u64 => Counter "silverback_http_heads_refused_total",
        /// Times when no connection could be accepted, for want of descriptors or the like.
        accept_failures: u64 => Counter "silverback_accept_failures_total",
        /// Connections that ended with an error.
        connection_errors: u64 => Counter "silverback_connection_errors_total",
        /// TLS handshakes that came to their end, resumed ones among them.
        tls_handshakes: u64 => Counter "silverback_tls_handshakes_total",
        /// TLS handshakes that resumed an earlier session.
        tls_handshakes_resumed: u64 => Counter "silverback_tls_handshakes_resumed_total",
        /// TLS handshakes that failed: no TLS, nothing in common, or no certificate that would do.
        tls_handshakes_failed: u64 => Counter "silverback_tls_handshakes_failed_total",
        /// TLS handshakes that gave way to others that waited.
        tls_handshakes_evicted: u64 => Counter "silverback_tls_handshakes_evicted_total",
        /// HTTP requests.
        requests: u64 => Counter "silverback_http_requests_total",
        /// HTTP requests in flight.
        requests_in_flight: u64 => Gauge "silverback_http_requests_in_flight",
        /// Requests that panicked and were answered 500.
        request_panics: u64 => Counter "silverback_request_panics_total",
        /// Tasks that a panic ended.
        task_panics: u64 => Counter "silverback_task_panics_total",
        /// Messages that a full lane refused.
        lane_refusals: u64 => Counter "silverback_lane_refusals_total",
    }
}
