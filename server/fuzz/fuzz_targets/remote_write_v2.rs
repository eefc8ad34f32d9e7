//! Remote write 2 against prost: what prost reads, we read alike or refuse for a reason of ours.
#![no_main]

#[path = "../../tests/decode/oracle.rs"]
#[allow(dead_code, reason = "the other version has its own part of it")]
mod oracle;
#[path = "../../tests/decode/sink.rs"]
mod sink;
#[path = "../stricter.rs"]
mod stricter;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_proto::write_v2::Request;

fuzz_target!(|bytes: &[u8]| {
    let expected = Request::decode(bytes).map(|request| oracle::outcome_v2(&request));
    // Once with label sets that nobody knows, and again with those that are known by then.
    stricter::compare(sink::decode(Version::V2, bytes), expected, bytes.len());
    sink::check_after_another_byte(Version::V2, bytes);
});
