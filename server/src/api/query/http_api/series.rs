//! `/api/v1/series`: the label sets that match.

use std::rc::Rc;

use super::params::Params;
use super::{array, json};
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::union::RowUnion;
use crate::routing::ReadInFlight;
use silverback_storage::message::{SeriesBatch, SeriesWanted};

/// Answers with the union of all selectors, ascending, each label set once.
pub(crate) async fn respond(reader: &Rc<Reader>, read: ReadInFlight, params: &Params) -> ReadAnswer {
    let selections = params.required_selections(reader).await?;
    let put =
        |out: &mut Vec<u8>, series: &RowUnion<SeriesBatch>| json::put_labels(out, series.series().labels);
    array::respond(reader, read, params, selections, SeriesWanted::LabelSets, put).await
}
