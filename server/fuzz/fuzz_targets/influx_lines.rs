//! InfluxDB's line protocol, any bytes: what is taken of them, rewritten by an encoder of its own, is read again as
//! the same.
#![no_main]

#[path = "../../tests/api/lines/collect.rs"]
mod collect;
#[path = "../../tests/api/lines/encode.rs"]
#[allow(dead_code, reason = "the other format has its own part of it")]
mod encode;

use libfuzzer_sys::fuzz_target;
use silverback::api::ingest::lines::{InfluxLines, Precision};

fuzz_target!(|bytes: &[u8]| {
    let format = InfluxLines { precision: Precision::Milliseconds, ..InfluxLines::default() };
    let taken = collect::collect(&format, bytes, 7).expect("so few bytes are not too much");
    let values = bytes.iter().filter(|byte| **byte == b'=').count() as u64;
    assert!(taken.decoded.samples + taken.decoded.strings <= values && taken.decoded.beside.is_empty());
    let written = taken.samples.iter().map(|(labels, sample)| encode::influx(labels, *sample));
    let written: String =
        written.collect::<Option<_>>().expect("what was a measurement and a field can be again");
    let again = collect::collect(&format, written.as_bytes(), 8).expect("nor are these");
    assert_eq!(again.decoded.first, None);
    assert_eq!(again.samples, taken.samples);
});
