//! `silverctl rebalance`: how a node's cells move by themselves, and a pause in that.

use clap::Subcommand;
use serde_json::{Value as Json, json};
use silverback_client::{Motion, Rebalance};

use crate::connection::ConnectionArgs;
use crate::error::Done;
use crate::figures::grouped;
use crate::shown::ShownArgs;
use crate::table::{Table, TableValue};

/// Look at how cells move by themselves, pause that, or resume it.
#[derive(Debug, Subcommand)]
pub(crate) enum RebalanceCommand {
    /// Show whether cells move by themselves, how even the loads are, and what was moved.
    Status(ShownArgs),
    /// Let no cell move by itself, not off a drained shard either, until it is resumed or the node ends.
    Pause,
    /// Let cells move by themselves again.
    Resume,
}

/// Does what the command says.
pub(crate) async fn run(command: RebalanceCommand, connection: &ConnectionArgs) -> Done {
    let admin = connection.connect().await?.admin();
    match command {
        RebalanceCommand::Status(shown) => shown.print(&[admin.rebalance().await?], table, to_json)?,
        RebalanceCommand::Pause => {
            admin.pause_rebalance().await?;
            println!("no cell moves by itself now");
        }
        RebalanceCommand::Resume => {
            admin.resume_rebalance().await?;
            println!("cells move by themselves again");
        }
    }
    Ok(())
}

fn table(rebalances: &[Rebalance]) -> Table {
    let mut table =
        Table::new(&["state", "imbalance", "moves at", "planned", "done", "failed", "pinned", "drained"]);
    for rebalance in rebalances {
        let drained: Vec<_> = rebalance.drained_shards.iter().map(u32::to_string).collect();
        let texts = [
            state(rebalance.motion).to_owned(),
            format!("{:.2}", rebalance.imbalance),
            format!("{:.2}", rebalance.imbalance_max),
            grouped(rebalance.moves_planned),
            grouped(rebalance.moves_done),
            grouped(rebalance.moves_failed),
            grouped(rebalance.pinned_cells.len() as u64),
            if drained.is_empty() { "none".to_owned() } else { drained.join(",") },
        ];
        table.push(texts.into_iter().map(TableValue::plain).collect());
    }
    table
}

fn to_json(rebalance: &Rebalance) -> Json {
    json!({
        "state": state(rebalance.motion),
        "imbalance": rebalance.imbalance,
        "imbalance_max": rebalance.imbalance_max,
        "moves_planned": rebalance.moves_planned,
        "moves_done": rebalance.moves_done,
        "moves_failed": rebalance.moves_failed,
        "pinned_cells": rebalance.pinned_cells,
        "drained_shards": rebalance.drained_shards,
    })
}

fn state(motion: Motion) -> &'static str {
    match motion {
        Motion::Running => "running",
        Motion::Paused => "paused",
        Motion::Off => "off",
    }
}
