//! One pinned thread with one executor for each CPU, started together or not at all.
//!
//! It knows how glommio has to be set up to never stand still (see the module's own text); what the
//! executors then do is the caller's future.
use std::{
    collections::BTreeSet,
    future::Future,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use futures::future::{Either, select};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::{
    beat::{Beat, BeatTask},
    blocking,
    lanes::{self, LaneReceivers, LaneSenders, Port},
    numa,
    pinger::Pinger,
    readiness,
    shutdown::Shutdown,
    slices::Slicer,
    tasks,
};
use silverback_model::limits::LANE_CAPACITY;

/// How often it checks whether an executor that doesn't report has ended.
const DEATH_LOOK: Duration = Duration::from_millis(50);
/// How often the executors that a start waits for are logged.
const WAIT_WORD_INTERVAL: Duration = Duration::from_secs(5);

/// Whether glommio may preempt what runs on an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preemption {
    /// Never, and a pinger wakes each executor from outside: what the node runs with.
    #[default]
    Off,
    /// As glommio ships, without the pinger. An executor can then park forever with runnable tasks;
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
    /// The CPU of each executor, by number. A CPU may occur more than once.
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
        }
    }
}

/// Why the executors did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No CPU was named.
    #[error("no CPU to run an executor on")]
    NoCpus,
    /// A thread could not be made.
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
    /// An executor could not be made.
    #[error("executor {index} could not be started on CPU {cpu}: {reason}")]
    Start {
        /// The executor.
        index: usize,
        /// Its CPU.
        cpu: usize,
        /// What glommio says.
        reason: String,
    },
    /// An executor ended without a result.
    #[error("executor {index} ended without a result")]
    Died {
        /// The executor.
        index: usize,
    },
}

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
    let beats: Vec<_> = options.cpus.iter().map(|_| Arc::new(Beat::default())).collect();
    let mut crew = Crew::default();
    let started = crew
        .hire(options, &beats, shutdown, start)
        .and_then(|reports| reports.await_all_made(&crew.threads).map(|()| reports))
        .and_then(|reports| {
            let pinger = match options.preemption {
                Preemption::Off => Some(Pinger::start(beats).map_err(RunError::Thread)?),
                Preemption::GlommioDefault => None,
            };
            crew.go();
            reports.await_all_connected(&crew.threads)?;
            Ok(pinger)
        });
    match started {
        Ok(pinger) => {
            let outputs = crew.join();
            drop(pinger);
            outputs
        }
        Err(error) => {
            crew.dismiss();
            Err(error)
        }
    }
}

fn prefers_several_nodes(memory_nodes: &[Option<usize>]) -> bool {
    let mut nodes = memory_nodes.iter().flatten();
    let first = nodes.next();
    nodes.any(|node| Some(node) != first)
}

/// The executors' threads.
struct Crew<R> {
    threads: Vec<Thread<R>>,
    /// Given when one of them is not coming: the others don't wait for its lanes.
    abandoned: Shutdown,
}

impl<R> Default for Crew<R> {
    fn default() -> Self {
        Self { threads: Vec::new(), abandoned: Shutdown::new() }
    }
}

struct Thread<R> {
    /// None: the word was given.
    go: Option<Sender<Go>>,
    handle: JoinHandle<Option<R>>,
}

/// All executors are there.
struct Go;

struct Made {
    cpu: usize,
    result: Result<(), String>,
    memory: Result<(), MemoryBindError>,
}

/// The kernel doesn't let an executor prefer a node's memory.
struct MemoryBindError {
    index: usize,
    error: io::Error,
}

