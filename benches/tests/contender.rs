//! The contender gives the node's answers: status, headers and words, counts what it holds, and logs what it
//! acknowledges.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use prost::Message;
use silverback::config::Config;
use silverback_benches::contender::{Contender, Grpc, Stripes, serve};
use silverback_benches::fleet;
use silverback_model::clock::Clock;
use silverback_proto::prometheus::{Label, Sample, TimeSeries, WriteRequest};
use silverback_storage::wal::AckMode;
use silverback_storage::wal::frame::{self, FrameCheck, FrameKey};
use silverback_storage::wal::record::{Record, records};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

const SERIES: usize = 500;
/// What the log's writes begin at multiples of.
const BLOCK_BYTES: usize = 4096;
const V1: &str = "application/x-protobuf";
const V2: &str = "application/x-protobuf;proto=io.prometheus.write.v2.Request";

/// Runs a client against a contender on two workers, and ends it.
fn serving<F: Future<Output = ()>>(config: Config, client: impl FnOnce(SocketAddr) -> F) {
    serving_of(config, |address, _contender| client(address));
}

/// A directory for one contender's log; it goes with this.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let place = PLACES.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("silverback-contender-{}-{place}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left there is in the temporary directory, and small.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The same, for a client that looks into the contender, too.
fn serving_of<F: Future<Output = ()>>(config: Config, client: impl FnOnce(SocketAddr, Arc<Contender>) -> F) {
    let place = Place::new();
    let config = Config { data_dir: place.0.clone(), wal_segment_bytes: 1 << 20, ..config };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, told_to_end) = oneshot::channel::<()>();
        let contender = Contender::open(config, Stripes::new(8), &Handle::current()).unwrap();
        let serving = tokio::spawn(serve(Arc::clone(&contender), listener, async {
            told_to_end.await.unwrap();
        }));
        client(address, contender).await;
        end.send(()).unwrap();
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    });
}

/// Samples in the log's file, frame by frame.
fn samples_on_disk(contender: &Contender) -> usize {
    let bytes = std::fs::read(contender.data_dir().join("contender.wal")).unwrap();
    let key = FrameKey::new(contender.seed());
    // A frame says its file's number after its checksum and its length.
    let number = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    let (mut at, mut samples) = (0, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        // Where no frame goes on, a write has ended: the next one begins with the next block.
        let FrameCheck::Whole { header, payload } = frame::check(key, number, rest, rest.len() as u64) else {
            at = (at + 1).next_multiple_of(BLOCK_BYTES);
            continue;
        };
        for record in records(&rest[payload]) {
            if let Record::Samples(record) = record.unwrap() {
                samples += record.count();
            }
        }
        at += header.frame_bytes();
    }
    samples
}

/// An HTTP answer, its head in lower case.
#[derive(Debug)]
struct Answered {
    status: StatusCode,
    head: String,
    text: String,
}

async fn send(address: SocketAddr, head: &str, body: &[u8]) -> Answered {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    // Refused before it is read to its end, a body may find the connection closed.
    let _ = stream.write_all(body).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    Answered { status: head[9..12].parse().unwrap(), head: head.to_lowercase(), text: text.to_owned() }
}

async fn post(address: SocketAddr, content_type: &str, message: &[u8]) -> Answered {
    let body = snap::raw::Encoder::new().compress_vec(message).unwrap();
    send(address, &format!("POST /api/v1/write HTTP/1.1\r\ncontent-type: {content_type}"), &body).await
}

fn check(answered: &Answered, status: StatusCode, words: &str) {
    assert_eq!(answered.status, status, "{answered:?}");
    assert!(answered.text.contains(words), "{answered:?}");
    assert_eq!(answered.text.is_empty(), words.is_empty());
}

/// The sum of a metric's samples.
async fn metric(address: SocketAddr, name: &str) -> f64 {
    let page = send(address, "GET /metrics HTTP/1.1", b"").await;
    let of_metric = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with([' ', '{']);
    let value = |line: &str| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
    page.text.lines().filter(of_metric).map(value).sum()
}

