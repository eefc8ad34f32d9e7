//! What the network can fill, filled: definitions that are refused, streams that fall silent after a large
//! message, heads and bodies that don't end. A node with little memory stays far below its limit.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use silverback_model::limits::{CONNECTION_BYTES, MemoryPlan, STREAM_REFS_MAX};
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use silverback_test_support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, field, frame, head};
use silverback_test_support::{Binary, TEST_TIMEOUT, eventually, eventually_found, http};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Endpoint};

const LIMIT_MIB: usize = 128;
const STREAMS: usize = 100;
const MIB: usize = 1 << 20;

fn node() -> Binary {
    Binary::start(
        env!("CARGO_BIN_EXE_silverback"),
        &["--shards", "1", "--memory-limit", &format!("{LIMIT_MIB}MiB")],
    )
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
            if grown < 16 * MIB || began.elapsed() > TEST_TIMEOUT {
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
    // No more than there may be at a time.
    let heads: Vec<_> =
        (0..plan().connections_max - 4).map(|_| begin(b"GET / HTTP/1.1\r\nX: ", &[b'a'; 30 << 10])).collect();
    let grown = node.resident_bytes().saturating_sub(before);
    assert!(grown < LIMIT_MIB * MIB / 10, "{grown} bytes for heads");
    drop(heads);
    wait_until_served(&node);
    let head = http::head("POST", "/api/v1/write", &[], 4 << 20);
    let bodies: Vec<_> = (0..40).map(|_| begin(head.as_bytes(), &vec![0; 2 * MIB])).collect();
    let peak_mib = node.peak_bytes() / MIB;
    assert!(peak_mib < LIMIT_MIB, "{peak_mib} MiB resident at most");
    drop(bodies);
    wait_until_served(&node);
}

/// Until connections that were closed have left their places.
fn wait_until_served(node: &Binary) {
    eventually("connections that were closed keep their places", || {
        let mut stream = std::io::BufReader::new(node.connect());
        http::send(stream.get_mut(), "GET", "/-/healthy", &[], b"");
        http::try_read_answer(&mut stream).is_ok_and(|answer| answer.status == 200)
    });
}

/// As many connections as there may be but for a few, each with HTTP/2 streams that send these frames; what of them
/// the node doesn't read stays in their sockets.
fn with_streams(node: &Binary, frames: impl Fn() -> Vec<u8>) -> Vec<Http2> {
    let connections = plan().connections_max - 4;
    let begin = || -> std::io::Result<Http2> {
        let stream = node.connect();
        stream.set_write_timeout(Some(Duration::from_millis(100)))?;
        let mut connection = Http2::begin(stream)?;
        // A refused one may be reset before all is sent.
        drop(connection.send(&frames()));
        Ok(connection)
    };
    (0..connections).filter_map(|_| begin().ok()).collect()
}

fn plan() -> MemoryPlan {
    MemoryPlan::new(LIMIT_MIB * MIB, 1).unwrap()
}

/// The node grows by no more than the plan has for connections, and serves meanwhile.
fn check_filled(node: &Binary, before: usize, what: &str) {
    // Beside the buffers: what an executor works with, which the plan has 24 MiB for, in a build whose tasks are large.
    const MARGIN_BYTES: usize = 18 * MIB;

    let mut most = 0;
    for _ in 0..30 {
        most = most.max(node.resident_bytes());
        std::thread::sleep(Duration::from_millis(50));
    }
    let (grown, planned) = (most.saturating_sub(before), plan().connection_bytes);
    println!("{what}: {} KiB grown, {} KiB planned", grown >> 10, planned >> 10);
    assert!(grown < planned + MARGIN_BYTES, "{grown} bytes for {what}, of {planned} that are planned");
    assert_eq!(node.get("/-/healthy").status, 200);
}

/// What the node's only core has counted.
fn counted(node: &Binary, metric: &str) -> u64 {
    let text = node.get("/metrics").text();
    let line = text.lines().find(|line| line.starts_with(&format!("{metric}{{")));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok()).expect(metric)
}

const STREAM_CALL: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];
const STREAMS_A_CONNECTION: u32 = 127;

