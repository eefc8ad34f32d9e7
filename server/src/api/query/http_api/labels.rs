//! `/api/v1/labels` and `/api/v1/label/<name>/values`.

use std::rc::Rc;

use super::params::{Params, bad};
use super::{array, json, label_name};
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::union::RowUnion;
use crate::routing::ReadInFlight;
use silverback_storage::message::{TextBatch, TextsWanted};

/// The label names of the series that match, of all where nothing is selected.
pub(crate) async fn names(reader: &Rc<Reader>, read: ReadInFlight, params: &Params) -> ReadAnswer {
    texts(reader, read, params, TextsWanted::LabelNames).await
}

/// The values of the label whose name is in the path.
pub(crate) async fn values(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    path_name: &str,
    params: &Params,
) -> ReadAnswer {
    let name = label_name::from_path(path_name)
        .ok_or_else(|| bad(format_args!("{path_name:?} is not a label name")))?;
    texts(reader, read, params, TextsWanted::LabelValues(name.into())).await
}

async fn texts(reader: &Rc<Reader>, read: ReadInFlight, params: &Params, wanted: TextsWanted) -> ReadAnswer {
    let selections = params.selections_or_all(reader).await?;
    let put = |out: &mut Vec<u8>, texts: &RowUnion<TextBatch>| json::put_text(out, texts.text());
    array::respond(reader, read, params, selections, wanted, put).await
}
