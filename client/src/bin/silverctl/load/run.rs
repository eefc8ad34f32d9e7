//! One run from its connections to its report: who sends, when it ends, and that it ends.

use std::time::{Duration, Instant};

use silverback_client::Client;
use silverback_load::connection::{Connection, Endpoint};
use silverback_load::encode::RemoteWrite;
use silverback_load::pace::Pace;
use silverback_load::usage::{Process, own_cpu_s, raise_file_limit};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval_at, sleep_until};

use super::event::Counter;
use super::feed::FeedSource;
use super::histograms::HistogramPart;
use super::options::{LoadPlan, Loop, Protocol};
use super::posting::Posting;
use super::progress::LoadProgress;
use super::report::{Ending, LoadReport};
use super::streaming::{ConnectionContent, Streaming};
use super::tally::Tally;
use super::turns::{SendTurns, Stop};
use crate::connection::ConnectionArgs;
use crate::error::{CommandError, Context, Done};
use crate::interrupt::Interrupt;
use crate::time_text::now_ms;

const SECOND: Duration = Duration::from_secs(1);
/// How long after the last answer should be there the run is over all the same.
const GRACE: Duration = Duration::from_secs(2);
/// Until the rings are filled and all threads wait.
const SETUP: Duration = Duration::from_millis(200);
const THREAD_STACK_BYTES: usize = 256 << 10;

/// What a run came to, and the first error of a connection that could not go on.
pub(super) struct Ran {
    /// All that was found.
    pub report: LoadReport,
    /// Why it ended early.
    pub failure: Option<CommandError>,
}

/// Sends what the plan says.
pub(super) async fn run(
    plan: LoadPlan,
    connection: &ConnectionArgs,
    pid: Option<i32>,
    interrupt: Interrupt,
) -> Done<Ran> {
    let server =
        pid.map(Process::open).transpose().context(|| "can't look at the server's process".to_owned())?;
    raise_file_limit()?;
    let source = FeedSource::new(&plan)?;
    let mut lines = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        lines.push(Line::open(&plan, connection).await?);
    }
    let begin = Instant::now() + SETUP;
    let counter = Counter::new(Tally::new(begin, server)?);
    let run = Run { plan, source, counter, stop: Stop::default(), interrupt, timeout: connection.timeout };
    let parts = run.source.parts()?;
    let places = lines.into_iter().zip(parts).enumerate();
    let senders = places.map(|(place, (line, part))| run.sender(line, begin, place, part));
    let senders = senders.collect::<Result<_, _>>()?;
    run.drive(senders, begin).await
}

/// Connections begin one after another, spread over the time that one request stands for.
fn pace(plan: &LoadPlan, begin: Instant, place: usize, part: f64) -> Option<Pace> {
    match plan.pacing {
        Loop::Closed => None,
        Loop::Open { samples_per_s } => {
            let own = samples_per_s * part;
            let stagger_s = plan.batch as f64 / own * place as f64 / plan.connections as f64;
            let stagger = Duration::try_from_secs_f64(stagger_s).unwrap_or_default().min(SECOND);
            Some(Pace::new(begin + stagger, own))
        }
    }
}

/// One connection with all that it sends.
enum Sender {
    Posting(Box<Posting>),
    Streaming(Box<Streaming>),
}

impl Sender {
    fn run(self) -> Done<u64> {
        match self {
            Self::Posting(posting) => posting.run(),
            Self::Streaming(streaming) => streaming.run(),
        }
    }
}

/// An open connection.
enum Line {
    Posting(Connection, RemoteWrite),
    Streaming(Client),
}

impl Line {
    async fn open(plan: &LoadPlan, connection: &ConnectionArgs) -> Done<Self> {
        let posting = |version| {
            let opened = tokio::task::block_in_place(|| post_to(&plan.url, version, connection));
            Ok(Self::Posting(opened?, version))
        };
        match plan.protocol {
            Protocol::Rw1 => posting(RemoteWrite::V1),
            Protocol::Rw2 => posting(RemoteWrite::V2),
            Protocol::Grpc => Ok(Self::Streaming(connection.connect().await?)),
        }
    }
}

fn post_to(url: &str, version: RemoteWrite, connection: &ConnectionArgs) -> Done<Connection> {
    let cannot = || format!("can't connect to {url}");
    let endpoint = Endpoint::resolve(url, connection.ca_file.as_deref()).context(cannot)?;
    Connection::open(&endpoint, version, &headers(connection)?, connection.timeout).context(cannot)
}

/// The connection options' headers, as lines.
fn headers(connection: &ConnectionArgs) -> Done<Vec<String>> {
    let credentials = connection.credentials()?.authorization().map(|who| format!("Authorization: {who}"));
    let own = connection.headers.iter().map(|(name, value)| format!("{name}: {value}"));
    let lines: Vec<String> = own.chain(credentials).collect();
    match lines.iter().find(|line| line.contains(char::is_control)) {
        // Not its value: that may be a secret.
        Some(line) => {
            let name = line.split(':').next().unwrap_or_default();
            Err(CommandError::Usage(format!("the header {name:?} has a value that can't be sent")))
        }
        None => Ok(lines),
    }
}

