//! Clients of the simulated node: one request at a time, or a stream with several batches in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use silverback::routing::{Overloaded, ReplyFuture, SharedReservation, Split, follow, take_moved};
use silverback_host::Host;
use silverback_model::limits::CELL_COUNT;
use silverback_model::{CellId, Epoch, RefusedReason, SeriesId, SeriesIdHasher};
use silverback_storage::message::{
    LabelSource, LabelSpan, MessageSpan, PartHistogram, StreamId, WriteBody, WritePart, WriteReply,
};
use silverback_storage::wal::{LogError, Lsn};

use crate::cells::life::Moves;
use crate::cells::node::{Acceptor, Defect, Streams};
use crate::fleet::{Fleet, Scraped};
use crate::histograms;
use crate::oracle::{Deletions, Oracle};
use crate::random::Random;
use crate::trace::Trace;

/// All series lie in so few cells that each has some.
const CELLS: usize = 5;
/// Batches that a stream has in flight.
const WINDOW: usize = 6;
/// How often a batch is sent again that a full disk refused.
const RETRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// One of the few cells.
pub(super) fn cell(number: usize) -> CellId {
    CellId((number % CELLS * (CELL_COUNT / CELLS)) as u16)
}

/// The id that labels hash to, moved to one of the few cells.
fn series_id(hasher: SeriesIdHasher, block: &[u8]) -> SeriesId {
    let id = hasher.hash_canonical(block).0;
    let shift = 128 - CELL_COUNT.trailing_zeros();
    SeriesId(u128::from(cell((id >> shift) as usize).0) << shift | id & ((1 << shift) - 1))
}

/// One sender.
#[derive(Clone)]
pub(super) struct Sender {
    pub acceptor: Acceptor,
    pub fleet: Rc<RefCell<Fleet>>,
    pub oracle: Rc<RefCell<Oracle>>,
    pub clock_ms: Rc<Cell<i64>>,
    pub retention_ms: i64,
    /// Whether what was sent is sent again.
    pub sends_again: bool,
    pub moves: Rc<Cell<Moves>>,
    pub trace: Trace,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Taken,
    Full,
    Failed,
    /// Some of it is refused, as what a deletion made too old may be.
    Undecided,
}

/// A batch of a stream that is in flight.
struct Flying {
    batch: Vec<Scraped>,
    epoch: Epoch,
    answers: Vec<ReplyFuture<WritePart>>,
}

impl Sender {
    /// Sends so many batches, each once the one before is answered. Some are sent again later.
    pub(super) async fn one_by_one(self, mut random: Random, batches: usize) {
        let mut recent: VecDeque<Vec<Scraped>> = VecDeque::new();
        let mut recent_since = self.deletions();
        for _ in 0..batches {
            self.idle(&mut random).await;
            // Of what may be gone, or go, nobody knows how it is answered.
            if self.may_be_deleted_since(recent_since) {
                recent.clear();
            }
            recent_since = self.deletions();
            let is_retry = !recent.is_empty() && random.one_in(4);
            let batch = if is_retry {
                recent[random.below(recent.len())].clone()
            } else {
                self.next_batch(&mut random)
            };
            match self.write(&batch).await {
                Outcome::Taken => recent.push_front(batch),
                Outcome::Full | Outcome::Undecided => {}
                Outcome::Failed => return,
            }
            recent.truncate(8);
        }
    }

    fn deletions(&self) -> Deletions {
        self.oracle.borrow().deletions()
    }

    fn may_be_deleted_since(&self, deletions: Deletions) -> bool {
        deletions != self.deletions() || deletions.is_under_way()
    }

    async fn write(&self, batch: &[Scraped]) -> Outcome {
        let deletions = self.deletions();
        for _ in 0..RETRIES {
            let answers = self.send(batch).await;
            match self.land(batch, answers, deletions).await {
                Outcome::Full => self.acceptor.host.sleep(Duration::from_millis(200)).await,
                outcome => return outcome,
            }
        }
        Outcome::Full
    }

