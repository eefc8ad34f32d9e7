//! HTTP connections on an executor: panics, limits, timeouts, shutdown, both protocols.

use std::{
    convert::Infallible,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::Either;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use silverback_host::Counts;
use silverback_node_test_support::executors;
use silverback_node_test_support::executors::{on_executors, options};
use silverback_runtime as runtime;
use silverback_runtime::{
    BoundAddress, Encryption, Executor, HttpLimits, HttpServer, Listener, Shutdown, Stream, WatchedBody,
};
use silverback_test_support::{TEST_TIMEOUT, eventually_found};

/// Answers a request by its path.
async fn answer(request: Request<WatchedBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/panic" => panic!("asked to"),
        "/slow" => runtime::sleep(Duration::from_millis(200)).await,
        _ => {}
    }
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Ok(Response::new(Full::new(body)))
}

/// Serves [`answer`] on one executor while `client` runs, then ends it and gives its counts.
fn serving(limits: HttpLimits, connections_max: usize, client: impl FnOnce(SocketAddr, &Shutdown)) -> Counts {
    let serve = move |executor: Executor<()>, listener: Listener| {
        let limits = limits.clone();
        async move {
            let server = HttpServer::new(&limits, executor.shutdown.clone());
            server.serve(&listener, &Encryption::default(), |_| service_fn(answer)).await.unwrap();
            drain().await;
            runtime::counts()
        }
    };
    executors::serving(1, connections_max, serve, client).1.remove(0)
}

/// Waits until all connections are closed, for as long as a test may wait.
async fn drain() {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while runtime::counts().connections_open > 0 && Instant::now() < deadline {
        runtime::sleep(Duration::from_millis(5)).await;
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    // The executor may not listen yet.
    let stream = eventually_found(|| TcpStream::connect(address));
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

fn post(stream: &mut TcpStream, path: &str, body: &[u8]) {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
}

/// The status and the body of the next answer.
fn read_answer(stream: &mut TcpStream) -> (u16, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    (head[9..12].parse().unwrap(), body)
}

fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 64]), Ok(0) | Err(_))
}

#[test]
fn requests_on_one_connection_are_answered_one_after_the_other() {
    let counts = serving(HttpLimits::default(), 10, |address, _| {
        let mut stream = connect(address);
        for size in [0, 1, 1000, 100_000, 1_000_000] {
            let body = vec![b'x'; size];
            post(&mut stream, "/", &body);
            assert_eq!(read_answer(&mut stream), (200, body));
        }
    });
    assert_eq!((counts.requests, counts.connections_accepted, counts.requests_in_flight), (5, 1, 0));
    assert_eq!((counts.connections_open, counts.connection_errors), (0, 0));
}

#[test]
fn a_connection_that_waits_for_its_client_leaves_the_memory_to_read_ahead_to_others() {
    let limits = HttpLimits { reading_max: 1, ..HttpLimits::default() };
    let counts = serving(limits, 10, |address, _| {
        let (mut first, mut second) = (connect(address), connect(address));
        let head = b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n";
        first.write_all(head).unwrap();
        assert_eq!(read_answer(&mut first).0, 100, "it is in flight");
        first.write_all(b"first").unwrap();
        // A read that waits for its client needs no memory, and keeps nobody waiting.
        let body = vec![b'x'; 100_000];
        post(&mut second, "/", &body);
        assert_eq!(read_answer(&mut second), (200, body));
        first.write_all(b" body").unwrap();
        assert_eq!(read_answer(&mut first), (200, b"first body".to_vec()));
        // A read that leaves while others wait leaves its place to them.
        first.write_all(head).unwrap();
        assert_eq!(read_answer(&mut first).0, 100);
        post(&mut second, "/", b"again, and more than comes with a head");
        drop(first);
        assert_eq!(read_answer(&mut second).0, 200);
    });
    assert!(counts.reads_held_back >= 1, "{counts:?}");
    assert_eq!(counts.requests_in_flight, 0);
}

#[test]
fn a_request_that_panics_is_answered_500_and_its_neighbours_live() {
    let counts = serving(HttpLimits::default(), 10, |address, _| {
        let (mut one, mut other) = (connect(address), connect(address));
        post(&mut other, "/slow", b"other");
        post(&mut one, "/panic", b"");
        assert_eq!(read_answer(&mut one).0, 500);
        assert_eq!(read_answer(&mut other), (200, b"other".to_vec()));
        post(&mut one, "/", b"again");
        assert_eq!(read_answer(&mut one), (200, b"again".to_vec()));
    });
    assert_eq!((counts.request_panics, counts.task_panics, counts.requests), (1, 0, 3));
}