impl<R: Send + 'static> Crew<R> {
    /// Starts the threads. Without a word to go they end by themselves.
    fn hire<T, F, Fut>(
        &mut self,
        options: &Options,
        beats: &[Arc<Beat>],
        shutdown: &Shutdown,
        start: F,
    ) -> Result<Reports, RunError>
    where
        T: Send + 'static,
        F: Fn(Executor<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + 'static,
    {
        let start = Arc::new(start);
        let ((made, is_made), (connected, is_connected)) = (channel(), channel());
        for (index, port) in lanes::mesh(options.cpus.len(), options.lane_capacity).into_iter().enumerate() {
            let (go, told_to_go) = channel();
            let seat = Seat {
                index,
                options: options.clone(),
                beat: beats[index].clone(),
                made: made.clone(),
                told_to_go,
                connected: connected.clone(),
                abandoned: self.abandoned.clone(),
            };
            let (start, shutdown) = (start.clone(), shutdown.clone());
            let handle = std::thread::Builder::new()
                .name(format!("executor-{index}"))
                .spawn(move || seat.run(port, shutdown, &*start))
                .map_err(RunError::Thread)?;
            self.threads.push(Thread { go: Some(go), handle });
        }
        Ok(Reports { is_made, is_connected })
    }

    fn go(&mut self) {
        for go in self.threads.iter_mut().filter_map(|thread| thread.go.take()) {
            // A thread that died meanwhile is found out by its silence.
            let _ = go.send(Go);
        }
    }

    fn join(self) -> Result<Vec<R>, RunError> {
        let threads = self.threads.into_iter().enumerate();
        let outputs: Vec<_> = threads
            .map(|(index, thread)| thread.handle.join().ok().flatten().ok_or(RunError::Died { index }))
            .collect();
        outputs.into_iter().collect()
    }

    /// Lets all of them end before they have begun, and waits for it: a process that leaves while an executor
    /// is taken apart makes glommio panic.
    fn dismiss(mut self) {
        self.abandoned.request();
        self.threads.iter_mut().for_each(|thread| drop(thread.go.take()));
        // Why they end is reported by what dismissed them.
        let _ = self.join();
    }
}

/// What the threads report while they start.
struct Reports {
    is_made: Receiver<(usize, Made)>,
    is_connected: Receiver<(usize, ())>,
}

impl Reports {
    fn await_all_made<R>(&self, threads: &[Thread<R>]) -> Result<(), RunError> {
        let mut refused = None;
        let is_dead = |index: usize| threads[index].handle.is_finished();
        await_all(&self.is_made, threads.len(), is_dead, "to be made", |index, made| {
            made.result.map_err(|reason| RunError::Start { index, cpu: made.cpu, reason })?;
            refused = refused.take().or(made.memory.err());
            Ok(())
        })?;
        // The first of them: they are all refused for one reason.
        if let Some(MemoryBindError { index, error }) = refused {
            tracing::info!(
                executor = index, %error,
                "executors can't prefer memory of their node: it is where a CPU first touches it"
            );
        }
        Ok(())
    }

    fn await_all_connected<R>(&self, threads: &[Thread<R>]) -> Result<(), RunError> {
        let is_dead = |index: usize| threads[index].handle.is_finished();
        await_all(&self.is_connected, threads.len(), is_dead, "to connect their lanes", |_, ()| Ok(()))
    }
}

/// Waits for a report of each executor, for however long a busy machine makes them take, and says for which.
/// An error: one has ended without a report, or `take` finds one in it.
fn await_all<M>(
    reported: &Receiver<(usize, M)>,
    count: usize,
    is_dead: impl Fn(usize) -> bool,
    what_for: &str,
    mut take: impl FnMut(usize, M) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let mut missing: BTreeSet<usize> = (0..count).collect();
    let began = Instant::now();
    let mut told = began;
    while !missing.is_empty() {
        // Looked for before its last words are read.
        let dead: Vec<usize> = missing.iter().copied().filter(|index| is_dead(*index)).collect();
        let first = reported.recv_timeout(if dead.is_empty() { DEATH_LOOK } else { Duration::ZERO });
        for (index, report) in first.into_iter().chain(reported.try_iter()) {
            missing.remove(&index);
            take(index, report)?;
        }
        if let Some(index) = dead.into_iter().find(|index| missing.contains(index)) {
            return Err(RunError::Died { index });
        }
        if told.elapsed() >= WAIT_WORD_INTERVAL {
            told = Instant::now();
            tracing::warn!(executors = ?missing, waited = ?began.elapsed(), "waiting for executors {what_for}");
        }
    }
    Ok(())
}

/// What one executor's thread needs before its executor is up.
struct Seat {
    index: usize,
    options: Options,
    beat: Arc<Beat>,
    made: Sender<(usize, Made)>,
    told_to_go: Receiver<Go>,
    connected: Sender<(usize, ())>,
    abandoned: Shutdown,
}