    /// Sends batches as a stream does: several in flight, none behind others that were split by another
    /// table, and what came back of the oldest sent on before anything of a later one.
    pub(super) async fn streamed<D: Defect>(self, mut random: Random, batches: usize) {
        let mut flying: VecDeque<Flying> = VecDeque::new();
        let stream = match D::STREAMS {
            Streams::InOrder | Streams::Short => Some(StreamId::issue()),
            Streams::Unnamed => None,
        };
        for _ in 0..batches {
            self.idle(&mut random).await;
            let batch = self.next_batch(&mut random);
            while flying.len() >= random.within(1..WINDOW + 1) {
                if !self.land_first(&mut flying).await {
                    return;
                }
            }
            self.note_sent(&batch);
            let (epoch, answers) = loop {
                match D::STREAMS {
                    Streams::InOrder | Streams::Unnamed => {
                        while self.is_behind_another_table(&flying) {
                            if !self.land_first(&mut flying).await {
                                return;
                            }
                        }
                    }
                    Streams::Short => {}
                }
                match self.offer(&batch, stream) {
                    Ok(sent) => break sent,
                    Err(Overloaded) => self.acceptor.host.sleep(PAUSE).await,
                }
            };
            flying.push_back(Flying { batch, epoch, answers });
        }
        while !flying.is_empty() && self.land_first(&mut flying).await {}
    }

    fn is_behind_another_table(&self, flying: &VecDeque<Flying>) -> bool {
        let epoch = self.acceptor.router.table().epoch();
        flying.iter().any(|flying| flying.epoch != epoch)
    }

    /// Returns whether the stream goes on.
    async fn land_first(&self, flying: &mut VecDeque<Flying>) -> bool {
        let Some(first) = flying.pop_front() else { return true };
        // Each sample of a stream is new: no deletion makes it one that comes too late.
        self.land(&first.batch, first.answers, self.deletions()).await == Outcome::Taken
    }

    async fn idle(&self, random: &mut Random) {
        match random.below(20) {
            0 => self.fleet.borrow_mut().churn(random),
            1 | 2 => {
                let pause_us = random.by_magnitude(1 << 20) as u64;
                self.acceptor.host.sleep(Duration::from_micros(pause_us)).await;
            }
            _ => {}
        }
    }

    fn next_batch(&self, random: &mut Random) -> Vec<Scraped> {
        let now_ms = self.clock_ms.get() + random.within(1..15_000) as i64;
        self.clock_ms.set(now_ms);
        self.fleet.borrow_mut().scrape(random, now_ms)
    }

    fn note_sent(&self, batch: &[Scraped]) {
        let mut oracle = self.oracle.borrow_mut();
        for (labels, samples) in batch {
            samples.iter().for_each(|sample| oracle.sent(labels, *sample, Lsn(0)));
        }
    }

    async fn send(&self, batch: &[Scraped]) -> Vec<ReplyFuture<WritePart>> {
        self.note_sent(batch);
        loop {
            match self.offer(batch, None) {
                Ok((_, answers)) => return answers,
                Err(Overloaded) => self.acceptor.host.sleep(PAUSE).await,
            }
        }
    }

    /// Sends a batch's parts, and returns the epoch by which they were split.
    fn offer(
        &self,
        batch: &[Scraped],
        stream: Option<StreamId>,
    ) -> Result<(Epoch, Vec<ReplyFuture<WritePart>>), Overloaded> {
        let router = &self.acceptor.router;
        let epoch = router.table().epoch();
        let hasher = SeriesIdHasher::new(1, "");
        let (mut bytes, mut split) = (Vec::new(), Split::new(router.table(), &self.acceptor.pool));
        for (labels, samples) in batch {
            let block = labels.to_canonical();
            let span = LabelSpan::new(LabelSource::Wire, bytes.len(), block.len());
            bytes.extend_from_slice(&block);
            let id = series_id(hasher, &block);
            if histograms::is_of_histograms(labels) {
                for sample in samples {
                    let start = bytes.len();
                    histograms::put_message(*sample, &mut bytes);
                    let message = MessageSpan::of_body(start, bytes.len() - start);
                    split.histogram(PartHistogram { id, labels: span, message });
                }
                continue;
            }
            split.series(id, span, samples.len() as u32);
            for sample in samples {
                split.sample(*sample);
                if sample.timestamp_ms % 3 == 0 {
                    split.start_timestamp(sample.timestamp_ms - 100);
                }
            }
        }
        let body = Arc::new(WriteBody { bytes: bytes.into(), ..WriteBody::default() });
        let parts = split.finish()?;
        let asked = parts.map(|(shard, mut part)| {
            part.stream = stream;
            router.ask_to_write(
                shard,
                WritePart { body: Arc::clone(&body), part },
                &SharedReservation::default(),
            )
        });
        Ok((epoch, asked.collect::<Result<_, _>>()?))
    }