/// The numbers of a client's streams.
fn stream_ids() -> impl Iterator<Item = u32> {
    (0..STREAMS_A_CONNECTION).map(|at| 2 * at + 1)
}

#[test]
fn full_heads_of_all_streams_of_all_connections_stay_within_their_part() {
    let node = node();
    let before = node.resident_bytes();
    for (what, fields) in [("heads of many fields", 90), ("heads of as many fields as fit", 450)] {
        let names: Vec<String> = (0..fields).map(|i| format!("x{i}")).collect();
        let fields: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "")).collect();
        let head = head("POST", "/api/v1/write", &fields);
        let streams: Vec<u8> = stream_ids().flat_map(|id| frame(HEADERS, END_HEADERS, id, &head)).collect();
        let held = with_streams(&node, || streams.clone());
        check_filled(&node, before, what);
        drop(held);
    }
    assert!(counted(&node, "silverback_http_heads_refused_total") > 0);
}

#[test]
fn trailers_of_streams_that_are_not_read_stay_within_their_part() {
    let node = node();
    let before = node.resident_bytes();
    let call = head("POST", "/silverback.v1.Ingest/Stream", &STREAM_CALL);
    let trailers: Vec<u8> = (0..450).flat_map(|i| field(&format!("x{i}"), "")).collect();
    let held = with_streams(&node, || {
        let calls = stream_ids().flat_map(|id| frame(HEADERS, END_HEADERS, id, &call));
        // An unread message lies before them.
        let messages = stream_ids().flat_map(|id| frame(DATA, 0, id, &[0; 300]));
        let ends = stream_ids().flat_map(|id| frame(HEADERS, END_HEADERS | END_STREAM, id, &trailers));
        calls.chain(messages).chain(ends).collect()
    });
    check_filled(&node, before, "trailers");
    drop(held);
}

#[test]
fn windows_that_are_filled_and_not_read_stay_within_their_part() {
    let node = node();
    let before = node.resident_bytes();
    let call = head("POST", "/silverback.v1.Ingest/Stream", &STREAM_CALL);
    // Empty messages: each is answered, and no answer is taken.
    let window = [0; 65_535];
    let held = with_streams(&node, || {
        let messages = window.chunks(16 << 10).flat_map(|part| frame(DATA, 0, 1, part));
        frame(HEADERS, END_HEADERS, 1, &call).into_iter().chain(messages).collect()
    });
    check_filled(&node, before, "windows");
    let held_back = counted(&node, "silverback_connection_reads_held_back_total");
    assert!(held_back > 0, "more windows than there is memory for");
    // A client that keeps what others wait for is closed, and these go on.
    let began = Instant::now();
    let lines = vec![b'\n'; 200_000];
    assert_eq!(node.keep().ask("POST", "/api/v1/import/prometheus", &[], &lines).status, 204);
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    drop(held);
}

#[test]
fn answers_that_nobody_takes_stay_within_their_part() {
    let node = node();
    let before = node.resident_bytes();
    let asked = head("GET", "/metrics", &[]);
    let held = with_streams(&node, || {
        stream_ids().flat_map(|id| frame(HEADERS, END_HEADERS | END_STREAM, id, &asked)).collect()
    });
    check_filled(&node, before, "answers");
    drop(held);
}

#[test]
fn a_connection_takes_what_is_planned_for_it() {
    let node = node();
    drop(with_streams(&node, Vec::new));
    std::thread::sleep(Duration::from_secs(1));
    let before = node.resident_bytes();
    let call = head("POST", "/silverback.v1.Ingest/Stream", &STREAM_CALL);
    let held = with_streams(&node, || frame(HEADERS, END_HEADERS, 1, &call));
    // A debug build's tasks are larger. What it takes to begin a stream goes a little later, on a loaded machine later.
    eventually_found(|| {
        let of_each = node.resident_bytes().saturating_sub(before) / held.len();
        let fits = of_each < CONNECTION_BYTES / 2 * 3;
        fits.then_some(()).ok_or(format!("{of_each} bytes a connection, planned {CONNECTION_BYTES}"))
    });
}
