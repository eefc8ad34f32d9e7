//! One pinned thread with one executor for each CPU, started together or not at all.
//!
//! It knows how glommio has to be set up to never stand still (see the module's own text); what the
//! executors then do is the caller's future.
use std::{
    fmt,
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::{
    beat::{Beat, BeatTask},
    lanes::{self, LaneReceivers, LaneSenders, Port},
    numa,
    pinger::Pinger,
    readiness,
    shutdown::Shutdown,
    slices::Slicer,
    tasks,
    timers::timeout,
};
use crate::limits::LANE_CAPACITY;

/// Whether glommio may preempt what runs on an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preemption {
    /// Never, and a pinger wakes each executor from outside: what the node runs with.
    #[default]
    Off,
    /// As glommio ships, without the pinger. An executor can then park for ever with runnable tasks;
    /// this is here only so that the soak can show it.
    GlommioDefault,
}

/// Whether an executor's thread stays on its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pinning {
    /// It does.
    #[default]
    Pinned,
    /// The kernel moves it among all CPUs that the process may use.
    Free,
}

/// How the executors are set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The CPU of each executor, by number. A CPU may stand more than once.
    pub cpus: Vec<usize>,
    /// Whether they stay there.
    pub pinning: Pinning,
    /// The NUMA node that each executor's memory is to come from, if one is preferred. Beyond the
    /// list's end none is.
    pub memory_nodes: Vec<Option<usize>>,
    /// Whether glommio may preempt.
    pub preemption: Preemption,
    /// Messages that a lane holds.
    pub lane_capacity: usize,
    /// How long an executor looks for work before it sleeps. 20 µs cut a lane's round trip between
    /// two otherwise idle executors from 57 to 14 µs, and cost half as much CPU again for each
    /// request when two connections keep an executor busy now and then.
    pub spin_before_park: Duration,
    /// Memory for disk I/O of each executor, registered with its three rings and pinned for each.
    pub io_memory_bytes: usize,
    /// How long all executors may take to start.
    pub start_timeout: Duration,
}

impl Options {
    /// What the node runs with, on these CPUs.
    pub fn on_cpus(cpus: Vec<usize>) -> Self {
        Self {
            cpus,
            pinning: Pinning::default(),
            memory_nodes: Vec::new(),
            preemption: Preemption::default(),
            lane_capacity: LANE_CAPACITY,
            spin_before_park: Duration::ZERO,
            io_memory_bytes: 10 << 20,
            start_timeout: Duration::from_secs(10),
        }
    }
}

/// Why the executors did not run.
#[derive(Debug)]
pub enum RunError {
    /// No CPU was named.
    NoCpus,
    /// A thread could not be made.
    Thread(io::Error),
    /// An executor could not be made.
    Start {
        /// The executor.
        index: usize,
        /// Its CPU.
        cpu: usize,
        /// What glommio says.
        reason: String,
    },
    /// An executor was not there in time.
    StartTimeout(Duration),
    /// An executor ended without a result.
    Died {
        /// The executor.
        index: usize,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCpus => f.write_str("no CPU to run an executor on"),
            Self::Thread(error) => write!(f, "a thread could not be started: {error}"),
            Self::Start { index, cpu, reason } => {
                write!(f, "executor {index} could not be started on CPU {cpu}: {reason}")
            }
            Self::StartTimeout(limit) => write!(f, "the executors did not all start within {limit:?}"),
            Self::Died { index } => write!(f, "executor {index} ended without a result"),
        }
    }
}

impl std::error::Error for RunError {}

/// What an executor is given at its start.
#[derive(Debug)]
pub struct Executor<T: Send + 'static> {
    /// Its number: the place of its CPU in the options.
    pub index: usize,
    /// Lanes to the others.
    pub senders: LaneSenders<T>,
    /// Lanes from the others.
    pub receivers: LaneReceivers<T>,
    /// The notice to end.
    pub shutdown: Shutdown,
    /// This executor's one slice token.
    pub slicer: Slicer,
}

