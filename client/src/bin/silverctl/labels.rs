//! `silverctl labels` and `silverctl series`: what there is to query.

use std::io::Write;

use clap::Args;
use futures::TryStreamExt;
use silverback_client::{Matcher, Selector};
use silverback_model::printable::Printable;

use crate::connection::ConnectionArgs;
use crate::error::{Done, output};
use crate::label_set::LabelSet;
use crate::shown::ShownArgs;
use crate::time_range::TimeRangeArgs;

/// List label names, or the values of one label.
#[derive(Debug, Args)]
#[command(
    after_long_help = "As a table, characters that aren't printable are shown as escapes: \\n, \\u001b. As \
                             JSON every text is exact.

Example: silverctl labels job --match 'up{instance=~\"10.*\"}'"
)]
pub(crate) struct LabelsArgs {
    /// The label whose values are listed, as __name__ for the metrics' names.
    name: Option<String>,
    /// Only of these series.
    #[arg(long = "match", value_name = "SELECTOR")]
    selector: Option<Selector>,
    #[command(flatten)]
    range: TimeRangeArgs,
    #[command(flatten)]
    shown: ShownArgs,
}

/// List the series that match a selector.
#[derive(Debug, Args)]
pub(crate) struct SeriesArgs {
    /// Which series: NAME{LABEL="VALUE", …}, with = != =~ !~.
    selector: Selector,
    #[command(flatten)]
    range: TimeRangeArgs,
    /// At most so many.
    #[arg(long, value_name = "SERIES")]
    limit: Option<usize>,
}

/// Lists label names or values, a line each.
pub(crate) async fn labels(arguments: LabelsArgs, connection: &ConnectionArgs) -> Done {
    let range_ms = Some(arguments.range.resolve_ms()?);
    let reader = connection.connect().await?.reader();
    let matchers = arguments.selector.map(Vec::<Matcher>::from).unwrap_or_default();
    let texts = match arguments.name {
        None => reader.label_names(&matchers, range_ms).await?,
        Some(name) => reader.label_values(&name, &matchers, range_ms).await?,
    };
    arguments.shown.print_lines(&texts, |text| Printable(text).to_string(), |text| text.as_str().into())
}

/// Lists series, a line each, as selectors that match them.
pub(crate) async fn series(arguments: SeriesArgs, connection: &ConnectionArgs) -> Done {
    let range_ms = Some(arguments.range.resolve_ms()?);
    let reader = connection.connect().await?.reader();
    let mut found = reader.series(&arguments.selector, range_ms).await?;
    let (mut listed, mut out) = (0, output());
    while let Some(labels) = found.try_next().await? {
        if arguments.limit == Some(listed) {
            eprintln!("there are more series than the {listed} listed");
            break;
        }
        listed += 1;
        writeln!(out, "{}", LabelSet::trusted(labels))?;
    }
    Ok(out.flush()?)
}
