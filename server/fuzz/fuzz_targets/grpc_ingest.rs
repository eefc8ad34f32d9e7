//! gRPC's batches and definitions against prost: what prost reads, we read alike or refuse for a
//! reason of ours; what it can't read, we don't.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use silverback::api::grpc::ingest::{BatchFault, Columns, DefinitionFault, RouteState, StreamSeries};
use silverback::api::ingest::remote_write::wire::Reader;
use silverback::routing::ByteBudget;
use silverback_model::SeriesIdHasher;
use silverback_proto::v1;
use silverback_storage::message::DefinitionBlock;

const SAMPLES_MAX: usize = 1000;

type Bits = (u32, i64, u64);

fuzz_target!(|bytes: &[u8]| {
    check_batch(bytes);
    check_definition(bytes);
});

fn check_batch(bytes: &[u8]) {
    let expected = v1::Batch::decode(bytes);
    let mut read: Vec<Bits> = Vec::new();
    let outcome = Columns::read(Reader::new(bytes, 0)).and_then(|columns| {
        columns.for_each(SAMPLES_MAX, |stream_ref, sample| {
            read.push((stream_ref, sample.timestamp_ms, sample.value.to_bits()));
            Ok(())
        })
    });
    match (outcome, expected) {
        (Ok(()), Ok(batch)) => assert_eq!(Some(read), samples_of(&batch)),
        (Ok(()), Err(error)) => panic!("prost refuses it: {error}"),
        (Err(BatchFault::UndefinedRef { .. }), _) => panic!("refs are not looked at here"),
        (Err(BatchFault::Malformed(_)), _) => {}
        (Err(fault), Ok(batch)) => assert_eq!(samples_of(&batch), None, "{fault}"),
        // A column that ends within a number is of no length that could be told.
        (Err(_), Err(_)) => {}
    }
}

/// `None`: it is no batch by our rules.
fn samples_of(batch: &v1::Batch) -> Option<Vec<Bits>> {
    let samples = batch.values.len();
    let timed = [0, samples].contains(&batch.timestamp_deltas_ms.len());
    if !(1..=SAMPLES_MAX).contains(&samples) || batch.ref_deltas.len() != samples || !timed {
        return None;
    }
    let (mut stream_ref, mut timestamp_ms) = (0i64, batch.base_timestamp_ms);
    let mut deltas = batch.timestamp_deltas_ms.iter();
    let mut sample = |(delta, value): (&i32, &f64)| {
        stream_ref += i64::from(*delta);
        timestamp_ms = timestamp_ms.wrapping_add(deltas.next().copied().unwrap_or(0));
        Some((u32::try_from(stream_ref).ok()?, timestamp_ms, value.to_bits()))
    };
    batch.ref_deltas.iter().zip(&batch.values).map(&mut sample).collect()
}

fn check_definition(bytes: &[u8]) {
    let expected = v1::SeriesDefinition::decode(bytes);
    let mut series = StreamSeries::new(ByteBudget::new(1 << 26).begin());
    let mut block = DefinitionBlock::default();
    let defined = series.define(Reader::new(bytes, 0), &mut block, &SeriesIdHasher::new(1, "tenant"));
    match (defined, expected) {
        (Ok(refused), Ok(definition)) => {
            series.add(block);
            let route = series.routes().get(definition.r#ref).unwrap();
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
        // A label that isn't UTF-8 costs its series, and not the stream; of a name or a value that stands
        // twice the last counts, and the first isn't looked at.
        (Ok(refused), Err(error)) => {
            let is_text = error.to_string().contains("not UTF-8");
            assert!(refused.is_some() || is_text, "prost refuses it: {error}");
        }
        (Err(DefinitionFault::RefTooHigh(_) | DefinitionFault::Malformed(_)), _) => {}
        (Err(fault), _) => panic!("a first definition is refused: {fault}"),
    }
}
