//! gRPC's batches and definitions against prost: what prost reads, we read alike or refuse for a
//! reason of ours; what it can't read, we don't.
#![no_main]

#[path = "../../tests/decode/batch.rs"]
mod batch;

use libfuzzer_sys::fuzz_target;
use prost::Message;
use silverback::api::grpc::ingest::{DefinitionError, RouteState, StreamSeries};
use silverback::api::ingest::remote_write::wire::WireReader;
use silverback::routing::ByteBudget;
use silverback_model::SeriesIdHasher;
use silverback_proto::v1;
use silverback_storage::message::DefinitionBlock;

fuzz_target!(|bytes: &[u8]| {
    batch::check(bytes);
    check_definition(bytes);
});

fn check_definition(bytes: &[u8]) {
    let expected = v1::SeriesDefinition::decode(bytes);
    let mut series = StreamSeries::new(ByteBudget::new(1 << 26).begin());
    let mut block = DefinitionBlock::default();
    let defined = series.define(WireReader::new(bytes, 0), &mut block, &SeriesIdHasher::new(1, "tenant"));
    match (defined, expected) {
        (Ok(refused), Ok(definition)) => {
            series.add(block);
            let route = *series.routes().get(definition.r#ref).unwrap();
            assert_eq!(refused.is_none(), route.state == RouteState::Series);
            if route.state == RouteState::Series {
                let mut labels = Vec::new();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                series.body().for_each_label(route.labels, |n, v| labels.push((text(n), text(v))));
                let expect = definition.labels.into_iter().filter(|label| !label.value.is_empty());
                let mut expect: Vec<_> = expect.map(|label| (label.name, label.value)).collect();
                expect.sort();
                assert_eq!(labels, expect);
            }
        }
        // A label that isn't UTF-8 costs its series, and not the stream; of a name or a value that is
        // twice the last counts, and the first isn't looked at.
        (Ok(refused), Err(error)) => {
            let is_text = error.to_string().contains("not UTF-8");
            assert!(refused.is_some() || is_text, "prost refuses it: {error}");
        }
        (Err(DefinitionError::RefTooHigh(_) | DefinitionError::Malformed(_)), _) => {}
        (Err(fault), _) => panic!("a first definition is refused: {fault}"),
    }
}
