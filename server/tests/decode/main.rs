//! The remote write decoders from outside, beside prost as the oracle.
mod malformed;
mod odd_encoding;
mod oracle;
mod random_requests;
mod series;
mod sink;
mod thanos;
mod thanos_sink;
mod warm;