#[test]
fn a_head_that_dribbles_in_is_cut_off() {
    let limits = HttpLimits { header_timeout: Duration::from_millis(100), ..HttpLimits::default() };
    let counts = serving(limits, 10, |address, _| {
        let mut stream = connect(address);
        let begun = Instant::now();
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut closed = false;
        while !closed && begun.elapsed() < Duration::from_secs(5) {
            // Each byte is progress, but the head as a whole takes too long.
            closed = stream.write_all(b"G").is_err() || matches!(stream.read(&mut [0; 64]), Ok(0));
        }
        assert!(closed && begun.elapsed() >= Duration::from_millis(90), "{:?}", begun.elapsed());
    });
    assert_eq!((counts.connections_timed_out, counts.requests), (1, 0));
}

#[test]
fn an_idle_connection_is_closed() {
    let limits = HttpLimits { idle_timeout: Duration::from_millis(100), ..HttpLimits::default() };
    let counts = serving(limits, 10, |address, _| {
        let mut stream = connect(address);
        post(&mut stream, "/", b"x");
        assert_eq!(read_answer(&mut stream).0, 200);
        assert!(is_closed(&mut stream));
    });
    assert_eq!((counts.connections_timed_out, counts.requests), (1, 1));
}

#[test]
fn a_connection_above_the_limit_is_closed_and_counted() {
    let counts = serving(HttpLimits::default(), 2, |address, _| {
        let mut kept = [connect(address), connect(address)];
        for stream in &mut kept {
            post(stream, "/", b"x");
            assert_eq!(read_answer(stream).0, 200);
        }
        assert!(is_closed(&mut connect(address)));
        let [one, mut other] = kept;
        drop(one);
        post(&mut other, "/slow", b"x");
        assert_eq!(read_answer(&mut other).0, 200);
        let mut late = connect(address);
        post(&mut late, "/", b"late");
        assert_eq!(read_answer(&mut late).0, 200, "a place is free again");
    });
    assert_eq!((counts.connections_refused, counts.connections_accepted), (1, 3));
}

#[test]
fn ending_finishes_the_request_under_way_and_closes_what_is_idle() {
    let counts = serving(HttpLimits::default(), 10, |address, shutdown| {
        let (mut busy, mut idle, mut silent) = (connect(address), connect(address), connect(address));
        post(&mut idle, "/", b"x");
        assert_eq!(read_answer(&mut idle).0, 200);
        post(&mut busy, "/slow", b"kept");
        std::thread::sleep(Duration::from_millis(50));
        shutdown.request();
        assert_eq!(read_answer(&mut busy), (200, b"kept".to_vec()));
        assert!(is_closed(&mut busy) && is_closed(&mut idle) && is_closed(&mut silent));
    });
    assert_eq!((counts.requests, counts.connections_open, counts.connection_errors), (2, 0, 0));
}

/// How often a timer of 1 ms comes due in so much of the executor's own CPU time: a machine that is busy otherwise makes
/// no difference.
async fn ticks_in(cpu_time: Duration) -> u32 {
    let mut ticks = 0;
    let begun = runtime::thread_cpu_time();
    while runtime::thread_cpu_time() - begun < cpu_time {
        runtime::sleep(Duration::from_millis(1)).await;
        ticks += 1;
    }
    ticks
}

#[test]
fn a_client_that_never_stops_sending_keeps_timers_waiting_no_longer_than_a_turn() {
    let bound = Arc::new(BoundAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap());
    let address = bound.address();
    // More requests than are ever answered, in one stream; the answers are read and dropped.
    let flood = std::thread::spawn(move || {
        let mut stream = connect(address);
        let mut answers = stream.try_clone().unwrap();
        let reader = std::thread::spawn(move || while matches!(answers.read(&mut [0; 65_536]), Ok(1..)) {});
        let requests = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".repeat(1000);
        while stream.write_all(&requests).is_ok() {}
        reader.join().unwrap();
    });
    let ticks = on_executors(&options(1), move |executor: Executor<()>| {
        let listener = bound.listen(1).unwrap();
        async move {
            let server = HttpServer::new(&HttpLimits::default(), executor.shutdown);
            let accepted = runtime::timeout(Duration::from_secs(20), listener.accept()).await;
            let (stream, _permit) = accepted.expect("the client comes").unwrap();
            let serving = server.serve_connection(stream, service_fn(answer));
            let (ticked, ticks) = futures::channel::oneshot::channel();
            runtime::spawn(async move { ticked.send(ticks_in(Duration::from_millis(300)).await).unwrap() });
            match futures::future::select(pin!(serving), ticks).await {
                Either::Left(((), _)) => panic!("the client never hangs up"),
                Either::Right((ticks, _)) => ticks.unwrap(),
            }
        }
    });
    flood.join().unwrap();
    assert!(ticks[0] > 30, "{} ticks of 1 ms in 300 ms of work", ticks[0]);
}