/// Runs one executor on each CPU until the futures that `start` makes on them have all ended, and
/// gives their outputs in the executors' order.
///
/// `start` is called on every executor, once all of them are there. A panic in it or in its future
/// ends the process.
pub fn run<T, R, F, Fut>(options: &Options, shutdown: &Shutdown, start: F) -> Result<Vec<R>, RunError>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Executor<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + 'static,
{
    if options.cpus.is_empty() {
        return Err(RunError::NoCpus);
    }
    if prefers_several_nodes(&options.memory_nodes)
        && let Err(error) = numa::forgo_huge_pages()
    {
        tracing::info!(%error, "huge pages stay: some of an executor's memory will be on other nodes");
    }
    let start = Arc::new(start);
    let (reports, reported) = channel();
    let beats: Vec<_> = options.cpus.iter().map(|_| Arc::new(Beat::default())).collect();
    let mut threads = Vec::new();
    for (index, port) in lanes::mesh(options.cpus.len(), options.lane_capacity).into_iter().enumerate() {
        let (go, told_to_go) = channel();
        let seat = Seat {
            index,
            options: options.clone(),
            beat: beats[index].clone(),
            reports: reports.clone(),
            told_to_go,
        };
        let (start, shutdown) = (start.clone(), shutdown.clone());
        let handle = std::thread::Builder::new()
            .name(format!("executor-{index}"))
            .spawn(move || seat.run(port, shutdown, &*start))
            .map_err(RunError::Thread)?;
        threads.push(Thread { go, handle });
    }
    drop(reports);
    // Without a word to go the threads end by themselves, those that are still starting too.
    let refused = await_all_made(&reported, threads.len(), options.start_timeout)?;
    if let Some(MemoryRefused { index, error }) = refused {
        tracing::info!(
            executor = index, %error,
            "executors can't prefer memory of their node: it is where a CPU first touches it"
        );
    }
    let pinger = match options.preemption {
        Preemption::Off => Some(Pinger::start(beats).map_err(RunError::Thread)?),
        Preemption::GlommioDefault => None,
    };
    let outputs = join_all(threads);
    drop(pinger);
    outputs
}

fn prefers_several_nodes(memory_nodes: &[Option<usize>]) -> bool {
    let mut nodes = memory_nodes.iter().flatten();
    let first = nodes.next();
    nodes.any(|node| Some(node) != first)
}

struct Thread<R> {
    go: Sender<Go>,
    handle: JoinHandle<Option<R>>,
}

/// All executors are there.
struct Go;

struct Made {
    index: usize,
    cpu: usize,
    result: Result<(), String>,
    memory: Result<(), MemoryRefused>,
}

/// The kernel doesn't let an executor prefer a node's memory.
struct MemoryRefused {
    index: usize,
    error: io::Error,
}

/// Waits for all, and gives the first refusal of memory among them: they have it all for one reason.
fn await_all_made(
    reported: &Receiver<Made>,
    count: usize,
    limit: Duration,
) -> Result<Option<MemoryRefused>, RunError> {
    let deadline = Instant::now() + limit;
    let mut refused = None;
    for _ in 0..count {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let made = reported.recv_timeout(remaining).map_err(|error| match error {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => RunError::StartTimeout(limit),
        })?;
        made.result.map_err(|reason| RunError::Start { index: made.index, cpu: made.cpu, reason })?;
        refused = refused.or(made.memory.err());
    }
    Ok(refused)
}

fn join_all<R>(threads: Vec<Thread<R>>) -> Result<Vec<R>, RunError> {
    for thread in &threads {
        // A thread that died meanwhile is told of by its join.
        let _ = thread.go.send(Go);
    }
    let outputs: Vec<_> = threads
        .into_iter()
        .enumerate()
        .map(|(index, thread)| thread.handle.join().ok().flatten().ok_or(RunError::Died { index }))
        .collect();
    outputs.into_iter().collect()
}

/// What one executor's thread needs before its executor stands.
struct Seat {
    index: usize,
    options: Options,
    beat: Arc<Beat>,
    reports: Sender<Made>,
    told_to_go: Receiver<Go>,
}

impl Seat {
    fn prefer_memory(&self) -> Result<(), MemoryRefused> {
        match self.options.memory_nodes.get(self.index).copied().flatten() {
            Some(node) => numa::prefer_node(node).map_err(|error| MemoryRefused { index: self.index, error }),
            None => Ok(()),
        }
    }

    fn run<T, R, Fut>(
        self,
        port: Port<T>,
        shutdown: Shutdown,
        start: &impl Fn(Executor<T>) -> Fut,
    ) -> Option<R>
    where
        T: Send + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let cpu = self.options.cpus[self.index];
        // First of all: what is allocated before has its place already.
        let memory = self.prefer_memory();
        let (local, result) = match make(cpu, &self.options) {
            Ok(local) => (Some(local), Ok(())),
            Err(reason) => (None, Err(reason)),
        };
        // Who waits for the report may have given up: then there is no word to go either.
        let _ = self.reports.send(Made { index: self.index, cpu, result, memory });
        let (Some(local), Ok(Go)) = (local, self.told_to_go.recv()) else { return None };
        let Self { index, options, beat, .. } = self;
        local.run(tasks::essential(async move {
            // First of all tasks, so that a wake from outside finds it whatever else happens.
            glommio::spawn_local(BeatTask(beat.clone())).detach();
            tasks::create_background_queue();
            readiness::install();
            let (senders, receivers) = timeout(options.start_timeout, port.connect()).await.ok()?;
            let slicer = Slicer::new();
            let output = start(Executor { index, senders, receivers, shutdown, slicer }).await;
            beat.stop();
            Some(output)
        }))
    }
}

