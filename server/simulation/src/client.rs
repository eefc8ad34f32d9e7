//! Clients of a shard: they write, retry, contradict and read, and hold the answers against the oracle.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use silverback_host::Host;
use silverback_model::limits::{DELETION_WAIT_MAX, READ_FRAME_BYTES};
use silverback_model::{Epoch, MatchOp, Matcher, RefusedReason, Sample, SeriesId, SeriesIdHasher, SeriesRef};
use silverback_storage::message::{
    CachedRef, ControlRequest, Correlation, DefinitionBlock, Definitions, Deleted, Deletion, DeletionError,
    LabelSource, LabelSpan, MessageSpan, PartHistogram, PartPool, PartSeries, Read, ReadReply, ReadRequest,
    ReadTicket, Selection, SeriesWanted, ShardReply, ShardRequest, WriteBody, WritePart, WriteReply,
};
use silverback_storage::shard::{Inbox, ReplyTo};
use silverback_storage::wal::{LogError, Lsn};

use crate::executor::SimHost;
use crate::fleet::{Fleet, Scraped};
use crate::histograms;
use crate::oracle::{self, Deletions, Doomed, Held, Oracle};
use crate::random::Random;
use crate::trace::Trace;

/// How often a part that a full disk refused is sent again.
const RETRIES: usize = 20;

/// A shard as its clients reach it, for one life.
#[derive(Clone)]
pub(crate) struct Connection {
    pub inbox: Rc<Inbox>,
    pub replies: Replies,
    pub host: SimHost,
    pub pool: PartPool,
    pub oracle: Rc<RefCell<Oracle>>,
    pub clock_ms: Rc<Cell<i64>>,
    pub hasher: SeriesIdHasher,
    /// What the shard said of its series' refs.
    pub refs: Rc<RefCell<BTreeMap<SeriesId, CachedRef>>>,
    pub retention_ms: i64,
    pub trace: Trace,
    /// The last group that is on disk.
    pub durable: Rc<dyn Fn() -> Lsn>,
}

/// The requests that wait for a reply.
#[derive(Clone, Default)]
pub(crate) struct Replies {
    waiting: Rc<RefCell<Vec<Option<oneshot::Sender<ShardReply>>>>>,
}

impl Replies {
    fn expect(&self) -> (ReplyTo, oneshot::Receiver<ShardReply>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.borrow_mut();
        waiting.push(Some(sender));
        let correlation = Correlation { slot: waiting.len() as u32 - 1, generation: 0 };
        (ReplyTo { core: 0, correlation }, receiver)
    }

    /// Hands a reply to whoever waits for it.
    pub(crate) fn deliver(&self, to: ReplyTo, reply: ShardReply) {
        let sender = self.waiting.borrow_mut()[to.correlation.slot as usize].take();
        let sender = sender.expect("a request is answered once");
        assert!(sender.send(reply).is_ok(), "a client waits for its answers");
    }
}

/// Since when a sample counts; 0 where it doesn't say so. Some say what can't be.
fn start_ms(sample: Sample) -> i64 {
    match sample.timestamp_ms % 5 {
        0 => sample.timestamp_ms - 100,
        1 => 100,
        2 => sample.timestamp_ms + 1,
        _other => 0,
    }
}

/// What became of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All of it is stored.
    Written,
    /// Some of it was refused.
    Refused(Vec<(RefusedReason, u64)>),
    /// The log takes nothing.
    NotDurable(LogError),
}

/// What a sender takes for a series' ref that it wasn't given: none, or one that is right by chance.
fn guessed_ref(id: SeriesId) -> CachedRef {
    match id.0 as u32 % 4 {
        0 => CachedRef::NONE,
        1 => CachedRef::NOT_YET,
        _ => CachedRef::of(SeriesRef(id.0 as u32 / 4 % 32)),
    }
}

impl Connection {
    async fn ask(&self, request: ShardRequest) -> ShardReply {
        let (to, reply) = self.replies.expect();
        self.inbox.push(to, request);
        reply.await.expect("a worker answers all that it takes")
    }