/// Asks for answers without end, and takes them as fast as they come.
fn take_long_answers(address: SocketAddr) {
    let mut stream = connect(address);
    let mut buffer = vec![0; 1 << 20];
    while stream.write_all(b"GET /long HTTP/1.1\r\nhost: x\r\n\r\n").is_ok() {
        let mut left = LONG_ANSWER_BYTES;
        while left > 0 {
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => left = left.saturating_sub(count),
                Ok(0) | Err(_) => return,
            }
        }
    }
}

const LONG_ANSWER_BYTES: usize = 8 << 20;

#[test]
fn long_answers_keep_timers_waiting_no_longer_than_a_turn() {
    const TAKERS: usize = 10;

    let bound = Arc::new(BoundAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap());
    let address = bound.address();
    let takers = std::iter::repeat_with(|| std::thread::spawn(move || take_long_answers(address)));
    let takers: Vec<_> = takers.take(TAKERS).collect();
    let ticks = on_executors(&options(1), move |executor: Executor<()>| {
        let listener = bound.listen(TAKERS).unwrap();
        async move {
            let answer = Bytes::from(vec![b'x'; LONG_ANSWER_BYTES]);
            let service = service_fn(move |_| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(Response::new(Full::new(answer))) }
            });
            let server = HttpServer::new(&HttpLimits::default(), executor.shutdown.clone());
            let ticking = async {
                let ticks = ticks_in(Duration::from_millis(300)).await;
                executor.shutdown.request();
                ticks
            };
            let plain = Encryption::default();
            let (served, ticks) =
                futures::join!(server.serve(&listener, &plain, move |_| service.clone()), ticking);
            served.unwrap();
            drain().await;
            ticks
        }
    });
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    println!("{} ticks", ticks[0]);
    assert!(ticks[0] > 100, "{} ticks of 1 ms in 300 ms of work", ticks[0]);
}

/// hyper's executor for the client's side.
#[derive(Clone)]
struct Spawn;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Spawn {
    fn execute(&self, future: F) {
        runtime::spawn(future);
    }
}

/// Many HTTP/2 requests at once on one connection to a server on the same executor.
async fn post_over_http2(executor: Executor<()>) -> (Vec<(u16, Bytes)>, Counts) {
    let limits = HttpLimits { header_timeout: Duration::from_millis(100), ..HttpLimits::default() };
    let (near, far) = UnixStream::pair().unwrap();
    let stream = |socket: UnixStream| Stream::new(OwnedFd::from(socket).into()).unwrap();
    let server = HttpServer::new(&limits, executor.shutdown.clone());
    runtime::spawn(async move { server.serve_connection(stream(far), service_fn(answer)).await });
    let (mut client, connection) = hyper::client::conn::http2::handshake(Spawn, stream(near)).await.unwrap();
    runtime::spawn(async move { connection.await.unwrap() });
    // Longer than a head may take: a channel that is open and silent stays.
    runtime::sleep(Duration::from_millis(300)).await;
    let requests = ["/", "/panic", "/slow"].map(|path| {
        let body = Full::new(Bytes::from_static(b"body"));
        client.send_request(Request::post(format!("http://localhost{path}")).body(body).unwrap())
    });
    let mut answers = Vec::new();
    for request in requests {
        let response = request.await.unwrap();
        let status = response.status().as_u16();
        answers.push((status, response.into_body().collect().await.unwrap().to_bytes()));
    }
    (answers, runtime::counts())
}

#[test]
fn http2_requests_share_a_connection_and_one_that_panics_ends_alone() {
    let (answers, counts) = on_executors(&options(1), post_over_http2).remove(0);
    let body = Bytes::from_static(b"body");
    assert_eq!(answers, [(200, body.clone()), (500, Bytes::new()), (200, body)]);
    assert_eq!((counts.requests, counts.request_panics, counts.requests_in_flight), (3, 1, 0));
}

/// An answer that goes on forever.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::from_static(&[b'x'; 1000])))))
    }
}