/// A run in flight.
struct Run {
    plan: LoadPlan,
    source: FeedSource,
    counter: Counter,
    stop: Stop,
    interrupt: Interrupt,
    timeout: Duration,
}

/// What the senders came to.
#[derive(Default)]
struct Ended {
    senders: usize,
    samples_overdue: u64,
    failure: Option<CommandError>,
}

impl Ended {
    fn add(&mut self, result: Done<u64>) {
        self.senders += 1;
        match result {
            Ok(overdue) => self.samples_overdue += overdue,
            Err(failure) => self.failure = self.failure.take().or(Some(failure)),
        }
    }
}

impl Run {
    /// What this connection sends, and when.
    fn sender(&self, line: Line, begin: Instant, place: usize, part: f64) -> Done<Sender> {
        let turns = SendTurns::new(pace(&self.plan, begin, place, part), begin, self.stop.clone());
        let counter = self.counter.clone();
        Ok(match line {
            Line::Posting(connection, version) => {
                let feed = self.source.bodies(place, version)?;
                Sender::Posting(Box::new(Posting { connection, feed, turns, counter }))
            }
            Line::Streaming(client) => {
                let (share, batch) = (self.source.share(place)?, self.plan.batch);
                let histograms = HistogramPart::new(self.plan.histograms, self.plan.seed);
                let content = ConnectionContent { share, histograms };
                let streaming = Streaming::new(client, content, turns, counter, batch, self.timeout);
                Sender::Streaming(Box::new(streaming))
            }
        })
    }

    async fn drive(mut self, senders: Vec<Sender>, begin: Instant) -> Done<Ran> {
        let count = senders.len();
        let results = start(senders)?;
        let (started_ms, cpu_before_s) = (now_ms(), own_cpu_s());
        let mut progress = LoadProgress::begin(begin);
        self.warm_up(begin, &mut progress).await;
        let (ended, interrupted) = self.measure(results, count, begin, &mut progress).await;
        progress.end();
        let ending = match &ended {
            Ended { failure: Some(_), .. } => Ending::Failed,
            Ended { .. } if interrupted => Ending::Interrupted,
            // Feeds run ahead: only if there was nothing left to send before the time was over.
            Ended { .. } if self.source.clock_reached() && !self.stop.is_told() => Ending::ClockReached,
            Ended { .. } => Ending::Done,
        };
        let counted = self.counter.tally().finish(Instant::now(), ended.samples_overdue);
        let report = LoadReport::new(self.plan, started_ms, ending, counted, own_cpu_s() - cpu_before_s);
        Ok(Ran { report, failure: ended.failure })
    }

    /// Lets the senders begin, and forgets what they do until the measurement begins.
    async fn warm_up(&mut self, begin: Instant, progress: &mut LoadProgress) {
        if self.plan.warmup_s == 0.0 {
            return;
        }
        let end = begin + Duration::from_secs_f64(self.plan.warmup_s);
        let mut ticks = seconds(begin);
        loop {
            tokio::select! {
                () = self.interrupt.come() => break,
                () = sleep_until(end.into()) => break,
                _ = ticks.tick() => progress.show("warm-up", self.counter.tally().end_second(Instant::now())),
            }
        }
        self.counter.tally().begin_anew(Instant::now());
    }

    /// Waits for the senders, and tells them when to end. Whether Ctrl-C did.
    async fn measure(
        &mut self,
        mut results: mpsc::Receiver<Done<u64>>,
        count: usize,
        begin: Instant,
        progress: &mut LoadProgress,
    ) -> (Ended, bool) {
        let mut ended = Ended::default();
        let begin = begin + Duration::from_secs_f64(self.plan.warmup_s);
        let mut over = begin + Duration::from_secs_f64(self.plan.duration_s);
        let mut interrupted = false;
        let mut ticks = seconds(begin);
        while ended.senders < count {
            tokio::select! {
                result = results.recv() => match result {
                    Some(result) => ended.add(result),
                    None => ended.add(Err("a connection's thread ended unexpectedly".into())),
                },
                () = self.interrupt.come(), if !interrupted => {
                    interrupted = true;
                    over = Instant::now();
                }
                () = sleep_until(over.into()), if !self.stop.is_told() => {
                    self.stop.tell();
                    over = Instant::now() + self.timeout + GRACE;
                }
                () = sleep_until(over.into()), if self.stop.is_told() => break,
                _ = ticks.tick() => progress.show("", self.counter.tally().end_second(Instant::now())),
            }
            if ended.failure.is_some() && !self.stop.is_told() {
                over = Instant::now();
            }
        }
        (ended, interrupted)
    }
}

fn seconds(from: Instant) -> tokio::time::Interval {
    let mut ticks = interval_at((from + SECOND).into(), SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// A thread for each sender: it blocks.
fn start(senders: Vec<Sender>) -> Done<mpsc::Receiver<Result<u64, CommandError>>> {
    let (done, results) = mpsc::channel(senders.len());
    for sender in senders {
        let done = done.clone();
        let thread = std::thread::Builder::new().name("send".to_owned()).stack_size(THREAD_STACK_BYTES);
        thread.spawn(move || {
            // A run that has ended by its grace waits for nobody.
            drop(done.blocking_send(sender.run()));
        })?;
    }
    Ok(results)
}