fn make(cpu: usize, options: &Options) -> Result<LocalExecutor, String> {
    /// Far enough never to come, near enough for the kernel's time arithmetic (`Duration::MAX` isn't).
    const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

    let placement = match options.pinning {
        Pinning::Pinned => Placement::Fixed(cpu),
        Pinning::Free => Placement::Unbound,
    };
    let builder = LocalExecutorBuilder::new(placement)
        .spin_before_park(options.spin_before_park)
        .io_memory(options.io_memory_bytes)
        // Not on the executor's own CPU: a blocking call is to delay nobody there.
        .blocking_thread_pool_placement(PoolPlacement::Unbound(1));
    let builder = match options.preemption {
        Preemption::Off => builder.preempt_timer(NEVER),
        Preemption::GlommioDefault => builder,
    };
    // glommio panics where a ring can't be made for some reasons, and answers for others.
    match catch_unwind(AssertUnwindSafe(|| builder.make())) {
        Ok(made) => made.map_err(|error| error.to_string()),
        Err(panic) => Err(tasks::panic_text(&*panic).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::runtime::cpus::affinity_mask;

    /// What `cpus` come to.
    fn check(cpus: Vec<usize>) -> Result<Vec<usize>, RunError> {
        let options = Options {
            start_timeout: Duration::from_secs(30),
            io_memory_bytes: 64 << 10,
            lane_capacity: 8,
            ..Options::on_cpus(cpus)
        };
        run(&options, &Shutdown::new(), |executor: Executor<()>| async move { executor.index })
    }

    #[test]
    fn executors_give_their_outputs_in_order() {
        assert_eq!(check(vec![0, 0, 0]).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn executors_that_are_not_pinned_may_use_every_cpu_of_the_process() {
        let allowed = |pinning| {
            let options = Options {
                pinning,
                io_memory_bytes: 64 << 10,
                start_timeout: Duration::from_secs(30),
                ..Options::on_cpus(vec![0, 0])
            };
            let start = |_: Executor<()>| async { affinity_mask().expect("the kernel tells it") };
            run(&options, &Shutdown::new(), start).unwrap()
        };
        let process = affinity_mask().unwrap();
        assert_eq!(allowed(Pinning::Free), [process.clone(), process]);
        assert_eq!(allowed(Pinning::Pinned), [BTreeSet::from([0]), BTreeSet::from([0])]);
    }

    #[test]
    fn executors_start_on_memory_of_a_node_that_is_there_or_is_not() {
        let options = Options {
            memory_nodes: vec![Some(1 << 20), Some(0)],
            io_memory_bytes: 64 << 10,
            start_timeout: Duration::from_secs(30),
            ..Options::on_cpus(vec![0, 0, 0])
        };
        let start = |executor: Executor<()>| async move { executor.index };
        assert_eq!(run(&options, &Shutdown::new(), start).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn only_executors_on_different_nodes_prefer_several() {
        for (nodes, several) in [
            (&[][..], false),
            (&[None, None], false),
            (&[Some(1), Some(1), None], false),
            (&[Some(0), None, Some(1)], true),
        ] {
            assert_eq!(prefers_several_nodes(nodes), several, "{nodes:?}");
        }
    }

    #[test]
    fn no_cpu_is_an_error() {
        assert!(matches!(check(vec![]), Err(RunError::NoCpus)));
    }

    #[test]
    fn an_executor_that_cannot_start_keeps_the_others_from_starting() {
        let failed = check(vec![0, 1 << 20]);
        assert!(matches!(failed, Err(RunError::Start { index: 1, cpu: 1_048_576, .. })), "{failed:?}");
    }

    #[test]
    fn an_executor_that_is_not_there_in_time_is_an_error() {
        let (reports, reported) = channel();
        reports.send(Made { index: 0, cpu: 0, result: Ok(()), memory: Ok(()) }).expect("a receiver");
        let limit = Duration::from_millis(10);
        assert!(matches!(await_all_made(&reported, 2, limit), Err(RunError::StartTimeout(_))));
    }
}