/// One HTTP/2 client that takes nothing of one answer and all of another, beside pings.
async fn take_one_of_two(executor: Executor<()>) -> (bool, usize, Counts) {
    let limits = HttpLimits {
        stall_timeout: Duration::from_millis(300),
        ping_interval: Duration::from_millis(50),
        ..HttpLimits::default()
    };
    let (near, far) = UnixStream::pair().unwrap();
    let stream = |socket: UnixStream| Stream::new(OwnedFd::from(socket).into()).unwrap();
    let server = HttpServer::new(&limits, executor.shutdown.clone());
    let endless = service_fn(async |_: Request<WatchedBody>| Ok::<_, Infallible>(Response::new(Endless)));
    runtime::spawn(async move { server.serve_connection(stream(far), endless).await });
    let handshake = hyper::client::conn::http2::Builder::new(Spawn)
        .initial_stream_window_size(10_000)
        .handshake(stream(near));
    let (mut client, connection) = handshake.await.unwrap();
    runtime::spawn(async move { connection.await.unwrap() });
    let mut ask = || client.send_request(Request::new(Full::<Bytes>::default()));
    let (left, mut taken) = (ask().await.unwrap(), ask().await.unwrap());
    let (began, mut bytes) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(1) {
        let frame = taken.body_mut().frame().await.expect("it goes on").expect("it is not reset");
        bytes += frame.into_data().unwrap().len();
        runtime::sleep(Duration::from_millis(1)).await;
    }
    let counts = runtime::counts();
    // What came before it was reset is still there, and that is no more than its window.
    let mut left = left.into_body();
    let mut is_reset = false;
    for _ in 0..100 {
        is_reset |= matches!(left.frame().await, Some(Err(_)));
    }
    (is_reset, bytes, counts)
}

#[test]
fn an_http2_answer_that_nobody_takes_is_reset_and_no_other_one() {
    let (is_reset, taken_bytes, counts) = on_executors(&options(1), take_one_of_two).remove(0);
    assert!(is_reset, "the one that nobody took");
    assert!(taken_bytes > 50_000, "{taken_bytes} bytes of the other one");
    assert_eq!(
        (counts.streams_timed_out, counts.requests_in_flight, counts.connections_timed_out),
        (1, 1, 0)
    );
}

/// A client of HTTP/2 that sends one request and then answers pings alone: how its connection ends.
async fn idle_over_http2(executor: Executor<()>) -> (Result<hyper::Result<()>, Duration>, Counts) {
    let limits = HttpLimits {
        idle_timeout: Duration::from_millis(200),
        ping_interval: Duration::from_millis(20),
        ..HttpLimits::default()
    };
    let (near, far) = UnixStream::pair().unwrap();
    let stream = |socket: UnixStream| Stream::new(OwnedFd::from(socket).into()).unwrap();
    let server = HttpServer::new(&limits, executor.shutdown.clone());
    runtime::spawn(async move { server.serve_connection(stream(far), service_fn(answer)).await });
    let (mut client, connection) = hyper::client::conn::http2::handshake(Spawn, stream(near)).await.unwrap();
    let (ended, end) = futures::channel::oneshot::channel();
    runtime::spawn(async move { drop(ended.send(connection.await)) });
    let body = Full::new(Bytes::from_static(b"body"));
    let request = client.send_request(Request::post("http://localhost/").body(body).unwrap());
    assert_eq!(request.await.unwrap().status(), 200);
    let limit = Duration::from_secs(5);
    let ended = runtime::timeout(limit, end).await.map(|end| end.unwrap()).map_err(|_| limit);
    (ended, runtime::counts())
}

#[test]
fn an_idle_http2_connection_is_closed_though_pings_are_answered() {
    let (ended, counts) = on_executors(&options(1), idle_over_http2).remove(0);
    assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    assert_eq!((counts.connections_timed_out, counts.requests), (1, 1));
}

/// Answers a slow request over a connection that has the place of one that was closed, while the other end of that one
/// goes: the first bytes of the answer.
async fn answer_in_a_closed_one_s_place(executor: Executor<()>) -> String {
    let stream = |socket: UnixStream| Stream::new(OwnedFd::from(socket).into()).unwrap();
    let (closed, its_client) = UnixStream::pair().unwrap();
    // A process that is just being started has every file of its parent's open: it stays in the epoll set.
    let elsewhere = closed.try_clone().unwrap();
    drop(stream(closed));
    let (served, client) = UnixStream::pair().unwrap();
    let (served, mut answers) = (stream(served), client.try_clone().unwrap());
    let server = HttpServer::new(&HttpLimits::default(), executor.shutdown.clone());
    runtime::spawn(async move { server.serve_connection(served, service_fn(answer)).await });
    stream(client).write_all(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    runtime::sleep(Duration::from_millis(50)).await;
    drop(its_client);
    runtime::sleep(Duration::from_millis(400)).await;
    drop(elsewhere);
    let mut first = [0; 12];
    let length = answers.read(&mut first).unwrap();
    String::from_utf8_lossy(&first[..length]).into_owned()
}

#[test]
fn what_comes_of_a_closed_socket_that_is_open_elsewhere_ends_no_other_connection() {
    assert_eq!(on_executors(&options(1), answer_in_a_closed_one_s_place), ["HTTP/1.1 200"]);
}
