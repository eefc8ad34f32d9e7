//! `silverctl shards` and `silverctl shard`: the shards of a node, and which of them are to have cells.

use clap::{Args, Subcommand};
use indicatif::BinaryBytes;
use serde_json::{Value as Json, json};
use silverback_client::Shard;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::figures::{counted, grouped, of_core};
use crate::shown::ShownArgs;
use crate::table::{Table, Value};

/// List a node's shards.
#[derive(Debug, Args)]
pub struct ShardsArgs {
    #[command(flatten)]
    shown: ShownArgs,
}

/// Have a shard's cells leave it, or let it have cells again.
#[derive(Debug, Subcommand)]
pub enum ShardCommand {
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
}

/// Lists them.
pub async fn list(arguments: &ShardsArgs, connection: &ConnectionArgs) -> Result<(), Failure> {
    let shards = connection.connect().await?.admin().shards().await?.shards;
    arguments.shown.print(&shards, table, to_json)
}

/// Does what is told, and says what it leads to.
pub async fn run(command: ShardCommand, connection: &ConnectionArgs) -> Result<(), Failure> {
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
    }
    Ok(())
}

fn table(shards: &[Shard]) -> Table {
    let mut table =
        Table::new(&["shard", "cpu", "core", "cells", "series", "memory", "WAL", "queued", "drained"]);
    for shard in shards {
        let texts = [
            shard.number.to_string(),
            shard.cpu.to_string(),
            of_core(shard.core_busy_us_per_s),
            grouped(shard.cells.into()),
            grouped(shard.series),
            BinaryBytes(shard.memory_bytes).to_string(),
            BinaryBytes(shard.wal_bytes).to_string(),
            grouped(shard.queued),
            if shard.drained { "yes" } else { "" }.to_owned(),
        ];
        table.push(texts.into_iter().map(Value::plain).collect());
    }
    table
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
    })
}