    /// Sends one part and waits for its answer.
    async fn send(&self, part: &[Scraped]) -> Answer {
        let (write, ids) = self.encode(part);
        match self.ask(ShardRequest::Write(write)).await {
            ShardReply::Write(WriteReply::Written(ack)) => {
                let told = ack.ref_updates.iter().flat_map(|updates| updates.iter());
                let told = told.map(|(number, cached)| (ids[number as usize], cached));
                self.refs.borrow_mut().extend(told);
                let sent: usize = part.iter().map(|(_, samples)| samples.len()).sum();
                let refused: Vec<_> =
                    ack.refusals.iter().flat_map(|refusals| refusals.counts.iter()).collect();
                let refused: Vec<_> = refused.into_iter().filter(|(_, count)| *count > 0).collect();
                let lost: u64 = refused.iter().map(|(_, count)| count).sum();
                assert_eq!(
                    ack.written + u64::from(ack.histograms) + lost,
                    sent as u64,
                    "each sample is answered for"
                );
                if refused.is_empty() { Answer::Written } else { Answer::Refused(refused) }
            }
            ShardReply::Write(WriteReply::NotDurable(error)) => Answer::NotDurable(error),
            other => panic!("a write is answered with {other:?}"),
        }
    }

    /// A part as a stream has it, and the ids of its series of floats by their refs on the stream.
    fn encode(&self, part: &[Scraped]) -> (WritePart, Vec<SeriesId>) {
        let (mut defined, mut ids) = (DefinitionBlock::default(), Vec::new());
        let mut buffers = self.pool.take().expect("few parts are in flight");
        let mut bytes = Vec::new();
        for (labels, samples) in part {
            let block = labels.to_canonical();
            let id = self.hasher.hash_canonical(&block);
            if histograms::is_of_histograms(labels) {
                let span = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
                bytes.extend_from_slice(&block);
                for sample in samples {
                    let start = bytes.len();
                    histograms::put_message(*sample, &mut bytes);
                    let message = MessageSpan::of_body(start, bytes.len() - start);
                    buffers.histograms.push(PartHistogram { id, labels: span, message });
                }
                continue;
            }
            let number = ids.len() as u32;
            defined.push(|out| out.extend_from_slice(&block));
            ids.push(id);
            let cached = self.refs.borrow().get(&id).copied().unwrap_or_else(|| guessed_ref(id));
            let labels = LabelSpan::of_definition(number, number);
            buffers.series.push(PartSeries { id, labels, samples: samples.len() as u32, cached });
            for sample in samples {
                buffers.samples.push(*sample);
                buffers.push_start(start_ms(*sample));
            }
        }
        let mut definitions = Definitions::default();
        definitions.push(defined);
        let body = WriteBody { bytes: bytes.into(), definitions, ..WriteBody::default() };
        (WritePart { body: Arc::new(body), part: buffers }, ids)
    }

    /// Reads all that the shard holds.
    pub(crate) async fn read_all(&self) -> Held {
        let bytes = READ_FRAME_BYTES;
        let (selection, wanted) = (Selection::everything(), SeriesWanted::Chunks.into());
        let mut request = ReadRequest::Open { selection, wanted, bytes };
        let mut held = Vec::new();
        loop {
            match self.read(request).await {
                ReadReply::Series(batch, next) => {
                    held.extend(oracle::held(&batch));
                    match next {
                        Some(cursor) => request = ReadRequest::Fetch { cursor, bytes },
                        None => return held,
                    }
                }
                other => panic!("a read of series is answered with {other:?}"),
            }
        }
    }

    async fn read(&self, request: ReadRequest) -> ReadReply {
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        match self.ask(ShardRequest::Ask(ControlRequest::Read(Box::new(read)))).await {
            ShardReply::Read(reply) => *reply.expect("few reads are open"),
            other => panic!("a read is answered with {other:?}"),
        }
    }

