//! Listening: one address, one socket of its own for each executor, connections spread evenly over
//! them, a bound on open ones.
//!
//! It knows nothing of what is spoken on a connection.
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use silverback_host::waiters::Changes;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    acceptors::{self, Acceptors, Member, Placed},
    counters,
    io::Stream,
    peers::Peer,
    readiness::{IoProgress, Watched},
    timers::{reactor_polled, sleep},
};

/// Connections that wait to be accepted, for each executor.
const BACKLOG: i32 = 1024;
/// Connections that are accepted whenever it is the listening socket's turn. They wait for their own turns
/// before anything is read.
const ACCEPTS_A_TURN: u32 = 16;
/// Refusals in a row before other tasks get their turn.
const REFUSALS_IN_A_ROW_MAX: usize = 64;
/// How long to wait where nothing can be accepted: for a descriptor, where the process has none left.
const FAILURE_WAIT: Duration = Duration::from_millis(50);

/// An address that is taken, with its real port; nobody listens on it until executors do.
#[derive(Debug)]
pub struct BoundAddress {
    // Bound but not listening: it keeps the port, and no connection is ever queued on it.
    _reservation: Socket,
    address: SocketAddr,
    acceptors: Acceptors,
}

impl BoundAddress {
    /// Takes `address`; port 0 takes a free one.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        if address.port() != 0 {
            refuse_a_shared_port(address)?;
        }
        let socket = reusable_socket(address)?;
        let address = socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("the bound address is no IP address"))?;
        Ok(Self { _reservation: socket, address, acceptors: Acceptors::default() })
    }

    /// The address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens with a socket of this executor's own. The kernel deals connections out by a hash; where
    /// that leaves one executor with more than another, it hands new ones over.
    pub fn listen(&self, connections_max: usize) -> io::Result<Listener> {
        let socket = reusable_socket(self.address)?;
        // Connections have it of their listener.
        socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)?;
        socket.listen(BACKLOG)?;
        Ok(Listener {
            watched: Watched::new(socket, ACCEPTS_A_TURN)?,
            connections_max,
            member: self.acceptors.join(),
        })
    }
}

/// `SO_REUSEPORT` would let two nodes share a port in silence, each with a part of the connections.
fn refuse_a_shared_port(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of an earlier process that are still closing don't matter; a listener does.
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(address))
}

fn reusable_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

/// So much of an answer, about, the kernel takes before the client has room for it, in bytes. By itself it takes megabytes: memory
/// that no plan has, and a client of some hundred KiB/s would seem to take nothing for seconds.
const UNSENT_BYTES_MAX: u32 = 128 << 10;

/// The connections of one executor.
pub struct Listener {
    watched: Watched,
    connections_max: usize,
    member: Member,
}

thread_local! {
    // Beside the counters: they say how many are left.
    static CONNECTION_ENDS: Rc<Changes> = Rc::default();
}

/// Waits until this executor has no connection open.
pub async fn connections_ended() {
    let ends = CONNECTION_ENDS.with(Rc::clone);
    while connections_open() > 0 {
        ends.after(ends.count()).await;
    }
}

fn connections_open() -> u64 {
    counters::with(|c| c.connections_open)
}

/// One accepted connection's place under the limit; free again when dropped.
#[derive(Debug)]
pub struct ConnectionLease {
    _of_acceptor: acceptors::AcceptorLease,
}

impl ConnectionLease {
    fn new(of_acceptor: acceptors::AcceptorLease) -> Self {
        counters::with(|c| {
            c.connections_open += 1;
            c.connections_accepted += 1;
        });
        Self { _of_acceptor: of_acceptor }
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        counters::with(|c| c.connections_open -= 1);
        CONNECTION_ENDS.with(|ends| ends.happen());
    }
}

/// What a listener waits for.
enum AcceptedConnection {
    /// The kernel has a connection for this executor's socket.
    Accepted(Socket),
    /// Another executor hands one over.
    Handed(Socket, acceptors::AcceptorLease),
}

impl Listener {
    /// Waits for the next connection that is this executor's. One above the limit is closed at once,
    /// and counted.
    pub async fn accept(&self) -> io::Result<(Stream, ConnectionLease)> {
        self.accept_evicting(|_| false).await
    }

