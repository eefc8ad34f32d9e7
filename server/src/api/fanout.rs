//! One question to all shards, and their answers as one.

use std::cmp::{Ordering, Reverse};
use std::collections::VecDeque;
use std::rc::Rc;

use futures::future::join_all;

use crate::api::core::Core;
use crate::limits::FETCH_BYTES;
use crate::message::{
    CellStats, CoreStats, Question, ReadError, ReadReply, ReadRequest, Remaining, SelectContent, SelectId,
    SelectedSeries, Selection, ShardReply, ShardRequest,
};
use crate::model::ShardId;
use crate::routing::{Answer, Overloaded};

/// Why a question to the shards wasn't answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FanoutError {
    /// A shard has too much under way.
    #[error(transparent)]
    Overloaded(#[from] Overloaded),
    /// A shard refused.
    #[error(transparent)]
    Refused(#[from] ReadError),
}

/// How often a read is asked that met a cell's leaving a shard. One epoch later it is settled.
const TRIES: usize = 4;

/// Asks every shard the same and gives their answers in the shards' order.
pub async fn ask_all(core: &Core, request: &ReadRequest) -> Result<Vec<ReadReply>, FanoutError> {
    for _ in 1..TRIES {
        match ask_all_once(core, request).await.into_iter().collect() {
            Err(FanoutError::Refused(ReadError::Moved)) => {}
            answered => return answered,
        }
    }
    ask_all_once(core, request).await.into_iter().collect()
}

/// All of them by one epoch: so each cell is answered for by one shard, though it moves meanwhile.
async fn ask_all_once(core: &Core, request: &ReadRequest) -> Vec<Result<ReadReply, FanoutError>> {
    let epoch = core.router.read_epoch();
    let ask =
        |shard| core.router.ask(shard, ShardRequest::Ask(Question::Read(epoch, Box::new(request.clone()))));
    let asked: Vec<Result<Answer, Overloaded>> = core.router.shards().map(ask).collect();
    let answered = asked.into_iter().map(|answer| async { read_reply(answer?.await) });
    join_all(answered).await
}

/// Every core's counters.
pub async fn stats(core: &Core) -> Result<Vec<CoreStats>, FanoutError> {
    let ask = |shard| core.router.ask(shard, ShardRequest::Ask(Question::Stats));
    let answers: Vec<Answer> = core.router.shards().map(ask).collect::<Result<_, _>>()?;
    let stats = |reply| match reply {
        ShardReply::Stats(stats) => *stats,
        ShardReply::Read(_)
        | ShardReply::Written(_)
        | ShardReply::NotDurable(_)
        | ShardReply::MemoryFull
        | ShardReply::Handoff(_)
        | ShardReply::CheckpointAsked(_)
        | ShardReply::Routed => wrong_kind(),
    };
    Ok(join_all(answers).await.into_iter().map(stats).collect())
}

/// Asks a shard for a checkpoint; tells its count of them once that one is on disk.
pub async fn checkpoint(core: &Core, shard: ShardId) -> Result<u64, FanoutError> {
    match core.router.ask(shard, ShardRequest::Ask(Question::Checkpoint))?.await {
        ShardReply::CheckpointAsked(count) => Ok(count),
        ShardReply::Stats(_)
        | ShardReply::Read(_)
        | ShardReply::Written(_)
        | ShardReply::NotDurable(_)
        | ShardReply::MemoryFull
        | ShardReply::Handoff(_)
        | ShardReply::Routed => wrong_kind(),
    }
}

/// Names or values of all shards, ascending, each once.
pub async fn strings(core: &Core, request: &ReadRequest) -> Result<Vec<Box<str>>, FanoutError> {
    let mut all = Vec::new();
    for reply in ask_all(core, request).await? {
        match reply {
            ReadReply::Strings(strings) => all.extend(strings),
            ReadReply::Selected(..)
            | ReadReply::Series(..)
            | ReadReply::Closed
            | ReadReply::Cardinality(_)
            | ReadReply::Cells(_) => wrong_kind(),
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// The cells that hold a series, by number, each with its shard.
pub async fn cells(core: &Core) -> Result<Vec<(ShardId, CellStats)>, FanoutError> {
    let of_shard = |reply| match reply {
        ReadReply::Cells(cells) => cells,
        ReadReply::Selected(..)
        | ReadReply::Series(..)
        | ReadReply::Closed
        | ReadReply::Strings(_)
        | ReadReply::Cardinality(_) => wrong_kind(),
    };
    let replies = ask_all(core, &ReadRequest::Cells).await?;
    Ok(merged(core.router.shards().zip(replies.into_iter().map(of_shard))))
}

/// One shard answers for a cell's series; its load is what all shards remember of it.
fn merged(of_shards: impl Iterator<Item = (ShardId, Vec<CellStats>)>) -> Vec<(ShardId, CellStats)> {
    let mut all: Vec<(ShardId, CellStats)> =
        of_shards.flat_map(|(shard, cells)| cells.into_iter().map(move |stats| (shard, stats))).collect();
    // The one that answers comes first.
    all.sort_unstable_by_key(|(_, stats)| (stats.cell, Reverse(stats.series)));
    all.dedup_by(|(_, other), (_, answered)| {
        let is_same = other.cell == answered.cell;
        if is_same {
            answered.samples_per_s += other.samples_per_s;
            answered.busy_us_per_s += other.busy_us_per_s;
        }
        is_same
    });
    all.retain(|(_, stats)| stats.series > 0);
    all
}

fn read_reply(reply: ShardReply) -> Result<ReadReply, FanoutError> {
    match reply {
        ShardReply::Read(reply) => Ok(*reply?),
        ShardReply::Stats(_)
        | ShardReply::Written(_)
        | ShardReply::NotDurable(_)
        | ShardReply::MemoryFull
        | ShardReply::Handoff(_)
        | ShardReply::CheckpointAsked(_)
        | ShardReply::Routed => wrong_kind(),
    }
}

/// A shard answers in kind; anything else is a broken invariant.
fn wrong_kind<T>() -> T {
    unreachable!("a shard answered another question")
}

/// The series of all shards that match, in the order of their labels, batch after batch. Each shard
/// is asked for its next batch only when its last one is used up; dropping this closes the selects.
pub struct SeriesStream {
    core: Rc<Core>,
    shards: Vec<ShardStream>,
}

struct ShardStream {
    shard: ShardId,
    select: Option<SelectId>,
    batch: VecDeque<SelectedSeries>,
}

impl SeriesStream {
    /// Opens the select on every shard.
    pub async fn open(
        core: Rc<Core>,
        selection: Selection,
        content: SelectContent,
    ) -> Result<Self, FanoutError> {
        let request = ReadRequest::Select(selection, content);
        for _ in 1..TRIES {
            match Self::open_once(&core, &request).await {
                Err(FanoutError::Refused(ReadError::Moved)) => {}
                opened => return opened,
            }
        }
        Self::open_once(&core, &request).await
    }

    async fn open_once(core: &Rc<Core>, request: &ReadRequest) -> Result<Self, FanoutError> {
        let answers = ask_all_once(core, request).await;
        // Opened selects are in the stream before an error is told, so that its drop closes them.
        let mut stream = Self { core: Rc::clone(core), shards: Vec::new() };
        let mut failed = None;
        for (shard, reply) in core.router.shards().zip(answers) {
            match reply {
                Ok(ReadReply::Selected(select, _)) => {
                    stream.shards.push(ShardStream { shard, select: Some(select), batch: VecDeque::new() });
                }
                Ok(_) => wrong_kind(),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(stream), Err)
    }

    /// The next series; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<SelectedSeries>, FanoutError> {
        let core = Rc::clone(&self.core);
        for shard in &mut self.shards {
            shard.fill(&core).await?;
        }
        self.shards.retain(|shard| !shard.batch.is_empty());
        let least = self.shards.iter_mut().min_by(|a, b| a.compare(b));
        Ok(least.and_then(|shard| shard.batch.pop_front()))
    }
}

impl ShardStream {
    /// Fetches until the batch holds something or the select is at its end.
    async fn fill(&mut self, core: &Core) -> Result<(), FanoutError> {
        while self.batch.is_empty()
            && let Some(select) = self.select
        {
            let request = ReadRequest::Fetch { select, bytes: FETCH_BYTES };
            let request = read(core, request);
            let answer = core.router.ask(self.shard, request)?;
            let ReadReply::Series(series, remaining) = read_reply(answer.await)? else { wrong_kind() };
            self.batch = series.into();
            if remaining == Remaining::Nothing {
                self.select = None;
            }
        }
        Ok(())
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.batch.front().map(|s| &s.labels).cmp(&other.batch.front().map(|s| &s.labels))
    }
}

/// A read of what all reads of this moment see.
fn read(core: &Core, request: ReadRequest) -> ShardRequest {
    ShardRequest::Ask(Question::Read(core.router.read_epoch(), Box::new(request)))
}

impl Drop for SeriesStream {
    fn drop(&mut self) {
        for shard in &self.shards {
            if let Some(select) = shard.select {
                let close = read(&self.core, ReadRequest::Close(select));
                // Refused: the select then closes by itself after its idle time.
                drop(self.core.router.ask(shard.shard, close));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CellId;

    #[test]
    fn a_cell_is_its_owner_s_with_the_load_that_all_shards_remember() {
        let stats = |cell, series, busy_us_per_s| CellStats {
            cell: CellId(cell),
            series,
            samples: 1,
            bytes: 0,
            samples_per_s: 10 * busy_us_per_s,
            busy_us_per_s,
        };
        let first = vec![stats(1, 0, 3), stats(2, 5, 4), stats(3, 0, 9)];
        let second = vec![stats(1, 7, 20), stats(9, 1, 0)];
        let merged = merged([(ShardId(0), first), (ShardId(1), second)].into_iter());
        let told: Vec<_> = merged
            .iter()
            .map(|(shard, stats)| (stats.cell.0, shard.0, stats.series, stats.busy_us_per_s))
            .collect();
        assert_eq!(told, [(1, 1, 7, 23), (2, 0, 5, 4), (9, 1, 1, 0)]);
        assert_eq!(merged[0].1.samples_per_s, 230);
    }
}
