//! `silverctl query`: the samples of the series that match, as a table, JSON, CSV or a plot.

mod columns;
mod json;
mod plot;
mod rate;
mod rows;
mod ticks;

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use futures::TryStreamExt;
use silverback_client::Selector;
use silverback_model::histogram::Histogram;

use crate::connection::ConnectionArgs;
use crate::error::{Done, output};
use crate::figures::counted;
use crate::label_set::LabelSet;
use crate::shown::terminal_width;
use crate::time_range::TimeRangeArgs;

const EXAMPLES: &str = "Outputs:
  table  for each series its labels, then its samples
  json   JSON lines, also called jsonl, one for each series, as `silverctl write --format json` and
         VictoriaMetrics' import read them:
         {\"metric\":{…},\"values\":[…],\"timestamps\":[…]}; timestamps in milliseconds, and NaN,
         infinities and staleness markers as \"NaN\", \"+Inf\", \"-Inf\", \"StaleNaN\"; where there are native
         histograms, \"histograms\":[[timestamp,{\"count\",\"sum\",\"buckets\"}],…] as Prometheus' API has them
  csv    timestamp,value and a column for each label; `silverctl write` reads it, too
  plot   lines in the terminal, at most 8 series in one plot, with a legend below

With --rate each output has the increases a second of a counter in place of its samples; a value
below the one before counts as a counter that started again at 0. The metrics' names end in :rate then,
as those of rules do.

Examples:
  silverctl query 'room_temperature{room=\"kitchen\"}' --start -6h --output plot
  silverctl query silverback_samples_total --rate --output plot
  silverctl query '{job=\"node\"}' --start 2026-01-31T12:00:00Z --output json";

/// Read the samples of the series that match a selector.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct QueryArgs {
    /// Which series: NAME{LABEL="VALUE", …}, with = != =~ !~.
    selector: Selector,
    #[command(flatten)]
    range: TimeRangeArgs,
    /// How they are shown.
    #[arg(long, short, visible_alias = "format", value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Increases a second of counters, from each sample to the next, in place of the samples.
    #[arg(long)]
    rate: bool,
    /// At most so many series.
    #[arg(long, value_name = "SERIES")]
    limit: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    // In all commands, read or printed: JSON lines.
    #[value(alias = "jsonl")]
    Json,
    Csv,
    Plot,
}

impl Output {
    /// Whether it has a form for native histograms.
    fn shows_histograms(self, rate: bool) -> bool {
        match self {
            Self::Table | Self::Json => !rate,
            Self::Csv | Self::Plot => false,
        }
    }
}

/// A series and its samples.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueriedSeries {
    labels: LabelSet,
    samples: Vec<(i64, f64)>,
    /// Native histograms.
    histograms: Vec<(i64, Histogram)>,
}

/// Asks and prints.
pub(crate) async fn run(arguments: QueryArgs, connection: &ConnectionArgs) -> Done {
    let range_ms = arguments.range.resolve_ms()?;
    let reader = connection.connect().await?.reader();
    let mut printer = match arguments.output {
        Output::Table => Printer::Table { width: terminal_width() },
        Output::Json => Printer::Json,
        // All columns are in the header, before the first series is known.
        Output::Csv => {
            let names = reader.label_names(&arguments.selector, Some(range_ms.clone())).await?;
            let is_terminal = std::io::stdout().is_terminal();
            let reader = if is_terminal { rows::RowsReader::Person } else { rows::RowsReader::Program };
            Printer::Csv(rows::QueryRows::new(names, reader))
        }
        Output::Plot => Printer::Plot(plot::Plot::for_terminal()),
    };
    let mut selected = reader.select(&arguments.selector, range_ms).await?;
    let (mut series_shown, mut histograms_left_out, mut out) = (0, 0, output());
    while let Some(series) = selected.try_next().await? {
        if arguments.limit == Some(series_shown) || printer.is_full() {
            eprintln!("there are more series than the {series_shown} shown");
            break;
        }
        series_shown += 1;
        let series = QueriedSeries {
            labels: LabelSet::trusted(series.labels),
            samples: series.samples,
            histograms: series.histograms,
        };
        if !arguments.output.shows_histograms(arguments.rate) {
            histograms_left_out += series.histograms.len() as u64;
        }
        printer.take(if arguments.rate { rate::of(series) } else { series }, &mut out)?;
    }
    printer.finish(&mut out)?;
    out.flush()?;
    if series_shown == 0 {
        eprintln!("no series");
    }
    if histograms_left_out > 0 {
        let left_out = counted(histograms_left_out, "native histogram", "native histograms");
        eprintln!("{left_out} left out: --output table and --output json show them, without --rate");
    }
    Ok(())
}

/// What turns series into text.
enum Printer {
    Table { width: Option<usize> },
    Json,
    Csv(rows::QueryRows),
    Plot(plot::Plot),
}

impl Printer {
    fn is_full(&self) -> bool {
        match self {
            Self::Table { .. } | Self::Json | Self::Csv(_) => false,
            Self::Plot(plot) => plot.is_full(),
        }
    }

    fn take(&mut self, series: QueriedSeries, out: &mut impl Write) -> Done {
        match self {
            Self::Table { width } => Ok(columns::print(&series, *width, out)?),
            Self::Json => json::print(&series, out),
            Self::Csv(rows) => rows.print(&series, out),
            Self::Plot(plot) => {
                plot.add(series);
                Ok(())
            }
        }
    }

    fn finish(self, out: &mut impl Write) -> Done {
        match self {
            Self::Table { .. } | Self::Json => Ok(()),
            Self::Csv(mut rows) => rows.print_header(out),
            Self::Plot(plot) => Ok(plot.print(out)?),
        }
    }
}

/// As PromQL shows it, and as it is read again.
fn value_text(value: f64) -> String {
    if value.to_bits() == crate::formats::STALE_NAN.to_bits() {
        "StaleNaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else if value != 0.0 && !(1e-6..1e15).contains(&value.abs()) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests;