async fn check_held(address: SocketAddr, samples: usize, series: usize, refused: usize) {
    let held = [
        metric(address, "silverback_samples_total").await,
        metric(address, "silverback_series").await,
        metric(address, "silverback_samples_refused_total").await,
    ];
    assert_eq!(held, [samples, series, refused].map(|n| n as f64));
}

fn now_ms() -> i64 {
    Clock::System.now_ms()
}

fn series(labels: &[(&str, &str)], samples: &[(i64, f64)]) -> TimeSeries {
    let label = |(name, value): &(&str, &str)| Label { name: (*name).into(), value: (*value).into() };
    let sample = |&(timestamp, value): &(i64, f64)| Sample { value, timestamp };
    TimeSeries {
        labels: labels.iter().map(label).collect(),
        samples: samples.iter().map(sample).collect(),
        ..TimeSeries::default()
    }
}

fn request(timeseries: Vec<TimeSeries>) -> Vec<u8> {
    WriteRequest { timeseries, metadata: vec![] }.encode_to_vec()
}

#[test]
fn good_requests_of_both_versions_are_stored_in_the_same_series() {
    serving(Config::default(), async |address| {
        let now_ms = now_ms();
        let first = fleet::request_v1(0, SERIES, now_ms - 15_000).encode_to_vec();
        check(&post(address, V1, &first).await, StatusCode::NO_CONTENT, "");
        let second = post(address, V2, &fleet::request_v2(0, SERIES, now_ms).encode_to_vec()).await;
        check(&second, StatusCode::NO_CONTENT, "");
        assert!(second.head.contains("x-prometheus-remote-write-samples-written: 500"), "{second:?}");
        check_held(address, 2 * SERIES, SERIES, 0).await;
    });
}

#[test]
fn what_is_acknowledged_is_in_the_log() {
    let config = Config { ack: AckMode::Durable, ..Config::default() };
    serving_of(config, async |address, contender| {
        for request in 1..=5 {
            let at_ms = now_ms() - 60_000 + request * 1000;
            let body = fleet::request_v1(0, SERIES, at_ms).encode_to_vec();
            check(&post(address, V1, &body).await, StatusCode::NO_CONTENT, "");
            assert_eq!(samples_on_disk(&contender), request as usize * SERIES);
        }
    });
}

