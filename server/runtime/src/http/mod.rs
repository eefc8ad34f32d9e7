//! HTTP/1.1 and HTTP/2 on one port, by hyper, on an executor; without TLS HTTP/2 is known beforehand.
//!
//! It knows connections, their time limits and their end; what a request means is the service's.
//! A service, its futures and its bodies need not be `Send`. A request that panics is answered 500,
//! and neither its connection's other requests nor any other connection notice.
mod burst;
mod crowd;
mod expiry;
mod farewell;
mod frames;
mod heads;
mod keepalive;
mod leases;
mod looks;
mod messages;
mod pace;
mod socket;
mod spawner;
mod stream_watch;
mod targets;
mod tracked;
mod unread_end;
mod watch;
mod watched_body;
mod watched_io;
mod window;

use std::{
    cell::RefCell,
    error::Error,
    future::{Future, poll_fn},
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    rc::Rc,
    task::{Poll, ready},
    time::Duration,
};

use http::{Request, Response};
use http_body::Body;
use hyper::{
    server::conn::{http1, http2},
    service::Service,
};

pub use self::watched_body::WatchedBody;
use self::{
    burst::Burst,
    crowd::Crowd,
    expiry::Expiry,
    keepalive::LocalTimer,
    socket::Socket,
    spawner::LocalSpawner,
    tracked::TrackedService,
    watch::{HttpProtocol, Watch, Watches},
    watched_io::WatchedIo,
};
use super::{
    counters,
    io::Stream,
    listen::Listener,
    peers::Peer,
    shutdown::Shutdown,
    tasks::spawn,
    tls::{Handshakes, TlsConfig, TlsParts, TlsStream},
};

/// The bounds of a connection.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// From the first byte of a request's head (or from accepting the connection) to its last.
    pub header_timeout: Duration,
    /// Between requests.
    pub idle_timeout: Duration,
    /// With a request in flight and no byte moving in either direction; and with a frame of an HTTP/2
    /// stream's answer that its client has no room for, whatever else moves.
    pub stall_timeout: Duration,
    /// How often an HTTP/2 client is asked whether it is there. It has the stall timeout to answer.
    pub ping_interval: Duration,
    /// A request's head, in bytes.
    pub header_bytes_max: usize,
    /// Fields of an HTTP/2 request's head. HTTP/1 has hyper's bound, a hundred.
    pub head_fields_max: usize,
    /// An HTTP/2 request's head, in bytes as HTTP/2 counts them.
    pub stream_head_bytes_max: u32,
    /// What a connection's HTTP/2 requests in flight take with their heads before they count, in bytes, ...
    pub own_heads_bytes: usize,
    /// ... and what those of all connections of an executor may take beyond that.
    pub heads_bytes_max: usize,
    /// What is buffered of one connection while it is read, in bytes.
    pub read_buffer_bytes_max: usize,
    /// What an HTTP/1 request's first line may grow by in a read where its raw quotes are percent-encoded, in bytes. As
    /// much of what came with it is kept until the connection is read on.
    pub line_growth_bytes_max: usize,
    /// What a chunk of an HTTP/1 request may claim to be, in bytes.
    pub chunk_bytes_max: u64,
    /// Requests in flight on one HTTP/2 connection.
    pub concurrent_streams_max: u32,
    /// The largest HTTP/2 frame. A batch of usual size comes in one, and is not put together of many.
    pub frame_bytes_max: u32,
    /// What an HTTP/2 stream may send ahead, in bytes.
    pub stream_window_bytes: u32,
    /// What an HTTP/2 connection may send ahead, in bytes.
    pub connection_window_bytes: u32,
    /// Connections of an executor that are read at the same time while requests of theirs are in flight.
    pub reading_max: usize,
    /// TLS handshakes in flight on an executor.
    pub handshakes_max: usize,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            stall_timeout: Duration::from_secs(60),
            ping_interval: Duration::from_secs(20),
            header_bytes_max: 32 << 10,
            head_fields_max: 100,
            stream_head_bytes_max: 16 << 10,
            own_heads_bytes: 12 << 10,
            heads_bytes_max: 64 << 20,
            read_buffer_bytes_max: 512 << 10,
            line_growth_bytes_max: 8 << 10,
            chunk_bytes_max: 32 << 20,
            concurrent_streams_max: 128,
            frame_bytes_max: 64 << 10,
            stream_window_bytes: 1 << 20,
            connection_window_bytes: 4 << 20,
            reading_max: usize::MAX,
            handshakes_max: 256,
        }
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

