//! Series that came back because their cell moved: split again, and sent on to the new owners.
//!
//! A shard accepts those series of a part whose cells it owns, and gives back the others. The core
//! that sent them waits for a table that is newer than the part's, and sends them again by that.

use std::sync::Arc;

use futures::future::join_all;

use crate::routing::{Overloaded, ReplyFuture, Router, SharedReservation, Split};
use silverback_storage::message::{MovedSeries, PartPool, PartSeries, WritePart, WriteReply};

/// Sends series again until shards have taken all of them in, or refused them for another reason, and
/// gives their replies. `room` is their request's; `pause` waits a little for some in a lane. How long
/// all of it may take is the caller's to bound: nothing of them was acknowledged.
pub async fn follow(
    router: &Router,
    pool: &PartPool,
    mut moved: Vec<MovedSeries>,
    room: &SharedReservation,
    pause: impl AsyncFn(),
) -> Vec<WriteReply> {
    let mut completed = Vec::new();
    while let Some(epoch) = moved.iter().map(|moved| moved.parts.epoch).max() {
        router.newer_than(epoch).await;
        let mut answers = Vec::new();
        for series in moved.drain(..) {
            answers.extend(sent_again(router, pool, &series, room, &pause).await);
        }
        for mut reply in join_all(answers).await {
            moved.extend(take_moved(&mut reply));
            completed.push(reply);
        }
    }
    completed
}

/// What of a part came back with a reply.
pub fn take_moved(reply: &mut WriteReply) -> Option<MovedSeries> {
    match reply {
        WriteReply::Written(ack) => ack.moved.take().map(|moved| *moved),
        WriteReply::NotDurable(_) | WriteReply::MemoryFull => None,
    }
}

async fn sent_again(
    router: &Router,
    pool: &PartPool,
    moved: &MovedSeries,
    room: &SharedReservation,
    pause: &impl AsyncFn(),
) -> Vec<ReplyFuture<WritePart>> {
    loop {
        match send_again(router, pool, moved, room) {
            Ok(answers) => return answers,
            Err(Overloaded) => pause().await,
        }
    }
}

/// All of it or nothing.
fn send_again(
    router: &Router,
    pool: &PartPool,
    moved: &MovedSeries,
    room: &SharedReservation,
) -> Result<Vec<ReplyFuture<WritePart>>, Overloaded> {
    if !router.has_room() {
        return Err(Overloaded);
    }
    let mut split = Split::new(router.table(), pool);
    for (series, samples) in moved.parts.part_samples().each_series() {
        // Of another shard now, which is asked where it has it.
        split.part_series(PartSeries { cached: series.cached.forgotten(), ..*series });
        for (sample, start_ms) in samples {
            split.sample(sample);
            if start_ms != 0 {
                split.start_timestamp(start_ms);
            }
        }
    }
    moved.parts.histograms.iter().for_each(|histogram| split.histogram(*histogram));
    moved.parts.exemplars.iter().for_each(|exemplar| split.exemplar(*exemplar));
    let sent = split.finish()?.map(|(shard, part)| {
        router.ask_to_write(shard, WritePart { body: Arc::clone(&moved.body), part }, room)
    });
    sent.collect()
}
