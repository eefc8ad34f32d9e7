//! Everything glommio: pinned executors, tasks, timers, slices, lanes, sockets, HTTP.
//!
//! Nothing else names glommio; it knows nothing of samples, shards or what a message means. In reading order:
//!
//! - [`cpus`] and [`preflight`]: what the machine and the container allow, asked before anything starts;
//! - [`executors`]: one pinned thread for each CPU, started together or not at all, and by `numa`
//!   with memory of its node;
//!   [`tasks`], [`timers`], [`slices`]: what runs on one of them;
//! - [`lanes`]: bounded channels from each executor to each other;
//! - [`listen`], [`io`], [`tls`], [`http`]: sockets and hyper on top of them;
//! - [`disk`]: a data directory's files through the same ring;
//! - [`shutdown`], [`signals`]: how a node is asked to end;
//! - [`counters`], [`cpu_time`]: what an executor counts about itself, and the kernel about it.
//!
//! Two properties of glommio shape all of it. Its preemption can park an executor with runnable
//! tasks, forever; so nothing is preempted here, work that is long yields by itself ([`slices`]),
//! and a `pinger` from outside is the net beneath. And its rings cost several system calls a
//! round; so sockets are watched by an epoll set of which the ring sees one descriptor (`readiness`).
// What blocks an executor's thread (clippy.toml).
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
#[expect(
    clippy::disallowed_types,
    reason = "held for a few instructions, when connections come and are handed over"
)]
mod acceptors;
#[expect(clippy::disallowed_types, reason = "held for a few instructions, by an executor and the pinger")]
mod beat;
mod blocking;
pub mod counters;
pub mod cpu_time;
pub mod cpus;
pub mod disk;
#[expect(unsafe_code, reason = "it calls the system")]
mod epoll;
#[expect(
    clippy::disallowed_methods,
    reason = "it starts executors and waits for their end, on its caller's thread; theirs wait until all can start"
)]
pub mod executors;
pub mod http;
#[expect(unsafe_code, reason = "hyper lends buffers that nobody has filled")]
pub mod io;
pub mod lanes;
pub mod listen;
#[expect(unsafe_code, reason = "it calls the system")]
mod numa;
mod peers;
#[expect(clippy::disallowed_methods, reason = "a thread of its own")]
mod pinger;
#[expect(unsafe_code, reason = "it calls the system")]
#[expect(clippy::disallowed_methods, reason = "it looks before executors start")]
pub mod preflight;
#[expect(unsafe_code, reason = "it calls the system")]
mod readiness;
pub mod shutdown;
pub(crate) mod side_thread;
#[expect(clippy::disallowed_methods, reason = "a thread of its own")]
pub mod signals;
pub mod slices;
#[expect(clippy::disallowed_types, reason = "those who use it say why")]
pub mod sync;
pub mod tasks;
pub mod timers;
pub mod tls;
mod turns;

// Beside the files that they test, not in them: the models in `tests/loom` include those.
#[cfg(test)]
mod acceptors_tests;
#[cfg(test)]
mod beat_tests;
#[cfg(test)]
mod shutdown_tests;
#[cfg(test)]
mod wake_count;

pub use counters::counts;
pub use cpu_time::thread_cpu_time;
pub use executors::{Executor, Options, Pinning, Preemption, RunError, run};
pub use http::{Encryption, HttpLimits, HttpServer, WatchedBody};
pub use io::Stream;
pub use lanes::{Delivery, LaneReceivers, LaneSenders, OfferRejected};
pub use listen::{BoundAddress, Listener, connections_ended};
pub use peers::{Peer, shown_address};
pub use shutdown::Shutdown;
pub use side_thread::{SideThread, SideThreadError};
pub use slices::{Slice, Slicer};
pub use tasks::{catch_panic, spawn, spawn_background, spawn_essential};
pub use timers::{Elapsed, now, reactor_polled, sleep, timeout};

// Where the models in `tests/loom` have it.
use silverback_host::arrivals;