    /// Has something deleted, and returns how many samples must be gone.
    pub(crate) async fn delete(&self, doomed: &Doomed) -> u64 {
        while self.oracle.borrow().contradictions > 0 {
            self.host.sleep(Duration::from_millis(1)).await;
        }
        self.oracle.borrow_mut().deletion_begins(doomed, (self.durable)());
        let deletion = Deletion {
            ticket: ReadTicket::issue(),
            epoch: Epoch::FIRST,
            selections: [selection_of(doomed)].into(),
            wait_max: DELETION_WAIT_MAX,
        };
        let (deleted, ended) =
            match self.ask(ShardRequest::Ask(ControlRequest::Delete(Box::new(deletion)))).await {
                ShardReply::Deleted(reply) => (reply.deleted, reply.ended),
                other => panic!("a deletion is answered with {other:?}"),
            };
        let Deleted { series, series_cut, samples } = deleted;
        self.trace.event("deletion", [series, series_cut], format_args!("{samples} samples, {ended:?}"));
        let done = match ended {
            Ok(()) => Some((self.durable)()),
            Err(DeletionError::Log(LogError::Full(_) | LogError::Failed(_))) => None,
            Err(error) => panic!("nothing keeps anybody from deleting: {error}"),
        };
        self.oracle.borrow_mut().deletion_ends(done)
    }

    /// Reads all while writes go on, and holds it against what was acknowledged before.
    pub(crate) async fn read_and_check(&self) {
        let before = self.oracle.borrow().now();
        let held = self.read_all().await;
        if let Err(fault) = self.oracle.borrow().check(&held, before) {
            panic!("a read: {fault}");
        }
    }
}

/// What a shard is asked to delete.
pub(crate) fn selection_of(doomed: &Doomed) -> Selection {
    let (name, value) = &doomed.label;
    let matcher = Matcher::new(name, MatchOp::Equal, value).expect("it is no expression");
    Selection { matchers: [matcher].into(), min_ms: *doomed.range_ms.start(), max_ms: *doomed.range_ms.end() }
}

/// Something of what the fleets have sent until now.
pub(crate) fn draw_doomed(random: &mut Random, now_ms: i64, retention_ms: i64) -> Doomed {
    let label = match random.below(3) {
        0 => ("__name__", format!("metric_{}", random.below(7))),
        1 => ("client", random.below(4).to_string()),
        _ => ("pod", format!("pod-{}", random.by_magnitude(80))),
    };
    let range_ms = match random.below(3) {
        0 => i64::MIN..=i64::MAX,
        1 => now_ms - random.by_magnitude(1 << 20) as i64..=i64::MAX,
        _ => {
            let from_ms = now_ms - random.by_magnitude(retention_ms as usize) as i64;
            from_ms..=from_ms + random.by_magnitude(1 << 20) as i64
        }
    };
    Doomed { label, range_ms }
}

/// One sender of samples.
pub(crate) struct Client {
    connection: Connection,
    fleet: Rc<RefCell<Fleet>>,
    random: Random,
    /// Parts that were acknowledged, to be sent again, unless something is deleted.
    recent: VecDeque<Vec<Scraped>>,
    recent_since: Deletions,
}

/// Whether the log takes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    Takes,
    Failed,
}

impl Client {
    pub(crate) fn new(connection: Connection, fleet: Rc<RefCell<Fleet>>, random: Random) -> Self {
        let (recent, recent_since) = (VecDeque::new(), connection.oracle.borrow().deletions());
        Self { connection, fleet, random, recent, recent_since }
    }

    /// Sends so many parts, one after the other. After a failed log a few more, to see it refuse.
    pub(crate) async fn run(mut self, parts: usize) {
        let mut log = Log::Takes;
        for _ in 0..parts {
            if let Some(next) = self.step().await {
                assert!(log == Log::Takes || next == Log::Failed, "a failed log took something in");
                log = next;
            }
        }
    }

    /// Returns how the log answered, where it was asked.
    async fn step(&mut self) -> Option<Log> {
        self.forget_deleted();
        match self.random.below(20) {
            0 => self.fleet.borrow_mut().churn(&mut self.random),
            1 | 2 => {
                let pause_us = self.random.by_magnitude(1 << 20) as u64;
                self.connection.host.sleep(Duration::from_micros(pause_us)).await;
            }
            3 => return self.contradict().await,
            4 | 5 if !self.recent.is_empty() => {
                let part = self.random.pick(self.recent.make_contiguous()).clone();
                return Some(self.write(part).await);
            }
            _ => {}
        }
        let now_ms = self.connection.clock_ms.get() + self.random.within(1..15_000) as i64;
        self.connection.clock_ms.set(now_ms);
        let part = self.fleet.borrow_mut().scrape(&mut self.random, now_ms);
        Some(self.write(part).await)
    }