    /// Waits for a batch's answers, and sends on what came back.
    async fn land(
        &self,
        batch: &[Scraped],
        answers: Vec<ReplyFuture<WritePart>>,
        since: Deletions,
    ) -> Outcome {
        let (mut moved, mut completed) = (Vec::new(), Vec::new());
        for mut reply in join_all(answers).await {
            moved.extend(take_moved(&mut reply));
            completed.push(reply);
        }
        let mut moves = self.moves.get();
        moves.sent_again += moved.len() as u64;
        self.moves.set(moves);
        let pause = async || self.acceptor.host.sleep(PAUSE).await;
        completed.extend(
            follow(&self.acceptor.router, &self.acceptor.pool, moved, &SharedReservation::default(), pause)
                .await,
        );
        let outcomes: Vec<_> = completed.iter().map(|reply| self.outcome(batch, reply, since)).collect();
        let outcome = [Outcome::Failed, Outcome::Full, Outcome::Undecided]
            .into_iter()
            .find(|bad| outcomes.contains(bad));
        self.trace.event("batch", [batch.len() as u64, 0], format_args!("{outcome:?}"));
        outcome.unwrap_or_else(|| {
            let mut oracle = self.oracle.borrow_mut();
            // A sample that was too old is in none of the answers' favour: see `outcome`.
            let oldest_ms = self.horizon_ms(&oracle);
            for (labels, samples) in batch {
                let young = samples.iter().filter(|sample| sample.timestamp_ms >= oldest_ms);
                young.for_each(|sample| oracle.acknowledged(labels, *sample, Lsn(0)));
            }
            Outcome::Taken
        })
    }

    fn outcome(&self, batch: &[Scraped], reply: &WriteReply, since: Deletions) -> Outcome {
        match reply {
            WriteReply::Written(ack) => {
                let horizon_ms = self.horizon_ms(&self.oracle.borrow());
                let times = batch.iter().flat_map(|(_, samples)| samples).map(|s| s.timestamp_ms);
                let aged = times.filter(|time_ms| *time_ms < horizon_ms).count() as u64;
                let counts = ack.refusals.as_ref().map(|refusals| refusals.counts).unwrap_or_default();
                // A sample that is sent again may have been dropped by retention.
                let overtaken = counts.get(RefusedReason::OutOfOrder);
                assert!(overtaken == 0 || self.sends_again, "overtaken: {:?}", ack.refusals);
                let refused = ack.refusals.as_ref().map_or(0, |refusals| refusals.counts.total());
                // What is sent again may lie before what a deletion left: such a refusal isn't one of the aged.
                if (refused > aged || overtaken > 0) && self.may_be_deleted_since(since) {
                    return Outcome::Undecided;
                }
                assert!(refused <= aged, "{aged} of a batch are too old: {:?}", ack.refusals);
                Outcome::Taken
            }
            WriteReply::NotDurable(LogError::Full(_)) => Outcome::Full,
            WriteReply::NotDurable(LogError::Failed(_)) => Outcome::Failed,
            other => panic!("a write is answered with {other:?}"),
        }
    }

    /// What is older may be refused, or gone.
    fn horizon_ms(&self, oracle: &Oracle) -> i64 {
        (self.clock_ms.get() - self.retention_ms).max(oracle.horizon_ms())
    }
}
