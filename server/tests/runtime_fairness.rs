//! Connections of one core beside each other: none is served twice while another one waits, and who floods
//! it with frames or pieces of a body keeps nobody waiting.

use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    io::{ErrorKind, Read, Write},
    net::{Shutdown as Direction, SocketAddr, TcpStream},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use silverback_host::Counts;
use silverback_node_test_support::executors;
use silverback_runtime as runtime;
use silverback_runtime::{Encryption, Executor, HttpLimits, HttpServer, Listener, WatchedBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody";

/// Answers with the body's length.
async fn answer(request: Request<WatchedBody>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut bytes = 0;
    let mut body = request.into_body();
    while let Some(Ok(frame)) = body.frame().await {
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    Ok(Response::new(Full::new(format!("{bytes:08}").into())))
}

/// Serves [`answer`] on one executor while `client` runs; gives what the executor has counted then.
fn serving<R>(client: impl FnOnce(SocketAddr) -> R) -> (R, Counts) {
    let serve = async |executor: Executor<()>, listener: Listener| {
        let server = HttpServer::new(&HttpLimits::default(), executor.shutdown.clone());
        server.serve(&listener, &Encryption::default(), |_| service_fn(answer)).await.unwrap();
        runtime::counts()
    };
    let (result, mut counts) = executors::serving(1, 10_000, serve, |address, _| client(address));
    (result, counts.remove(0))
}

/// How many others are answered between a request and its answer, of each connection's requests.
#[derive(Default)]
struct Overtaken {
    most: u64,
    total: u64,
    requests: u64,
}

/// So many connections that each send a request as soon as the one before is answered.
fn closed_loop(address: SocketAddr, connections: usize, time: Duration) -> Vec<Overtaken> {
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&client, async move {
        let answered = Rc::<Cell<u64>>::default();
        let all = Rc::<RefCell<Vec<Overtaken>>>::default();
        let mut tasks = Vec::new();
        for _ in 0..connections {
            let (answered, all) = (Rc::clone(&answered), Rc::clone(&all));
            tasks.push(tokio::task::spawn_local(async move {
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut overtaken = Overtaken::default();
                let mut buffer = [0; 1024];
                let until = Instant::now() + time;
                while Instant::now() < until {
                    let before = answered.get();
                    stream.write_all(REQUEST).await.unwrap();
                    let mut bytes = 0;
                    while !buffer[..bytes].ends_with(b"\r\n\r\n00000004") {
                        bytes += stream.read(&mut buffer[bytes..]).await.unwrap();
                    }
                    let others = answered.get() - before;
                    answered.set(answered.get() + 1);
                    // The first one waits for the others to be accepted.
                    if overtaken.requests > 0 {
                        overtaken.most = overtaken.most.max(others);
                        overtaken.total += others;
                    }
                    overtaken.requests += 1;
                }
                all.borrow_mut().push(overtaken);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        all.take()
    })
}

/// Counted in answers, so that a machine that is busy otherwise makes no difference.
#[test]
fn of_many_connections_in_a_closed_loop_none_waits_much_longer_than_the_others() {
    const CONNECTIONS: usize = 300;

    let (overtaken, _) = serving(|address| closed_loop(address, CONNECTIONS, Duration::from_secs(3)));
    assert_eq!(overtaken.len(), CONNECTIONS);
    let mut means: Vec<u64> = overtaken.iter().map(|one| one.total / one.requests.max(2)).collect();
    means.sort_unstable();
    let median = means[CONNECTIONS / 2];
    let most = overtaken.iter().map(|one| one.most).max().unwrap();
    let fewest = overtaken.iter().map(|one| one.requests).min().unwrap();
    println!("means {} {median} {}, most {most}, fewest requests {fewest}", means[0], means[CONNECTIONS - 1]);
    assert!(most <= 4 * median.max(CONNECTIONS as u64 / 2), "{most} others are answered while one waits");
}

/// Sends `bytes` again and again on one connection after the other, and takes whatever comes, until it is
/// told to stop.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(address: SocketAddr, begin: &[u8], bytes: &[u8]) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let (begin, bytes) = (begin.to_vec(), bytes.to_vec());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                flood_once(address, &begin, &bytes, &stopped);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))));
    }
}

fn flood_once(address: SocketAddr, begin: &[u8], bytes: &[u8], stopped: &AtomicBool) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut taking = stream.try_clone().unwrap();
    let taker = std::thread::spawn(move || {
        let mut buffer = [0; 64 << 10];
        while matches!(taking.read(&mut buffer), Ok(1..)) {}
    });
    let mut left = begin;
    while !stopped.load(Ordering::Relaxed) {
        match stream.write(left) {
            Ok(count) => left = &left[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        if left.is_empty() {
            left = bytes;
        }
    }
    let _ = stream.shutdown(Direction::Both);
    taker.join().unwrap();
}

/// The longest of a hundred requests, one each 10 ms.
fn slowest_of_paced(address: SocketAddr) -> Duration {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut slowest = Duration::ZERO;
    for _ in 0..100 {
        let began = Instant::now();
        stream.write_all(REQUEST).unwrap();
        let (mut buffer, mut bytes) = ([0; 1024], 0);
        while !buffer[..bytes].ends_with(b"\r\n\r\n00000004") {
            bytes += stream.read(&mut buffer[bytes..]).unwrap();
        }
        slowest = slowest.max(began.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    slowest
}

/// How often it is measured.
const TRIES: usize = 3;

/// Four such floods beside paced requests.
fn check_flood(begin: &[u8], bytes: &[u8]) -> Counts {
    let ((alone, beside), counts) = serving(|address| {
        let alone = slowest_of_paced(address);
        let _floods: Vec<_> = (0..4).map(|_| Flood::start(address, begin, bytes)).collect();
        // Until they are at it.
        std::thread::sleep(Duration::from_millis(300));
        // What holds the executor does so each time; what others of a busy machine take for a moment doesn't.
        let tries = std::iter::repeat_with(|| slowest_of_paced(address)).take(TRIES);
        (alone, tries.min().unwrap())
    });
    println!("slowest alone {alone:?}, beside floods {beside:?}");
    // The floods' own threads take what there is of the machine, too.
    assert!(beside < 3 * alone + Duration::from_millis(300), "{beside:?} beside floods, {alone:?} alone");
    counts
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0payload!";
const PRIORITY: &[u8] = b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\0\x10";

#[test]
fn connections_that_send_nothing_but_pings_keep_no_other_waiting_and_are_asked_to_go() {
    let counts = check_flood(PREFACE, &PING.repeat(10_000));
    assert!(counts.connections_flooding > 0, "{counts:?}");
}

#[test]
fn connections_that_send_nothing_but_priorities_keep_no_other_waiting_and_are_asked_to_go() {
    let counts = check_flood(PREFACE, &PRIORITY.repeat(10_000));
    assert!(counts.connections_flooding > 0, "{counts:?}");
}

#[test]
fn bodies_in_pieces_of_a_byte_keep_no_other_waiting() {
    let head = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let counts = check_flood(head, &b"1\r\nx\r\n".repeat(20_000));
    assert_eq!(counts.connections_flooding, 0);
}