    /// Of what may be gone, or go, nobody knows how it is answered.
    fn forget_deleted(&mut self) {
        let deletions = self.connection.oracle.borrow().deletions();
        if deletions != self.recent_since || deletions.is_under_way() {
            self.recent.clear();
        }
        self.recent_since = deletions;
    }

    /// Sends a part until it is answered for good.
    async fn write(&mut self, part: Vec<Scraped>) -> Log {
        let each = || part.iter().flat_map(|(labels, samples)| samples.iter().map(move |s| (labels, *s)));
        let durable = (self.connection.durable)();
        let deletions = self.connection.oracle.borrow().deletions();
        each().for_each(|(labels, sample)| self.connection.oracle.borrow_mut().sent(labels, sample, durable));
        let mut tries = 0;
        let answer = loop {
            match self.connection.send(&part).await {
                Answer::NotDurable(LogError::Full(_)) if tries < RETRIES => {
                    tries += 1;
                    self.connection.host.sleep(Duration::from_millis(200)).await;
                }
                answer => break answer,
            }
        };
        self.connection.trace.event("write", [part.len() as u64, tries as u64], format_args!("{answer:?}"));
        match answer {
            Answer::Written => {
                let (mut oracle, durable) =
                    (self.connection.oracle.borrow_mut(), (self.connection.durable)());
                each().for_each(|(labels, sample)| oracle.acknowledged(labels, sample, durable));
                drop(oracle);
                self.recent.truncate(15);
                self.recent.push_front(part);
                Log::Takes
            }
            Answer::Refused(reasons) => {
                let may_be_deleted =
                    deletions.is_under_way() || deletions != self.connection.oracle.borrow().deletions();
                // What comes again may lie before what is left.
                if !may_be_deleted {
                    self.assert_aged(&part, &reasons);
                }
                Log::Takes
            }
            Answer::NotDurable(LogError::Full(_)) => Log::Takes,
            Answer::NotDurable(LogError::Failed(_)) => Log::Failed,
            Answer::NotDurable(
                error @ (LogError::Replaying | LogError::CheckpointOverdue(_) | LogError::Hung(_)),
            ) => {
                panic!("an open log refuses a short part: {error}")
            }
        }
    }

    /// Only what became too old on its way may be refused.
    fn assert_aged(&self, part: &[Scraped], reasons: &[(RefusedReason, u64)]) {
        let oldest_ms = part.iter().flat_map(|(_, samples)| samples).map(|s| s.timestamp_ms).min();
        let horizon_ms = (self.connection.clock_ms.get() - self.connection.retention_ms)
            .max(self.connection.oracle.borrow().horizon_ms());
        assert!(oldest_ms < Some(horizon_ms), "refused in spite of its age: {reasons:?}");
    }

    /// Sends other values for times that are taken: all of them are refused.
    async fn contradict(&mut self) -> Option<Log> {
        let part = self.recent.front()?;
        let changed = |s: &Sample| Sample::new(s.timestamp_ms, f64::from_bits(s.value.to_bits() ^ 1));
        let part: Vec<Scraped> = part
            .iter()
            .map(|(labels, samples)| (labels.clone(), samples.iter().map(changed).collect()))
            .collect();
        let oldest_ms = part.iter().flat_map(|(_, samples)| samples).map(|s| s.timestamp_ms).min();
        // An expired series would take it in as a new one.
        if oldest_ms < Some(self.connection.clock_ms.get() - self.connection.retention_ms / 2) {
            return None;
        }
        let samples: usize = part.iter().map(|(_, samples)| samples.len()).sum();
        self.connection.oracle.borrow_mut().contradictions += 1;
        let answer = self.connection.send(&part).await;
        self.connection.oracle.borrow_mut().contradictions -= 1;
        match answer {
            Answer::Refused(reasons) => {
                let refused: u64 = reasons.iter().map(|(_, count)| count).sum();
                assert_eq!(refused, samples as u64, "contradictions are refused: {reasons:?}");
                Some(Log::Takes)
            }
            Answer::Written => panic!("a contradiction was acknowledged"),
            Answer::NotDurable(LogError::Failed(_)) => Some(Log::Failed),
            Answer::NotDurable(
                LogError::Full(_) | LogError::Replaying | LogError::CheckpointOverdue(_) | LogError::Hung(_),
            ) => None,
        }
    }
}
