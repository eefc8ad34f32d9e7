//! The remote write decoders from outside, beside prost as the oracle.
mod odd_encoding;
mod oracle;
mod random_requests;
mod sink;
