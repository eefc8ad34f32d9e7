//! Thanos routers' requests against prost: what prost reads, we read alike or refuse for a reason of ours.
#![no_main]

#[path = "../../tests/decode/oracle.rs"]
#[allow(dead_code, reason = "remote write has its own part of it")]
mod oracle;
#[path = "../../tests/decode/sink.rs"]
#[allow(dead_code, reason = "remote write has its own part of it")]
mod sink;
#[path = "../../tests/decode/thanos_sink.rs"]
mod thanos_sink;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use silverback::api::ingest::remote_write::{MalformedErrorKind, WriteRejected};
use silverback_proto::thanos::WriteRequest;

fuzz_target!(|bytes: &[u8]| {
    let expected = WriteRequest::decode(bytes);
    match (thanos_sink::decode(bytes), expected) {
        (Ok((series, tally)), Ok(expected)) => {
            let expected = oracle::outcome_thanos(&expected, thanos_sink::OWN);
            assert_eq!(Some(oracle::Outcome::of_decoder(series, &tally)), expected);
        }
        (Err(WriteRejected::OtherTenant { .. }), Ok(expected)) => {
            assert_eq!(oracle::outcome_thanos(&expected, thanos_sink::OWN), None);
        }
        (Err(WriteRejected::Malformed(error)), expected) => {
            assert!(error.offset <= bytes.len());
            match error.cause {
                MalformedErrorKind::Group => {}
                MalformedErrorKind::NoKnownField => {
                    let read = expected.ok().and_then(|read| oracle::outcome_thanos(&read, thanos_sink::OWN));
                    assert!(read.is_none_or(|read| read == oracle::Outcome::default()));
                }
                _other => assert!(expected.is_err(), "{error}"),
            }
        }
        // Prost refuses text that isn't UTF-8, and what we don't look into.
        (Ok(_) | Err(WriteRejected::OtherTenant { .. }), Err(_)) => {}
        (Err(other), _) => panic!("{other}"),
    }
});
