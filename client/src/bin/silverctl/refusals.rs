//! `silverctl refusals`: what a node refused, from whom and why, as `/api/v1/status/refusals` lists it.

use clap::Args;
use serde::Deserialize;
use serde_json::Value as Json;
use silverback_model::printable::Printable;

use crate::answers;
use crate::connection::ConnectionArgs;
use crate::error::Done;
use crate::figures::grouped;
use crate::shown::ShownArgs;
use crate::table::{Column, Table, TableValue};

const PATH: &str = "/api/v1/status/refusals";

/// Show what a node refused recently: whose, why, how many samples (or requests, where it says so), and the first.
#[derive(Debug, Args)]
#[command(
    after_long_help = "A line for each peer, job and reason, the one that was refused something last the first. What \
                       the reasons mean and what helps is in docs/api.md under \"Sending to it\". In a terminal, \
                       the examples are cut at its edge; --output json has them whole.

Example: silverctl refusals --output json"
)]
pub(crate) struct RefusalsArgs {
    #[command(flatten)]
    shown: ShownArgs,
}

/// One of them. What a node leaves out is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LoggedRefusal {
    peer: String,
    job: String,
    reason: String,
    /// What is counted: samples, unless the node says otherwise.
    unit: String,
    count: u64,
    first: Example,
    last_time: String,
}

/// The first that was refused so.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Example {
    text: String,
}

/// Asks and prints.
pub(crate) async fn run(arguments: &RefusalsArgs, connection: &ConnectionArgs) -> Done {
    let refusals = answers::read_each(answers::get(PATH, connection).await?)?;
    arguments.shown.print_cut(&refusals, table, |(_, json)| json.clone())?;
    if refusals.is_empty() {
        eprintln!("nothing was refused");
    }
    Ok(())
}

fn table(refusals: &[(LoggedRefusal, Json)]) -> Table {
    let mut table = Table::of(vec![
        Column::of_words("peer"),
        Column::of_words("job"),
        Column::of_words("reason"),
        Column::of_numbers("count"),
        Column::of_words("last seen"),
        Column::of_words("first example"),
    ]);
    for (refusal, _) in refusals {
        let texts = [
            known(&refusal.peer),
            known(&refusal.job),
            known(&refusal.reason),
            match refusal.unit.as_str() {
                "" | "samples" => grouped(refusal.count),
                unit => format!("{} {}", grouped(refusal.count), Printable(unit)),
            },
            known(&refusal.last_time),
            Printable(&refusal.first.text).to_string(),
        ];
        table.push(texts.into_iter().map(TableValue::plain).collect());
    }
    table
}

/// Whatever is in it, on its line; a dash where nobody knows.
fn known(text: &str) -> String {
    if text.is_empty() { "–".to_owned() } else { Printable(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_line_whatever_stands_in_it() {
        let json = serde_json::json!({
            "peer": "10.0.0.1", "job": "", "reason": "out_of_order", "count": 12_345,
            "first": {"time": "2026-11-22T18:00:00.123Z", "text": "up{a=\"\u{1b}[2J\n\u{202e}\"}"},
            "lastTime": "2026-11-22T18:01:00.000Z", "later": [1],
        });
        let refused = |json: &Json| (LoggedRefusal::deserialize(json).expect("a refusal"), json.clone());
        let requests = serde_json::json!({"peer": "::1", "reason": "busy", "unit": "requests", "count": 3});
        let lines: Vec<_> = table(&[refused(&json), refused(&requests)]).lines().collect();
        assert_eq!(
            lines[0],
            "peer      job  reason             count  last seen                 first example"
        );
        assert_eq!(
            lines[1],
            r#"10.0.0.1  –    out_of_order      12,345  2026-11-22T18:01:00.000Z  up{a="\u001b[2J\n\u202e"}"#
        );
        assert_eq!(lines[2], "::1       –    busy          3 requests  –");
        assert_eq!(lines.len(), 3);
    }
}
