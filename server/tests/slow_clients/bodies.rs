//! Bodies that trickle keep nobody out where connections are at their limit.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use silverback_host::Counts;
use silverback_node_test_support::{Node, executors};
use silverback_runtime as runtime;
use silverback_runtime::{Encryption, Executor, HttpLimits, HttpServer, Listener, WatchedBody};
use silverback_test_support::http::{Kept, head, read_answer, request};
use silverback_test_support::http2::{self, DATA, END_HEADERS, HEADERS, Http2, frame};
use silverback_test_support::{TEST_TIMEOUT, eventually_found};

const CONNECTIONS: usize = 4;
const PATH: &str = "/api/v1/import/prometheus";
/// Far less than a request's time limit.
const SOON: Duration = Duration::from_secs(9);

/// Clients that send a piece of their bodies again and again, until this is dropped or they are closed.
struct Senders {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Senders {
    fn of(streams: impl IntoIterator<Item = TcpStream>, piece: &[u8], pause: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let send = |mut stream: TcpStream| {
            let (is_over, piece) = (Arc::clone(&is_over), piece.to_vec());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) && stream.write_all(&piece).is_ok() {
                    std::thread::sleep(pause);
                }
            })
        };
        let threads = streams.into_iter().map(send).collect();
        Self { is_over, threads }
    }

    /// How many are closed.
    fn closed(&self) -> usize {
        self.threads.iter().filter(|thread| thread.is_finished()).count()
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.threads.drain(..).map(JoinHandle::join).all(|ended| ended.is_ok());
        assert!(ended || std::thread::panicking(), "a sender panicked");
    }
}

/// A connection with a request in flight whose body is to come.
fn begun(mut stream: TcpStream) -> TcpStream {
    stream.write_all(head("POST", PATH, &[], 1 << 20).as_bytes()).unwrap();
    stream
}

/// The same over HTTP/2.
fn begun_over_http2(stream: TcpStream) -> TcpStream {
    let mut connection = Http2::begin(stream).unwrap();
    connection.send(&frame(HEADERS, END_HEADERS, 1, &http2::head("POST", PATH, &[]))).unwrap();
    connection.0
}

/// Asks on a new connection until one has a place, for so long.
fn served_within(limit: Duration, connect: impl Fn() -> TcpStream) -> Option<Duration> {
    let began = Instant::now();
    let is_served = || {
        let mut stream = connect();
        let is_sent = stream.write_all(&request("GET", "/-/healthy", &[], b"")).is_ok();
        is_sent && matches!(stream.read(&mut [0; 12]), Ok(12))
    };
    while began.elapsed() < limit {
        if is_served() {
            return Some(began.elapsed());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    None
}

/// A node all of whose connections are taken by bodies that come in such pieces.
fn check_trickle(begin: fn(TcpStream) -> TcpStream, piece: &[u8]) {
    let node = Node::start_with(1, |config| config.max_connections = CONNECTIONS);
    let streams: Vec<_> = (0..CONNECTIONS).map(|_| begin(node.connect())).collect();
    let senders = Senders::of(streams, piece, Duration::from_millis(300));
    // They came within the second: at first they have their time.
    let served = served_within(SOON, || node.connect());
    assert!(served.is_some(), "bodies that trickle keep new connections out");
    let metrics = node.get("/metrics").text();
    let evicted = metrics.lines().find(|line| line.starts_with("silverback_connections_evicted_total"));
    assert!(!evicted.expect("it is there").ends_with(" 0"), "{evicted:?}");
    drop(senders);
}

#[test]
fn bodies_that_trickle_give_way_at_the_limit() {
    check_trickle(begun, b"#");
}

#[test]
fn bodies_that_trickle_over_http2_give_way_at_the_limit() {
    check_trickle(begun_over_http2, &frame(DATA, 0, 1, b"#"));
}

#[test]
fn pings_are_no_progress_of_a_body() {
    const PING: u8 = 6;

    let piece = [frame(PING, 0, 0, &[0; 8]).repeat(40), frame(DATA, 0, 1, b"#")].concat();
    check_trickle(begun_over_http2, &piece);
}

/// Answers once the body has come, and to this path some seconds later.
async fn answer(request: Request<WatchedBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_long = request.uri().path() == "/long";
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if is_long {
        runtime::sleep(Duration::from_secs(8)).await;
    }
    Ok(Response::new(Full::new(body)))
}

/// Serves [`answer`] on one executor while `client` runs, and gives what was counted.
fn serving(client: impl FnOnce(SocketAddr)) -> Counts {
    let serve = |executor: Executor<()>, listener: Listener| async move {
        let server = HttpServer::new(&HttpLimits::default(), executor.shutdown.clone());
        server.serve(&listener, &Encryption::default(), |_| service_fn(answer)).await.unwrap();
        runtime::counts()
    };
    executors::serving(1, CONNECTIONS, serve, |address, _| client(address)).1.remove(0)
}

fn connect(address: SocketAddr) -> TcpStream {
    // The executor may not listen yet.
    let stream = eventually_found(|| TcpStream::connect(address));
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

fn keep(address: SocketAddr) -> Kept {
    Kept(std::io::BufReader::new(connect(address)))
}

/// Whose request came whole is answered, whose body comes at a pace stays: neither gives way, whoever comes.
#[test]
fn a_request_that_is_answered_and_a_body_that_comes_at_a_pace_keep_their_connections() {
    let counts = serving(|address| {
        let mut long = keep(address);
        long.0.get_mut().write_all(&request("POST", "/long", &[], b"body")).unwrap();
        let mut over_http2 = Http2::begin(connect(address)).unwrap();
        for (stream, path) in [(1, "/long"), (3, "/")] {
            let head = http2::head("POST", path, &[]);
            over_http2.send(&frame(HEADERS, END_HEADERS, stream, &head)).unwrap();
        }
        // One of its requests is answered beside one that is waited for.
        over_http2.send(&frame(DATA, http2::END_STREAM, 1, b"body")).unwrap();
        let paced = (0..2).map(|_| begun(connect(address)));
        let paced = Senders::of(paced, &[b'x'; 600], Duration::from_millis(300));
        let served = served_within(Duration::from_millis(6500), || connect(address));
        assert_eq!(served, None, "nobody gives way");
        assert_eq!(paced.closed(), 0);
        assert_eq!(read_answer(&mut long.0).text(), "body");
        let is_head = |frame: &(u8, u8, u32, Vec<u8>)| frame.0 == HEADERS && frame.2 == 1;
        while !is_head(&over_http2.receive().unwrap()) {}
        drop(paced);
    });
    assert_eq!(counts.connections_evicted, 0);
}

#[test]
fn where_there_is_room_a_body_may_trickle() {
    let counts = serving(|address| {
        let mut slow = keep(address);
        slow.0.get_mut().write_all(head("POST", "/", &[], 12).as_bytes()).unwrap();
        for _ in 0..12 {
            slow.0.get_mut().write_all(b"x").unwrap();
            std::thread::sleep(Duration::from_millis(500));
        }
        assert_eq!(read_answer(&mut slow.0).text(), "x".repeat(12));
    });
    assert_eq!((counts.connections_evicted, counts.connections_timed_out), (0, 0));
}