/// Serves the connections of one executor; clones share it.
#[derive(Clone)]
pub struct HttpServer(Rc<Server>);

struct Server {
    http1: http1::Builder,
    http2: http2::Builder<LocalSpawner>,
    spawner: LocalSpawner,
    watches: Rc<Watches>,
    tls: Rc<TlsParts>,
    shutdown: Shutdown,
}

/// How the connections of a listener are encrypted from now on. It may change; connections that there are stay as they
/// are.
#[derive(Debug, Default)]
pub struct Encryption(RefCell<Option<TlsConfig>>);

impl Encryption {
    /// As `config` says; `None`: not at all.
    pub fn new(config: Option<TlsConfig>) -> Self {
        Self(RefCell::new(config))
    }

    /// New connections go by another one.
    pub fn replace(&self, config: Option<TlsConfig>) {
        drop(self.0.replace(config));
    }
}

/// Whether a connection may speak HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Http2 {
    Allowed,
    Refused,
}

impl HttpServer {
    /// A server on this executor. From the notice to end on, its connections finish what is under
    /// way and close.
    pub fn new(limits: &HttpLimits, shutdown: Shutdown) -> Self {
        let handshakes = Handshakes::new(limits.handshakes_max);
        let watches = Watches::start(limits, Rc::clone(&handshakes), shutdown.clone());
        let spawner = LocalSpawner::default();
        let http2 = http2(limits, spawner.clone());
        let tls = TlsParts::new(handshakes);
        Self(Rc::new(Server { http1: http1(limits), http2, spawner, watches, tls, shutdown }))
    }

    /// Accepts and serves until the notice to end; an error is one of the listening socket itself. Each
    /// connection gets a service of its own, made for its other end. At the listener's limit one gives way to a new one:
    /// one whose TLS handshake isn't through, or otherwise the one that has waited longest for a request, or for one
    /// whose body hardly comes.
    pub async fn serve<S, B>(
        &self,
        listener: &Listener,
        encryption: &Encryption,
        service: impl Fn(Option<SocketAddr>) -> S,
    ) -> io::Result<()>
    where
        S: Service<Request<WatchedBody>, Response = Response<B>, Error: Into<BoxError>> + 'static,
        B: Body<Error: Into<BoxError>> + 'static,
    {
        let mut ending = pin!(self.0.shutdown.requested());
        let crowd = Rc::<Crowd>::default();
        loop {
            let mut accepting =
                pin!(listener.accept_evicting(|newcomer| self.0.watches.evict(&crowd, newcomer)));
            let accepted = poll_fn(|cx| {
                if ending.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                accepting.as_mut().poll(cx).map(Some)
            });
            let Some(accepted) = accepted.await else { return Ok(()) };
            let (stream, permit) = accepted?;
            let (server, service, address) = (self.clone(), service(stream.peer()), address_of(&stream));
            let (socket, http2) = match self.encrypted(stream, encryption) {
                Ok(socket) => socket,
                Err(error) => {
                    account(End::Failed(error.into()));
                    continue;
                }
            };
            let watch = self.0.watches.add(&crowd, socket.hangup());
            let handshake = socket.is_handshaking().then(|| crowd.begins(&watch, Peer::of(address)));
            let io = WatchedIo::new(socket, handshake, http2, Rc::clone(&watch));
            spawn(async move {
                server.serve_socket(io, watch, service).await;
                drop(permit);
            });
        }
    }

    fn encrypted(&self, stream: Stream, encryption: &Encryption) -> io::Result<(Socket, Http2)> {
        Ok(match &*encryption.0.borrow() {
            None => (Socket::Plain(stream), Http2::Allowed),
            Some(config) => {
                let http2 = if config.allows_http2() { Http2::Allowed } else { Http2::Refused };
                let address = address_of(&stream);
                let stream = TlsStream::new(stream, address, config, Rc::clone(&self.0.tls))?;
                (Socket::Encrypted(Box::new(stream)), http2)
            }
        })
    }

    /// Serves one connection until it ends; how it ended is counted.
    pub async fn serve_connection<S, B>(&self, io: Stream, service: S)
    where
        S: Service<Request<WatchedBody>, Response = Response<B>, Error: Into<BoxError>> + 'static,
        B: Body<Error: Into<BoxError>> + 'static,
    {
        let watch = self.0.watches.add(&Rc::default(), io.hangup());
        let io = WatchedIo::new(Socket::Plain(io), None, Http2::Allowed, Rc::clone(&watch));
        self.serve_socket(io, watch, service).await;
    }

