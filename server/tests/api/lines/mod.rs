//! Writes that are lines of text, from outside: whole nodes that are written to and read back, and the decoders
//! beside encoders of their own.

mod collect;
mod encode;
mod influx;
mod node;
mod prometheus;
mod readme;
mod round_trip;
