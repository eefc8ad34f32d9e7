//! `silverctl metadata`: what senders say of metrics, as `/api/v1/metadata` returns it.

use std::collections::BTreeMap;

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use silverback_model::printable::Printable;

use crate::answers;
use crate::connection::ConnectionArgs;
use crate::error::Done;
use crate::shown::ShownArgs;
use crate::table::{Column, Table, TableValue};

const PATH: &str = "/api/v1/metadata";

/// Show type, unit and help of metrics.
#[derive(Debug, Args)]
#[command(
    after_long_help = "A line for each thing that is said of a metric: senders may not agree. In a terminal, the help \
                       texts are cut at its edge; --output json has them whole.

Example: silverctl metadata node_cpu_seconds_total"
)]
pub(crate) struct MetadataArgs {
    /// Of this metric: its family's name, as its sender has it. All of them, if not given
    metric: Option<String>,
    #[command(flatten)]
    shown: ShownArgs,
}

/// One of the things that are said of a metric.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Said {
    #[serde(rename = "type")]
    kind: String,
    unit: String,
    help: String,
}

/// A metric with it.
#[derive(Debug, Serialize)]
struct Line {
    metric: String,
    #[serde(flatten)]
    said: Said,
}

/// Asks and prints.
pub(crate) async fn run(arguments: &MetadataArgs, connection: &ConnectionArgs) -> Done {
    let lines = lines(answers::get(&path(arguments.metric.as_deref()), connection).await?);
    arguments.shown.print_cut(&lines, table, |line| serde_json::to_value(line).unwrap_or(Json::Null))?;
    if lines.is_empty() {
        eprintln!("nothing is said");
    }
    Ok(())
}

fn path(metric: Option<&str>) -> String {
    let encoded = metric.map(|metric| form_urlencoded::byte_serialize(metric.as_bytes()).collect::<String>());
    encoded.map_or(PATH.to_owned(), |metric| format!("{PATH}?metric={metric}"))
}

fn lines(metrics: BTreeMap<String, Vec<Said>>) -> Vec<Line> {
    let of_metric = |(metric, all): (String, Vec<Said>)| {
        all.into_iter().map(move |said| Line { metric: metric.clone(), said })
    };
    metrics.into_iter().flat_map(of_metric).collect()
}

fn table(lines: &[Line]) -> Table {
    let columns = ["metric", "type", "unit", "help"].map(Column::of_words);
    let mut table = Table::of(columns.into());
    for Line { metric, said } in lines {
        let texts = [metric, &said.kind, &said.unit, &said.help].map(|text| Printable(text).to_string());
        table.push(texts.into_iter().map(TableValue::plain).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_is_said_is_a_line_whatever_stands_in_it() {
        let answer = serde_json::json!({"status": "success", "data": {
            "up": [{"type": "gauge", "unit": "", "help": "Whether.\n\u{1b}[2J"}, {"type": "counter"}],
        }});
        let lines = lines(answers::read(answer.to_string().as_bytes()).expect("an answer"));
        let shown: Vec<_> = table(&lines).lines().collect();
        assert_eq!(shown[0], "metric  type     unit  help");
        assert_eq!(shown[1], r"up      gauge          Whether.\n\u001b[2J");
        assert_eq!(shown.len(), 3);
        let json = serde_json::json!({"metric": "up", "type": "counter", "unit": "", "help": ""});
        assert_eq!(serde_json::to_value(&lines[1]).expect("a line"), json);
    }

    #[test]
    fn a_metric_s_name_is_any_text() {
        assert_eq!(path(None), "/api/v1/metadata");
        assert_eq!(path(Some("a b&c")), "/api/v1/metadata?metric=a+b%26c");
    }
}
