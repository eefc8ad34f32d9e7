//! What the two executors do: lanes, a socket, and background slices, all as fast as they can.
use std::{
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use silverback_runtime::{
    BoundAddress, Delivery, Executor, LaneSenders, Options, RunError, Shutdown, Slicer, Stream, run, sleep,
    spawn, spawn_background,
};

/// What each piece of background work takes.
const WORK: Duration = Duration::from_micros(20);
/// Pieces of work in a burst.
const PIECES: usize = 50;
/// Balls between two bursts. No timer paces anything here: nothing but its own messages and sockets
/// (or the pinger) ever wakes an executor.
const BALLS_A_BURST: u64 = 64;
const ECHO_BYTES: usize = 256;

/// Counts that the watcher reads; each is one executor's.
#[derive(Default)]
pub(super) struct Progress {
    round_trips: AtomicU64,
    echoes: AtomicU64,
    slices: [AtomicU64; 2],
}

impl Progress {
    pub(super) const NAMES: [&'static str; 4] = ["round trips", "echoes", "slices/0", "slices/1"];

    pub(super) fn counts(&self) -> [&AtomicU64; 4] {
        [&self.round_trips, &self.echoes, &self.slices[0], &self.slices[1]]
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Runs the load until the notice to end.
pub(super) fn run_load(
    options: &Options,
    shutdown: &Shutdown,
    progress: Arc<Progress>,
) -> Result<(), RunError> {
    let bound = Arc::new(
        BoundAddress::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a loopback port can be taken"),
    );
    run(options, shutdown, move |executor| play(executor, progress.clone(), bound.clone())).map(|_| ())
}

async fn play(executor: Executor<u64>, progress: Arc<Progress>, bound: Arc<BoundAddress>) {
    let Executor { index, senders, receivers, shutdown, slicer } = executor;
    let senders = Rc::new(senders);
    receivers.deliver_to(bat(index, senders.clone(), slicer, progress.clone()));
    match index {
        0 => {
            spawn(echo_client(bound.address(), progress));
            // One ball: while it is on an executor, no message of the other wakes that one.
            senders.offer(1, 0).expect("an empty lane takes a message");
        }
        _ => spawn(echo_server(bound)),
    }
    shutdown.requested().await;
}

/// Sends back each ball that comes, and begins a burst of background work now and then.
fn bat(
    index: usize,
    senders: Rc<LaneSenders<u64>>,
    slicer: Slicer,
    progress: Arc<Progress>,
) -> impl FnMut(Delivery<'_, u64>) {
    move |delivery| match delivery {
        Delivery::Messages { from, messages } => {
            for hops in messages {
                if index == 0 {
                    add_one(&progress.round_trips);
                }
                if hops / 2 % BALLS_A_BURST == 0 {
                    spawn_background(work(slicer.clone(), index, progress.clone()));
                }
                // Refused only when the other executor has ended.
                let _ = senders.offer(from, hops + 1);
            }
        }
        Delivery::Closed { .. } => {}
    }
}

/// A burst of background work in slices.
async fn work(slicer: Slicer, index: usize, progress: Arc<Progress>) {
    let mut slice = slicer.begin().await;
    for _ in 0..PIECES {
        let begun = Instant::now();
        while begun.elapsed() < WORK {
            std::hint::spin_loop();
        }
        add_one(&progress.slices[index]);
        slice.yield_if_needed().await;
    }
}

async fn echo_server(bound: Arc<BoundAddress>) {
    let listener = bound.listen(1).expect("the port is ours");
    let (stream, _permit) = listener.accept().await.expect("the client comes");
    let mut buffer = [0; ECHO_BYTES];
    loop {
        let count = stream.read(&mut buffer).await.expect("the client lives");
        stream.write_all(&buffer[..count]).await.expect("the client lives");
    }
}

async fn echo_client(address: SocketAddr, progress: Arc<Progress>) {
    let stream = connect(address).await;
    let mut buffer = [0; ECHO_BYTES];
    loop {
        stream.write_all(&buffer).await.expect("the server lives");
        let mut left = ECHO_BYTES;
        while left > 0 {
            left -= stream.read(&mut buffer[..left]).await.expect("the server lives");
        }
        add_one(&progress.echoes);
    }
}

async fn connect(address: SocketAddr) -> Stream {
    loop {
        // On the loopback this doesn't wait; the other executor may not listen yet.
        match std::net::TcpStream::connect(address) {
            Ok(stream) => return Stream::new(stream.into()).expect("a socket can be watched"),
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}