    async fn serve_socket<S, B>(&self, mut io: WatchedIo, watch: Rc<Watch>, service: S)
    where
        S: Service<Request<WatchedBody>, Response = Response<B>, Error: Into<BoxError>> + 'static,
        B: Body<Error: Into<BoxError>> + 'static,
    {
        let protocol = poll_fn(|cx| match (watch.poll_expired(cx), watch.is_to_close()) {
            (Some(expiry), _) => Poll::Ready(Err(End::Expired(expiry))),
            (None, true) => Poll::Ready(Err(End::Unused)),
            (None, false) => io.poll_protocol(cx).map_err(|error| End::Failed(error.into())),
        });
        let end = match protocol.await {
            Err(end) => end,
            Ok(protocol) => {
                watch.speaks(protocol);
                match protocol {
                    HttpProtocol::Http1 => {
                        let service = TrackedService::of_requests(service, watch.clone());
                        let connection = self.0.http1.serve_connection(io, service);
                        drive(connection, http1::Connection::graceful_shutdown, &watch).await
                    }
                    HttpProtocol::Http2 => {
                        let spawner = self.0.spawner.clone();
                        let service = TrackedService::of_streams(service, watch.clone(), spawner);
                        let connection = self.0.http2.serve_connection(io, service);
                        drive(connection, http2::Connection::graceful_shutdown, &watch).await
                    }
                }
            }
        };
        account(end);
    }
}

fn address_of(stream: &Stream) -> Option<IpAddr> {
    stream.peer().map(|address| address.ip())
}

/// Polls `connection` to its end, or to the end of its time; asks it to close after the notice to end.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    graceful_shutdown: impl Fn(Pin<&mut C>),
    watch: &Watch,
) -> End {
    let mut connection = pin!(connection);
    let mut closing = false;
    let mut burst = Burst::new();
    poll_fn(|cx| {
        if let Some(expiry) = watch.poll_expired(cx) {
            return Poll::Ready(End::Expired(expiry));
        }
        if watch.is_broken(cx) {
            return Poll::Ready(End::Failed(io::Error::from(io::ErrorKind::ConnectionReset).into()));
        }
        if !closing && watch.is_to_close() {
            closing = true;
            graceful_shutdown(connection.as_mut());
        }
        ready!(burst.poll_turn(cx));
        let polled = burst.poll(|| connection.as_mut().poll(cx), || watch.reads());
        polled.map(|result| match result {
            Ok(()) => End::Served,
            Err(error) => End::Failed(error.into()),
        })
    })
    .await
}

/// How a connection ended.
enum End {
    Served,
    /// The notice to end came before anything was read.
    Unused,
    Failed(Box<dyn Error + Send + Sync>),
    Expired(Expiry),
}

fn account(end: End) {
    match end {
        End::Served | End::Unused => {}
        End::Failed(error) => {
            counters::with(|c| c.connection_errors += 1);
            tracing::debug!(%error, "a connection ended with an error");
        }
        End::Expired(expiry) => {
            match expiry {
                Expiry::Left => counters::with(|c| c.connection_errors += 1),
                // Counted when it was asked to go.
                Expiry::Flood | Expiry::Evicted => {}
                Expiry::Header | Expiry::Idle | Expiry::Stall | Expiry::Unread | Expiry::Stays => {
                    counters::with(|c| c.connections_timed_out += 1);
                }
            }
            tracing::debug!(reason = expiry.as_str(), "a connection was closed");
        }
    }
}

fn http1(limits: &HttpLimits) -> http1::Builder {
    /// hyper refuses less.
    const READ_BUFFER_BYTES_MIN: usize = 8192;

    let mut builder = http1::Builder::new();
    builder
        // Time limits are the watch's: no timer is armed and dropped with each request.
        .header_read_timeout(None)
        .max_header_size(limits.header_bytes_max)
        .max_buf_size(limits.read_buffer_bytes_max.max(READ_BUFFER_BYTES_MIN))
        // A client that sends no more is the connection's to judge: it tells hyper when nobody waits any more.
        .half_close(false);
    builder
}

fn http2(limits: &HttpLimits, spawner: LocalSpawner) -> http2::Builder<LocalSpawner> {
    let mut builder = http2::Builder::new(spawner);
    builder
        .timer(LocalTimer)
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.stall_timeout)
        .max_concurrent_streams(limits.concurrent_streams_max)
        .max_header_list_size(limits.stream_head_bytes_max)
        .max_frame_size(limits.frame_bytes_max)
        .initial_stream_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes);
    builder
}
