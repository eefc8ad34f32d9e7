//! Lines in Prometheus' text format, any bytes: what is taken of them, rewritten by an encoder of its own, is read
//! again as the same.
#![no_main]

#[path = "../../tests/api/lines/collect.rs"]
mod collect;
#[path = "../../tests/api/lines/encode.rs"]
#[allow(dead_code, reason = "the other format has its own part of it")]
mod encode;

use libfuzzer_sys::fuzz_target;
use silverback::api::ingest::lines::PrometheusText;

fuzz_target!(|bytes: &[u8]| {
    let format = PrometheusText::default();
    let taken = collect::collect(&format, bytes, 7).expect("so few bytes are not too much");
    let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
    assert!(taken.decoded.samples + taken.decoded.refused.counts.total() <= lines);
    let refused = taken.decoded.exemplars_refused.total() + taken.decoded.metadata_refused.total();
    assert!(refused <= 2 * lines && taken.decoded.strings == 0);
    let written: String =
        taken.samples.iter().map(|(labels, sample)| encode::prometheus(labels, *sample)).collect();
    let again = collect::collect(&format, written.as_bytes(), 8).expect("nor are these");
    assert_eq!(again.decoded.first, None);
    assert_eq!(again.samples, taken.samples);
});
