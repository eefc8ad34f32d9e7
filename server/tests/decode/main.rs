//! The decoders of remote write and of gRPC's batches from outside, beside prost as the oracle.
mod batch;
mod batches;
mod malformed;
mod odd_encoding;
mod oracle;
mod random_requests;
mod series;
mod sink;
mod thanos;
mod thanos_sink;
mod warm;