#[test]
fn what_is_acknowledged_from_memory_is_in_the_log_soon() {
    let config = Config { ack: AckMode::Memory, ..Config::default() };
    serving_of(config, async |address, contender| {
        let body = fleet::request_v1(0, SERIES, now_ms()).encode_to_vec();
        check(&post(address, V1, &body).await, StatusCode::NO_CONTENT, "");
        let give_up = Instant::now() + Duration::from_secs(20);
        while samples_on_disk(&contender) < SERIES {
            assert!(Instant::now() < give_up, "it never came to the disk");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

#[test]
fn many_at_once_share_commits_and_a_file_that_is_full_is_begun_again() {
    serving_of(Config::default(), async |address, _contender| {
        // Some 20 MB of new labels go through a file of one.
        let send = async |client: usize| {
            for request in 0..20 {
                let first = (client * 20 + request) * SERIES;
                let body = fleet::request_v1(first, SERIES, now_ms()).encode_to_vec();
                check(&post(address, V1, &body).await, StatusCode::NO_CONTENT, "");
            }
        };
        futures::future::join_all((0..8).map(send)).await;
        check_held(address, 8 * 20 * SERIES, 8 * 20 * SERIES, 0).await;
    });
}

#[test]
fn a_write_over_grpc_is_stored_and_logged() {
    serving_of(Config::default(), async |address, contender| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let grpc_address = listener.local_addr().unwrap();
        tokio::spawn(Grpc(Arc::clone(&contender)).serve(listener, std::future::pending()));
        let client = silverback_client::Client::connect(format!("http://{grpc_address}")).await.unwrap();
        let now = now_ms();
        let one = |n: usize| {
            let labels = [("n", n.to_string())];
            silverback_client::Series::new("a", labels).sample(now, 1.0).sample(now + 1, 2.0)
        };
        let written = client.write(&(0..SERIES).map(one).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(written.samples_written, 2 * SERIES as u64);
        assert_eq!(samples_on_disk(&contender), 2 * SERIES);
        check_held(address, 2 * SERIES, SERIES, 0).await;
    });
}

#[test]
fn a_retry_is_accepted_and_makes_no_series() {
    serving(Config::default(), async |address| {
        let body = fleet::request_v1(0, SERIES, now_ms()).encode_to_vec();
        for _ in 0..3 {
            check(&post(address, V1, &body).await, StatusCode::NO_CONTENT, "");
        }
        check_held(address, 3 * SERIES, SERIES, 0).await;
    });
}

#[test]
fn bad_samples_cost_the_good_ones_nothing_and_are_told() {
    serving(Config::default(), async |address| {
        let now = now_ms();
        let late = series(&[("__name__", "a")], &[(now, 1.0), (now - 3_600_001, 1.0), (now, 2.0)]);
        let unnamed = series(&[("job", "b")], &[(now, 1.0)]);
        let answered = post(address, V1, &request(vec![late, unnamed])).await;
        let words = "3 of 4 samples refused: out_of_order 1, duplicate 1, missing_name 1; first: {job=\"b\"}";
        check(&answered, StatusCode::BAD_REQUEST, words);
        check_held(address, 1, 1, 3).await;
    });
}

#[test]
fn a_malformed_request_stores_nothing() {
    serving(Config::default(), async |address| {
        let mut body = fleet::request_v1(0, SERIES, now_ms()).encode_to_vec();
        body.truncate(body.len() - 1);
        check(&post(address, V1, &body).await, StatusCode::BAD_REQUEST, "ends past");
        check_held(address, 0, 0, 0).await;
        // The worker's buffers hold nothing of it when they are used again.
        let good = fleet::request_v1(0, SERIES, now_ms()).encode_to_vec();
        check(&post(address, V1, &good).await, StatusCode::NO_CONTENT, "");
        check_held(address, SERIES, SERIES, 0).await;
    });
}

#[test]
fn what_is_no_write_request_is_refused_as_by_the_node() {
    serving(Config::default(), async |address| {
        let write = "POST /api/v1/write HTTP/1.1";
        check(&send(address, write, b"not snappy").await, StatusCode::BAD_REQUEST, "snappy");
        let answered = post(address, "text/plain", b"").await;
        check(&answered, StatusCode::UNSUPPORTED_MEDIA_TYPE, "application/x-protobuf");
        let answered = send(address, "GET /api/v1/write HTTP/1.1", b"").await;
        check(&answered, StatusCode::METHOD_NOT_ALLOWED, "POST");
        check(&send(address, "GET /-/ready HTTP/1.1", b"").await, StatusCode::OK, "ready");
        check(&send(address, "GET /nowhere HTTP/1.1", b"").await, StatusCode::NOT_FOUND, "/nowhere");
    });
}

#[test]
fn limits_hold_before_anything_is_read() {
    let config = Config { max_body_bytes: 1000, max_decoded_bytes: 2000, ..Config::default() };
    serving(config, async |address| {
        let answered = send(address, "POST /api/v1/write HTTP/1.1", &[0; 1001]).await;
        check(&answered, StatusCode::PAYLOAD_TOO_LARGE, "1000 bytes");
        check(&post(address, V1, &[0; 2001]).await, StatusCode::PAYLOAD_TOO_LARGE, "at most 2000");
    });
}

#[test]
fn a_connection_above_the_limit_is_closed_at_once() {
    let config = Config { max_connections: 1, ..Config::default() };
    serving(config, async |address| {
        let first = TcpStream::connect(address).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(matches!(second.read(&mut [0; 1]).await, Ok(0) | Err(_)));
        drop(first);
    });
}
