//! A request of the same shape as the one before it is decoded without an allocation, and a batch of a
//! stream without one that a sample costs.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use prost::Message;
use silverback::{
    api::{
        grpc::ingest::{Columns, StreamSeries, deal_out},
        ingest::remote_write::{
            DecodeProgress, Decoder, Decoding, SeriesSink, Version, snappy, wire::WireReader,
        },
    },
    routing::{ByteBudget, RoutingTable, Split},
};
use silverback_model::{Sample, SeriesId, SeriesIdHasher};
use silverback_proto::{prometheus, v1, write_v2};
use silverback_storage::message::{DefinitionBlock, LabelSpan, PartPool, RejectedSamples, WriteBody};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[derive(Default)]
struct CountSamples(u64);

impl SeriesSink for CountSamples {
    fn series(&mut self, _id: SeriesId, _labels: LabelSpan, _samples: u32) {}

    fn sample(&mut self, _sample: Sample) {
        self.0 += 1;
    }
}

const SERIES: usize = 300;

/// Decodes the requests one after the other and counts the allocations of the last.
fn allocations_of_last(version: Version, requests: &[Vec<u8>]) -> u64 {
    let hasher = SeriesIdHasher::new(1, "tenant");
    let (mut decoder, mut body, mut sink) =
        (Decoder::default(), WriteBody::default(), CountSamples::default());
    let mut allocations = 0;
    for request in requests {
        let compressed = snap::raw::Encoder::new().compress_vec(request).unwrap();
        let before = ALLOCATIONS.get();
        snappy::decompress(&compressed, 1 << 20, &mut body.bytes).unwrap();
        let mut decoding = Decoding::start(version);
        while decoder.decode(&mut body, &mut decoding, &hasher, 100, &mut sink).unwrap()
            == DecodeProgress::More
        {}
        allocations = ALLOCATIONS.get() - before;
    }
    assert_eq!(sink.0 as usize, SERIES * requests.len());
    allocations
}

/// Every third series unsorted, and every seventh with a label that has no value: remote write 1 writes those out
/// again each time, so that the scratch is used too.
fn labels(series: usize) -> Vec<(String, String)> {
    let mut labels = vec![
        ("__name__".to_owned(), "node_cpu_seconds_total".to_owned()),
        ("instance".to_owned(), format!("host-{series}:9100")),
        ("job".to_owned(), "node".to_owned()),
    ];
    if series.is_multiple_of(3) {
        labels.swap(0, 2);
    }
    if series.is_multiple_of(7) {
        labels.push(("zone".to_owned(), String::new()));
    }
    labels
}

fn request_v1(timestamp: i64) -> Vec<u8> {
    let timeseries = (0..SERIES).map(|i| prometheus::TimeSeries {
        labels: labels(i).into_iter().map(|(name, value)| prometheus::Label { name, value }).collect(),
        samples: vec![prometheus::Sample { value: i as f64, timestamp }],
        ..prometheus::TimeSeries::default()
    });
    prometheus::WriteRequest { timeseries: timeseries.collect(), metadata: vec![] }.encode_to_vec()
}

fn request_v2(timestamp: i64, start_timestamp: i64) -> Vec<u8> {
    let mut request = write_v2::Request { symbols: vec![String::new()], timeseries: vec![] };
    for i in 0..SERIES {
        let first = request.symbols.len() as u32;
        request.symbols.extend(labels(i).into_iter().flat_map(|(name, value)| [name, value]));
        request.timeseries.push(write_v2::TimeSeries {
            labels_refs: (first..request.symbols.len() as u32).collect(),
            samples: vec![write_v2::Sample { value: i as f64, timestamp, start_timestamp }],
            ..write_v2::TimeSeries::default()
        });
    }
    request.encode_to_vec()
}

#[test]
fn version_1_is_decoded_without_an_allocation() {
    let requests = [1_700_000_000_000, 1_700_000_015_000].map(request_v1);
    assert!(allocations_of_last(Version::V1, &requests[..1]) > 0, "the count counts");
    assert_eq!(allocations_of_last(Version::V1, &requests), 0);
}

#[test]
fn version_2_is_decoded_without_an_allocation() {
    for start_timestamp in [0, 1_600_000_000_000] {
        let requests = [1_700_000_000_000, 1_700_000_015_000, 1_700_000_030_000];
        let requests = requests.map(|timestamp| request_v2(timestamp, start_timestamp));
        assert_eq!(allocations_of_last(Version::V2, &requests), 0);
    }
}

/// The series of a stream that has defined them all.
fn defined() -> StreamSeries {
    let mut stream = StreamSeries::new(ByteBudget::new(1 << 20).begin());
    let mut block = DefinitionBlock::default();
    for i in 0..SERIES {
        let labels = labels(i).into_iter().map(|(name, value)| v1::Label { name, value }).collect();
        let definition = v1::SeriesDefinition { labels, r#ref: i as u32 }.encode_to_vec();
        let refused =
            stream.define(WireReader::new(&definition, 0), &mut block, &SeriesIdHasher::new(1, "tenant"));
        assert_eq!(refused, Ok(None));
    }
    stream.add(block);
    stream
}

/// Deals a batch of so many samples out twice, and counts the allocations of the second time.
fn allocations_of_batch(samples: usize) -> u64 {
    let (stream, pool) = (defined(), PartPool::default());
    let ref_deltas =
        (0..samples).map(|i| if i % SERIES == 0 && i > 0 { 1 - SERIES as i32 } else { i32::from(i > 0) });
    let batch = v1::Batch {
        number: 1,
        ref_deltas: ref_deltas.collect(),
        base_timestamp_ms: 1_700_000_000_000,
        timestamp_deltas_ms: vec![1; samples],
        values: (0..samples).map(|i| i as f64).collect(),
        ..v1::Batch::default()
    };
    let (bytes, table) = (batch.encode_to_vec(), std::rc::Rc::new(RoutingTable::even(2)));
    let mut allocations = 0;
    for _time in 0..2 {
        let (mut split, mut refused) =
            (Split::new(std::rc::Rc::clone(&table), &pool), RejectedSamples::default());
        let before = ALLOCATIONS.get();
        let columns = Columns::read(WireReader::new(&bytes, 0)).unwrap();
        deal_out(&columns, &stream.routes(), &mut split, &mut refused).unwrap();
        allocations = ALLOCATIONS.get() - before;
        assert_eq!(refused, RejectedSamples::default());
        let dealt: usize = split.finish().unwrap().map(|(_shard, part)| part.samples.len()).sum();
        assert_eq!(dealt, samples);
    }
    allocations
}

#[test]
fn a_batch_is_dealt_out_without_an_allocation_for_a_sample() {
    let of_few = allocations_of_batch(100);
    assert!(of_few <= 4, "{of_few} allocations: a shard's part may take one");
    assert_eq!(allocations_of_batch(10_000), of_few);
}
