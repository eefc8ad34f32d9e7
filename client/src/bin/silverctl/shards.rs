//! `silverctl shards` and `silverctl shard`: the shards of a node, which of them are to have cells, and
//! their checkpoints.

use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::BinaryBytes;
use serde_json::{Value as Json, json};
use silverback_client::{Admin, Shard};
use tokio::time::sleep;

use crate::connection::ConnectionArgs;
use crate::error::Done;
use crate::figures::{counted, grouped, of_core};
use crate::shown::ShownArgs;
use crate::table::{Table, TableValue};

/// How often it checks whether a checkpoint is written.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// List a node's shards.
#[derive(Debug, Args)]
pub(crate) struct ShardsArgs {
    #[command(flatten)]
    shown: ShownArgs,
}

/// Have a shard's cells leave it, let it have cells again, or have it write a checkpoint.
#[derive(Debug, Subcommand)]
pub(crate) enum ShardCommand {
    /// Move all cells but pinned ones off a shard, while traffic flows, and let none come.
    Drain {
        /// Its number.
        shard: u32,
    },
    /// Let a shard have cells again.
    Undrain {
        /// Its number.
        shard: u32,
    },
    /// Write a checkpoint now, so that a restart reads little of the log, and wait until it is on disk.
    Checkpoint {
        /// Of this shard only, not of all.
        shard: Option<u32>,
    },
}

/// Lists them.
pub(crate) async fn list(arguments: &ShardsArgs, connection: &ConnectionArgs) -> Done {
    let shards = connection.connect().await?.admin().shards().await?.shards;
    arguments.shown.print(&shards, table, to_json)
}

/// Does what the command says, and reports what it leads to.
pub(crate) async fn run(command: ShardCommand, connection: &ConnectionArgs) -> Done {
    let admin = connection.connect().await?.admin();
    match command {
        ShardCommand::Drain { shard } => {
            let draining = admin.drain_shard(shard).await?;
            let leaving = draining.cells - draining.pinned_cells.min(draining.cells);
            let leaving = counted(leaving.into(), "cell leaves", "cells leave");
            let stay = match draining.pinned_cells {
                0 => String::new(),
                1 => "; one is pinned and stays".to_owned(),
                pinned => format!("; {} are pinned and stay", grouped(pinned.into())),
            };
            println!("{leaving} shard {shard}{stay}");
        }
        ShardCommand::Undrain { shard } => {
            admin.undrain_shard(shard).await?;
            println!("shard {shard} takes cells again");
        }
        ShardCommand::Checkpoint { shard } => checkpoint(&admin, shard).await?,
    }
    Ok(())
}

/// Has one shard write a checkpoint, or all of them at the same time.
async fn checkpoint(admin: &Admin, only: Option<u32>) -> Done {
    let before = admin.shards().await?.shards;
    let numbers = only.map_or_else(|| before.iter().map(|shard| shard.number).collect(), |only| vec![only]);
    let mut waiting = Vec::new();
    for number in numbers {
        waiting.push((number, admin.write_checkpoint(number).await?));
    }
    while !waiting.is_empty() {
        sleep(LOOK_INTERVAL).await;
        let now = admin.shards().await?.shards;
        let mut still = Vec::new();
        for (number, wanted) in waiting {
            let shard = find(&now, number)?;
            if shard.checkpoints_failed > find(&before, number)?.checkpoints_failed {
                let failed = "could not write its checkpoint, and tries again: the node's log says why";
                return Err(format!("shard {number} {failed}").into());
            } else if shard.checkpoints < wanted {
                still.push((number, wanted));
            } else {
                let behind = BinaryBytes(shard.wal_since_checkpoint_bytes);
                println!("shard {number}: the checkpoint is on disk, with {behind} of log after it");
            }
        }
        waiting = still;
    }
    Ok(())
}

fn find(shards: &[Shard], number: u32) -> Done<&Shard> {
    let found = shards.iter().find(|shard| shard.number == number);
    found.ok_or_else(|| format!("the node doesn't list shard {number}").into())
}

fn table(shards: &[Shard]) -> Table {
    let mut table =
        Table::new(&["shard", "cpu", "core", "cells", "series", "memory", "WAL", "queued", "drained"]);
    for shard in shards {
        let texts = [
            shard.number.to_string(),
            cpu(shard),
            of_core(shard.core_busy_us_per_s),
            grouped(shard.cells.into()),
            grouped(shard.series),
            BinaryBytes(shard.memory_bytes).to_string(),
            BinaryBytes(shard.wal_bytes).to_string(),
            grouped(shard.queued),
            if shard.drained { "yes" } else { "" }.to_owned(),
        ];
        table.push(texts.into_iter().map(TableValue::plain).collect());
    }
    table
}

/// The CPU that a shard is pinned to, in words.
pub(crate) fn cpu(shard: &Shard) -> String {
    shard.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())
}

fn to_json(shard: &Shard) -> Json {
    json!({
        "shard": shard.number,
        "cpu": shard.cpu,
        "core_busy_us_per_s": shard.core_busy_us_per_s,
        "cells": shard.cells,
        "series": shard.series,
        "samples": shard.samples,
        "samples_refused": shard.samples_refused,
        "series_created": shard.series_created,
        "commits": shard.commits,
        "queued": shard.queued,
        "memory_bytes": shard.memory_bytes,
        "memory_bytes_max": shard.memory_bytes_max,
        "wal_bytes": shard.wal_bytes,
        "drained": shard.drained,
        "checkpoints": shard.checkpoints,
        "checkpoints_failed": shard.checkpoints_failed,
        "wal_since_checkpoint_bytes": shard.wal_since_checkpoint_bytes,
    })
}