impl Seat {
    fn prefer_memory(&self) -> Result<(), MemoryBindError> {
        match self.options.memory_nodes.get(self.index).copied().flatten() {
            Some(node) => {
                numa::prefer_node(node).map_err(|error| MemoryBindError { index: self.index, error })
            }
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
        // Whoever waits for the report may have given up: then there is no word to go either.
        let _ = self.made.send((self.index, Made { cpu, result, memory }));
        let (Some(local), Ok(Go)) = (local, self.told_to_go.recv()) else { return None };
        let Self { index, beat, connected, abandoned, .. } = self;
        local.run(tasks::essential(async move {
            // First of all tasks, so that a wake from outside finds it whatever else happens.
            glommio::spawn_local(BeatTask(beat.clone())).detach();
            tasks::create_background_queue();
            blocking::begin();
            readiness::install();
            let connecting = pin!(port.connect());
            let (senders, receivers) = match select(connecting, abandoned.requested()).await {
                Either::Left((lanes, _)) => lanes,
                Either::Right(_) => {
                    beat.stop();
                    return None;
                }
            };
            // Nobody waits for it any more where another one has died.
            let _ = connected.send((index, ()));
            let slicer = Slicer::new();
            let output = start(Executor { index, senders, receivers, shutdown, slicer }).await;
            blocking::end().await;
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use silverback_test_support::eventually;

    use super::*;
    use crate::cpus::affinity_mask;
    use crate::timers::sleep;

    /// What `cpus` come to.
    fn check(cpus: Vec<usize>) -> Result<Vec<usize>, RunError> {
        let options = Options { io_memory_bytes: 64 << 10, lane_capacity: 8, ..Options::on_cpus(cpus) };
        run(&options, &Shutdown::new(), |executor: Executor<()>| async move { executor.index })
    }

    #[test]
    fn executors_give_their_outputs_in_order() {
        assert_eq!(check(vec![0, 0, 0]).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn executors_that_are_not_pinned_may_use_every_cpu_of_the_process() {
        let allowed = |pinning| {
            let options = Options { pinning, io_memory_bytes: 64 << 10, ..Options::on_cpus(vec![0, 0]) };
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

    /// What comes of waiting for two executors of which those named report, each after `delay`; then both end.
    fn check_awaited(delay: Duration, reporting: &'static [usize]) -> Result<(), RunError> {
        let (reports, reported) = channel();
        let reporter = std::thread::spawn(move || {
            for index in reporting {
                std::thread::sleep(delay);
                reports.send((*index, ())).expect("a receiver");
            }
        });
        await_all(&reported, 2, |_| reporter.is_finished(), "to be made", |_, ()| Ok(()))
    }

    #[test]
    fn executors_may_take_their_time_but_not_die() {
        assert!(check_awaited(Duration::from_millis(300), &[1, 0]).is_ok());
        for _ in 0..100 {
            assert!(check_awaited(Duration::ZERO, &[0, 1]).is_ok(), "they reported before they ended");
        }
        let died = check_awaited(Duration::from_millis(100), &[0]);
        assert!(matches!(died, Err(RunError::Died { index: 1 })), "{died:?}");
    }

    /// Threads of this process with that name.
    #[test]
    fn an_executor_ends_after_its_blocking_calls() {
        static PANICS: AtomicUsize = AtomicUsize::new(0);
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(
                usize::from(panic.to_string().contains("failed to send response")),
                Ordering::Relaxed,
            );
            former(panic);
        }));
        let start = |_: Executor<()>| async {
            let call = || std::thread::sleep(Duration::from_millis(200));
            // One call after the other: the end waits for the one that is in flight, and no other begins.
            glommio::spawn_local(async move {
                loop {
                    blocking::call(call).await;
                }
            })
            .detach();
            // So that the call is in flight.
            sleep(Duration::from_millis(50)).await;
        };
        let options = Options { io_memory_bytes: 64 << 10, lane_capacity: 8, ..Options::on_cpus(vec![0]) };
        run(&options, &Shutdown::new(), start).unwrap();
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    }

    fn threads_named(name: &str) -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").expect("this process has tasks");
        let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|found| found.trim_end() == name).count()
    }

    #[test]
    fn a_start_that_fails_leaves_no_executor_behind() {
        // No other test has as many executors, so that their names tell these.
        let cpus = [vec![1 << 20], vec![0; 12]].concat();
        for _ in 0..3 {
            assert!(matches!(check(cpus.clone()), Err(RunError::Start { index: 0, .. })));
            // The kernel may still be about to take its last steps.
            eventually("an executor is left behind", || threads_named("executor-12") == 0);
        }
    }
}
