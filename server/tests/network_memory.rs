//! What the network can fill, filled: definitions that are refused, streams that fall silent after a large
//! message, heads and bodies that don't end. A node with little memory stays far below its limit.
#[path = "harness/binary.rs"]
mod binary;
#[path = "harness/mod.rs"]
mod harness;

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use silverback::limits::STREAM_REFS_MAX;
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Endpoint};

use binary::Binary;

const LIMIT_MIB: usize = 128;
const STREAMS: usize = 100;
const MIB: usize = 1 << 20;

fn node() -> Binary {
    Binary::start(&["--shards", "1", "--memory-limit", &format!("{LIMIT_MIB}MiB")])
}

/// A stream that its node has acknowledged a message of.
struct Silent {
    _requests: mpsc::Sender<v1::StreamRequest>,
    _responses: Streaming<v1::StreamResponse>,
}

impl Silent {
    async fn after(channel: &Channel, message: v1::StreamRequest) -> Self {
        let (requests, sent) = mpsc::channel(1);
        let mut client = IngestClient::new(channel.clone()).send_compressed(CompressionEncoding::Gzip);
        let call = client.stream(ReceiverStream::new(sent)).await;
        let mut responses = call.unwrap().into_inner();
        responses.message().await.unwrap().expect("the terms come first");
        requests.send(message).await.unwrap();
        let told = responses.message().await.unwrap().expect("a refusal");
        assert_eq!(told.refusals.len(), 1);
        Self { _requests: requests, _responses: responses }
    }
}

/// Has streams of one connection send a message each and fall silent; tells by how much the node grew.
fn grown_by_streams(message: impl Fn() -> v1::StreamRequest) -> usize {
    let node = node();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel =
            Endpoint::from_shared(format!("http://{}", node.address)).unwrap().connect().await.unwrap();
        drop(Silent::after(&channel, message()).await);
        let before = node.resident_bytes();
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(Silent::after(&channel, message()).await);
        }
        // The allocator gives back what is freed a little later.
        let began = Instant::now();
        loop {
            let grown = node.resident_bytes().saturating_sub(before);
            if grown < 16 * MIB || began.elapsed() > Duration::from_secs(5) {
                assert!(node.peak_bytes() < LIMIT_MIB * MIB);
                return grown;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

fn definition(stream_ref: u32, value: String) -> v1::StreamRequest {
    let label = v1::Label { name: "job".to_owned(), value };
    let series = v1::SeriesDefinition { labels: vec![label], r#ref: stream_ref };
    v1::StreamRequest { series: vec![series], batch: None }
}

#[test]
fn refused_definitions_of_the_highest_ref_take_little() {
    let grown = grown_by_streams(|| definition(STREAM_REFS_MAX as u32 - 1, "a".to_owned()));
    assert!(grown < 16 * MIB, "{grown} bytes for {STREAMS} refused definitions");
}

#[test]
fn streams_keep_nothing_of_a_large_message_when_they_fall_silent() {
    let grown = grown_by_streams(|| definition(0, "a".repeat(4 * MIB - 100)));
    assert!(grown < 16 * MIB, "{grown} bytes for {STREAMS} silent streams");
}

#[test]
fn heads_and_bodies_that_do_not_end_stay_within_their_part() {
    let node = node();
    let before = node.resident_bytes();
    let begin = |start: &[u8], more: &[u8]| -> Option<TcpStream> {
        let mut stream = TcpStream::connect(node.address).ok()?;
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(start).ok()?;
        // As much of it as the node reads.
        drop(stream.write_all(more));
        Some(stream)
    };
    let heads: Vec<_> = (0..300).map(|_| begin(b"GET / HTTP/1.1\r\nX: ", &[b'a'; 30 << 10])).collect();
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown < LIMIT_MIB * MIB / 10, "{grown} bytes for heads");
    drop(heads);
    let head = harness::head("POST", "/api/v1/write", &[], 4 << 20);
    let bodies: Vec<_> = (0..40).map(|_| begin(head.as_bytes(), &vec![0; 2 * MIB])).collect();
    let peak_mib = node.peak_bytes() / MIB;
    assert!(peak_mib < LIMIT_MIB, "{peak_mib} MiB resident at the most");
    drop(bodies);
    let began = Instant::now();
    while node.get("/-/healthy").status != 200 {
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}
