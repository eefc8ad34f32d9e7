//! Handshakes by hundreds a second that never end, or whose clients leave at once, beside clients that answer: these get
//! in, whatever memory the node has.

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use silverback::config::MemoryLimit;
use silverback_test_support::http::{request, try_read_answer};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::certificates::Authority;
use crate::scene::{Scene, bearer};

const WEB: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

/// Handshakes of the flood.
const A_SECOND: u32 = 300;
/// Connections that it holds open.
const HELD_MAX: usize = 600;
/// Clients that answer, one after the other.
const NEWCOMERS: u32 = 40;
const BETWEEN_NEWCOMERS: Duration = Duration::from_millis(100);
/// What each has from its connection to its answer.
const BOUND: Duration = Duration::from_secs(5);

const FLOODING: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const HONEST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);

/// What the flood's clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flooding {
    /// They say hello, and no more.
    Hello,
    /// They begin a hello, and no more.
    HalfAHello,
    /// They make their handshake and leave.
    CompleteAndLeave,
}

/// A connection from that address.
pub(crate) fn connect_from(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SockAddr::from(SocketAddr::from((source, 0))))?;
    socket.connect_timeout(&SockAddr::from(to), BOUND)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(BOUND))?;
    stream.set_write_timeout(Some(BOUND))?;
    Ok(stream)
}

fn encrypted(stream: TcpStream, config: &Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream)
}

/// One connection of the flood, where it is to be held.
fn flood_once(what: Flooding, to: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Option<TcpStream>> {
    let mut client = encrypted(connect_from(FLOODING, to)?, config);
    match what {
        Flooding::Hello => client.conn.write_tls(&mut client.sock).map(|_| Some(client.sock)),
        Flooding::HalfAHello => {
            client.sock.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").map(|()| Some(client.sock))
        }
        Flooding::CompleteAndLeave => {
            while client.conn.is_handshaking() {
                client.conn.complete_io(&mut client.sock)?;
            }
            Ok(None)
        }
    }
}

/// A flood that goes on until this is dropped.
struct Flood {
    ends: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn start(what: Flooding, to: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        /// One waits for its handshakes where they are made to the end.
        const THREADS: u32 = 6;
        let (ends, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let one = |_| {
            let (ends, sent, config) = (Arc::clone(&ends), Arc::clone(&sent), Arc::clone(config));
            spawn(move || {
                let mut held = VecDeque::new();
                let mut next = Instant::now();
                while !ends.load(Ordering::Relaxed) {
                    // A client that is refused tries again in its time.
                    if let Ok(Some(stream)) = flood_once(what, to, &config) {
                        held.push_back(stream);
                    }
                    held.drain(..held.len().saturating_sub(HELD_MAX / THREADS as usize));
                    sent.fetch_add(1, Ordering::Relaxed);
                    next += Duration::from_secs(1) * THREADS / A_SECOND;
                    sleep(next.saturating_duration_since(Instant::now()));
                }
            })
        };
        let threads = (0..THREADS).map(one).collect();
        Self { ends, sent, threads }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

/// How long a newcomer takes for its answer.
fn come(source: Ipv4Addr, to: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Duration> {
    let began = Instant::now();
    let mut stream = BufReader::new(encrypted(connect_from(source, to)?, config));
    stream.get_mut().write_all(&request(
        "GET",
        "/-/healthy",
        &[("authorization", &bearer("metrics"))],
        b"",
    ))?;
    let answer = try_read_answer(&mut stream)?;
    assert_eq!(answer.status, 200);
    Ok(began.elapsed())
}

/// A node of little memory is flooded, and clients come from `source` meanwhile: all get in within the bound.
fn check(what: Flooding, source: Ipv4Addr) {
    let authority = Authority::new();
    let scene = Scene::start_with(WEB, |dir, config| {
        authority.write_server(dir);
        config.memory_limit = MemoryLimit::Fixed(512 << 20);
    });
    let mut config = authority.client(None);
    config.resumption = Resumption::disabled();
    let (config, to) = (Arc::new(config), scene.node.address);
    let flood = Flood::start(what, to, &config);
    sleep(Duration::from_secs(2));
    let newcomer = |_| {
        sleep(BETWEEN_NEWCOMERS);
        let config = Arc::clone(&config);
        spawn(move || come(source, to, &config))
    };
    let newcomers: Vec<_> = (0..NEWCOMERS).map(newcomer).collect();
    let ended: Vec<_> = newcomers.into_iter().map(|newcomer| newcomer.join().unwrap()).collect();
    let sent = flood.sent.load(Ordering::Relaxed);
    drop(flood);
    let refused: Vec<_> = ended.iter().filter_map(|ended| ended.as_ref().err()).collect();
    let longest = ended.iter().filter_map(|ended| ended.as_ref().ok()).max();
    let figures = format!(
        "{what:?} from {FLOODING}, {sent} of it; from {source} {} of {NEWCOMERS} get in, the slowest in {longest:?}",
        ended.len() - refused.len()
    );
    println!("{figures}");
    assert!(refused.is_empty(), "{figures}: {refused:?}");
    assert!(longest.is_some_and(|longest| *longest < BOUND), "{figures}");
}

#[test]
fn clients_that_answer_get_in_beside_a_flood_of_hellos_from_another_address() {
    check(Flooding::Hello, HONEST);
}

#[test]
fn clients_that_answer_get_in_beside_a_flood_of_hellos_from_their_own_address() {
    check(Flooding::Hello, FLOODING);
}

#[test]
fn clients_that_answer_get_in_beside_a_flood_of_halves_of_hellos() {
    check(Flooding::HalfAHello, HONEST);
    check(Flooding::HalfAHello, FLOODING);
}

#[test]
fn clients_that_answer_get_in_beside_a_flood_of_handshakes_whose_clients_leave() {
    check(Flooding::CompleteAndLeave, HONEST);
    check(Flooding::CompleteAndLeave, FLOODING);
}
