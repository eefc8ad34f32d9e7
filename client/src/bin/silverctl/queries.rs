//! `silverctl queries`: the PromQL queries that a node evaluates or that wait, as `/api/v1/status/active_queries` lists
//! them, and the end of one of them.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value as Json;
use silverback_client::RequestError;
use silverback_model::printable::Printable;

use crate::answers;
use crate::connection::ConnectionArgs;
use crate::error::{CommandError, Done};
use crate::figures::grouped;
use crate::shown::ShownArgs;
use crate::table::{Column, Table, TableValue};

const PATH: &str = "/api/v1/status/active_queries";

/// Show the PromQL queries that a node evaluates and those that wait, or cancel one.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "Those that are evaluated come first, and of these the oldest. In a terminal, the expressions are cut \
                       at its edge; --output json has their first KiB. To cancel one takes the scope admin, and the \
                       address of --admin-listen where the node has one.

Example: silverctl queries cancel 0-17"
)]
pub(crate) struct QueriesArgs {
    #[command(flatten)]
    shown: ShownArgs,
    #[command(subcommand)]
    command: Option<QueriesCommand>,
}

#[derive(Debug, Subcommand)]
enum QueriesCommand {
    /// Cancel a query: it ends at once on all cores, and its client gets an error.
    Cancel {
        /// Its id, as the list has it.
        id: String,
    },
}

#[derive(Debug, Deserialize)]
struct QueryList {
    /// As they came, for programs.
    queries: Vec<Json>,
    #[serde(default)]
    omitted: u64,
}

/// One of them. What a node leaves out is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Query {
    id: String,
    state: String,
    query: String,
    is_cut: bool,
    active_seconds: f64,
    samples_read: u64,
    memory_bytes: u64,
    peer: String,
    user: String,
}

/// A refusal.
#[derive(Debug, Deserialize)]
struct ErrorAnswer {
    error: String,
}

/// Asks and prints, or cancels.
pub(crate) async fn run(arguments: &QueriesArgs, connection: &ConnectionArgs) -> Done {
    match &arguments.command {
        None => list(arguments.shown, connection).await,
        Some(QueriesCommand::Cancel { id }) => cancel(id, connection).await,
    }
}

async fn list(shown: ShownArgs, connection: &ConnectionArgs) -> Done {
    let QueryList { queries, omitted } = answers::get(PATH, connection).await?;
    let queries = answers::read_each(queries)?;
    shown.print_cut(&queries, table, |(_, json)| json.clone())?;
    match (queries.is_empty(), omitted) {
        (true, 0) => eprintln!("no query is active"),
        (_, 0) => {}
        (_, omitted) => eprintln!("and {} more", grouped(omitted)),
    }
    Ok(())
}

async fn cancel(id: &str, connection: &ConnectionArgs) -> Done {
    // What can't be in a path isn't an id.
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(CommandError::Usage(format!(
            "{id:?} isn't a query's id; `silverctl queries` lists them"
        )));
    }
    let body = connection.connect().await?.delete(&format!("{PATH}/{id}")).await.map_err(said)?;
    let Query { query, .. } = answers::read(&body)?;
    println!("query {} is cancelled: {}", Printable(id), Printable(&query));
    Ok(())
}

/// A node that knows no such query says so in JSON; one that knows no such request at all, otherwise.
fn said(error: RequestError) -> CommandError {
    let words = match &error {
        RequestError::Failed { message, .. } => {
            serde_json::from_str(message).ok().map(|ErrorAnswer { error }| error)
        }
        _other => None,
    };
    words.map_or_else(|| error.into(), CommandError::from)
}

fn table(queries: &[(Query, Json)]) -> Table {
    let mut table = Table::of(vec![
        Column::of_words("id"),
        Column::of_words("state"),
        Column::of_numbers("for"),
        Column::of_numbers("samples"),
        Column::of_numbers("memory"),
        Column::of_words("from"),
        Column::of_words("query"),
    ]);
    for (query, _) in queries {
        let more = if query.is_cut { "…" } else { "" };
        let texts = [
            Printable(&query.id).to_string(),
            Printable(&query.state).to_string(),
            format!("{:.1} s", query.active_seconds),
            grouped(query.samples_read),
            indicatif::BinaryBytes(query.memory_bytes).to_string(),
            from(query),
            format!("{}{more}", Printable(&query.query)),
        ];
        table.push(texts.into_iter().map(TableValue::plain).collect());
    }
    table
}

/// Who asks; a dash where nobody knows.
fn from(query: &Query) -> String {
    match (query.user.as_str(), query.peer.as_str()) {
        ("", "") => "–".to_owned(),
        ("", peer) => Printable(peer).to_string(),
        (user, "") => Printable(user).to_string(),
        (user, peer) => format!("{}@{}", Printable(user), Printable(peer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_line_whatever_stands_in_it() {
        let json = serde_json::json!({
            "id": "0-17", "state": "running", "query": "up{a=\"\u{1b}[2J\n\u{202e}\"}", "isCut": true,
            "activeSeconds": 12.34, "samplesRead": 12_345, "memoryBytes": 3 << 20, "peer": "10.0.0.1", "user": "al\nice",
            "later": [1],
        });
        let read = |json: &Json| (Query::deserialize(json).expect("a query"), json.clone());
        let queued = serde_json::json!({"id": "1-2", "state": "queued", "query": "up"});
        let lines: Vec<_> = table(&[read(&json), read(&queued)]).lines().collect();
        assert_eq!(lines[0], "id    state       for  samples    memory  from              query");
        let first =
            "0-17  running  12.3 s   12,345  3.00 MiB  al\\nice@10.0.0.1  up{a=\"\\u001b[2J\\n\\u202e\"}…";
        assert_eq!(lines[1], first);
        assert_eq!(lines[2], "1-2   queued    0.0 s        0       0 B  –                 up");
        assert_eq!(lines.len(), 3);
    }
}