    /// The same. At the limit `evict` ends a connection that can be spared for one from that address, and the new one
    /// takes its place; it returns whether there is one.
    pub(super) async fn accept_evicting(
        &self,
        evict: impl Fn(Peer) -> bool,
    ) -> io::Result<(Stream, ConnectionLease)> {
        let mut refusals = 0;
        loop {
            let placed = match self.arrival().await {
                Ok(AcceptedConnection::Accepted(socket)) => self.place(socket, &evict).await,
                Ok(AcceptedConnection::Handed(socket, permit)) => Placed::Here(socket, permit),
                Err(error) => match AcceptError::of(&error) {
                    AcceptError::Connection => continue,
                    AcceptError::Accepting => {
                        silverback_host::warn_limited!(%error, "no connection can be accepted for now");
                        counters::with(|c| c.accept_failures += 1);
                        sleep(FAILURE_WAIT).await;
                        continue;
                    }
                    AcceptError::Socket => return Err(error),
                },
            };
            match placed {
                Placed::Here(socket, permit) => match admit(socket, permit) {
                    Ok(admitted) => return Ok(admitted),
                    Err(error) => tracing::warn!(%error, "a connection could not be watched"),
                },
                Placed::Elsewhere => counters::with(|c| c.connections_handed_over += 1),
                Placed::Full(_closed) => {
                    counters::with(|c| c.connections_refused += 1);
                    refusals += 1;
                    if refusals % REFUSALS_IN_A_ROW_MAX == 0 {
                        reactor_polled().await;
                    }
                }
            }
        }
    }

    async fn place(&self, mut socket: Socket, evict: &impl Fn(Peer) -> bool) -> Placed {
        let ends = CONNECTION_ENDS.with(Rc::clone);
        loop {
            let seen = ends.count();
            socket = match self.member.place(socket, self.connections_max) {
                // It may be another address's that ends: then one more is evicted.
                Placed::Full(socket) if evict(peer_of(&socket)) => socket,
                placed => return placed,
            };
            ends.after(seen).await;
        }
    }

    async fn arrival(&self) -> io::Result<AcceptedConnection> {
        poll_fn(|cx| match self.member.poll_handed(cx) {
            Poll::Ready((socket, permit)) => Poll::Ready(Ok(AcceptedConnection::Handed(socket, permit))),
            Poll::Pending => self.poll_accept(cx).map_ok(AcceptedConnection::Accepted),
        })
        .await
    }

    fn poll_accept(&self, cx: &Context<'_>) -> Poll<io::Result<Socket>> {
        self.watched
            .poll_read_with(cx, |listening| listening.accept().map(|(socket, _)| (socket, IoProgress::Whole)))
    }
}

fn peer_of(socket: &Socket) -> Peer {
    Peer::of(socket.peer_addr().ok().and_then(|address| address.as_socket()).map(|address| address.ip()))
}

fn admit(socket: Socket, permit: acceptors::AcceptorLease) -> io::Result<(Stream, ConnectionLease)> {
    // A peer that has gone again can make this fail: the first read shows it.
    let _ = socket.set_tcp_nodelay(true);
    let permit = ConnectionLease::new(permit);
    Ok((Stream::new(socket)?, permit))
}

/// What is at fault where no connection came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptError {
    /// That connection alone.
    Connection,
    /// Something that may pass: descriptors, memory, the network.
    Accepting,
    /// The listening socket itself.
    Socket,
}

impl AcceptError {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNABORTED | libc::ECONNRESET | libc::EPERM | libc::EACCES) => Self::Connection,
            Some(libc::EBADF | libc::EFAULT | libc::EINVAL | libc::ENOTSOCK) => Self::Socket,
            // The system reports the network's errors here too, more kinds than can be listed.
            Some(_) | None => Self::Accepting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_given_up_only_where_it_is_none_any_more() {
        let check = |errno| AcceptError::of(&io::Error::from_raw_os_error(errno));
        for errno in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            assert_eq!(check(errno), AcceptError::Accepting);
        }
        for errno in [libc::EPROTO, libc::ENETDOWN, libc::EHOSTUNREACH, libc::EOPNOTSUPP, libc::EIO] {
            assert_eq!(check(errno), AcceptError::Accepting);
        }
        assert_eq!(check(libc::ECONNABORTED), AcceptError::Connection);
        assert_eq!(check(libc::EBADF), AcceptError::Socket);
    }
}
