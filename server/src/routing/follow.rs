//! Parts that came back because a cell of theirs moved: split anew, and sent on to the new owners.
//!
//! A shard that doesn't own all of a part's cells takes in nothing of it and gives it back. The core
//! that sent it waits for a table that is newer than the part's, and sends it again by that.

use std::sync::Arc;

use futures::future::join_all;

use crate::message::{PartPool, ShardReply, ShardRequest, WritePart};
use crate::routing::{Answer, Overloaded, Router, Split};

/// Sends parts again until shards have taken all of them in, or refused them for another reason, and
/// gives their replies. `pause` waits a little for room. How long all of it may take is the caller's to
/// bound: the parts were never acknowledged.
pub async fn follow(
    router: &Router,
    pool: &PartPool,
    mut moved: Vec<WritePart>,
    pause: impl AsyncFn(),
) -> Vec<ShardReply> {
    let mut landed = Vec::new();
    while let Some(epoch) = moved.iter().map(|write| write.part.epoch).max() {
        router.newer_than(epoch).await;
        let mut answers = Vec::new();
        for write in moved.drain(..) {
            answers.extend(sent_again(router, pool, &write, &pause).await);
        }
        for reply in join_all(answers).await {
            match reply {
                ShardReply::Moved(write) => moved.push(*write),
                ShardReply::Written(_)
                | ShardReply::NotDurable(_)
                | ShardReply::MemoryFull
                | ShardReply::Read(_)
                | ShardReply::Stats(_)
                | ShardReply::Handoff(_)
                | ShardReply::Routed => landed.push(reply),
            }
        }
    }
    landed
}

async fn sent_again(
    router: &Router,
    pool: &PartPool,
    write: &WritePart,
    pause: &impl AsyncFn(),
) -> Vec<Answer> {
    loop {
        match send_again(router, pool, write) {
            Ok(answers) => return answers,
            Err(Overloaded) => pause().await,
        }
    }
}

/// All of it or nothing.
fn send_again(router: &Router, pool: &PartPool, write: &WritePart) -> Result<Vec<Answer>, Overloaded> {
    if !router.has_room() {
        return Err(Overloaded);
    }
    let mut split = Split::new(router.table(), pool);
    let mut samples = write.part.samples.as_slice();
    for series in &write.part.series {
        let own = samples.split_off(..series.samples as usize).expect("a part has its series' samples");
        split.series(series.id, series.labels, series.samples);
        own.iter().for_each(|sample| split.sample(*sample));
    }
    let sent = split.finish()?.map(|(shard, part)| {
        router.ask(shard, ShardRequest::Write(WritePart { body: Arc::clone(&write.body), part }))
    });
    sent.collect()
}
