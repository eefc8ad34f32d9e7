//! `LabelNames` and `LabelValues`, external labels among them.

use std::num::NonZeroUsize;
use std::rc::Rc;

use prost::Message;
use silverback_proto::thanos::{
    LabelNamesRequest, LabelNamesResponse, LabelValuesRequest, LabelValuesResponse,
};

use super::{Roomed, free, select};
use crate::api::grpc::query::begin;
use crate::api::grpc::query::labels::texts;
use crate::api::query::Reader;
use crate::api::query::external::Narrowed;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::routing::{Asker, ReadInFlight};
use silverback_storage::message::{Selection, SeriesBatch, SeriesWanted, TextsWanted};

/// The label names of the series that match, with those of external labels where there is a series.
pub(super) async fn names(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: LabelNamesRequest,
) -> Result<Roomed<LabelNamesResponse>, ReadRejected> {
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    let left_out = select::names(request.without_replica_labels, "without_replica_labels")?;
    let matchers = match select::narrowed(reader, &request.matchers).await? {
        Narrowed::None => return Ok(free(LabelNamesResponse::default())),
        Narrowed::To(matchers) => matchers.into(),
    };
    let selection = Selection { matchers, min_ms: request.start, max_ms: request.end };
    let limit = select::limit(request.limit);
    // As many more as may be left out of them.
    let read_max = limit.and_then(|limit| NonZeroUsize::new(limit.saturating_add(left_out.len())));
    let (own, room) = texts(reader, &read, selection, TextsWanted::LabelNames, read_max).await?;
    // There where a series is.
    let external = if own.is_empty() { &[][..] } else { &reader.external.labels().0 };
    let mut external = external.iter().map(|(name, _)| name.to_string()).peekable();
    let mut names = Vec::with_capacity(own.len() + external.len());
    let mut add = |name: String| {
        if left_out.binary_search_by(|out| (**out).cmp(&name)).is_err() {
            names.push(name);
        }
    };
    let mut slice = reader.slicer.begin().await;
    for name in own {
        while let Some(before) = external.next_if(|external| *external < name) {
            add(before);
        }
        external.next_if_eq(&name);
        add(name);
        slice.yield_if_needed().await;
    }
    external.for_each(add);
    names.truncate(limit.unwrap_or(usize::MAX));
    drop(slice);
    Ok((LabelNamesResponse { names, warnings: Vec::new() }, Some(room)))
}

/// The values that a label has in the series that match; of an external label the one that all have.
pub(super) async fn values(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: LabelValuesRequest,
) -> Result<Roomed<LabelValuesResponse>, ReadRejected> {
    let of = |values| LabelValuesResponse { values, warnings: Vec::new() };
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    if request.label.is_empty() {
        return Err(ReadRejected::BadRequest("label name parameter cannot be empty".to_owned()));
    }
    let left_out = select::names(request.without_replica_labels, "without_replica_labels")?;
    let matchers = match select::narrowed(reader, &request.matchers).await? {
        Narrowed::To(matchers) if !left_out.iter().any(|out| **out == *request.label) => matchers,
        Narrowed::To(_) | Narrowed::None => return Ok(free(of(Vec::new()))),
    };
    let are_all = matchers.is_empty();
    let selection = Selection { matchers: matchers.into(), min_ms: request.start, max_ms: request.end };
    if let Some(value) = reader.external.labels().get(&request.label) {
        let is_there = are_all || is_any(reader, &read, selection).await?;
        return Ok(free(of(is_there.then(|| value.to_owned()).into_iter().collect())));
    }
    let limit = select::limit(request.limit).and_then(NonZeroUsize::new);
    let wanted = TextsWanted::LabelValues(request.label.into());
    let (values, room) = texts(reader, &read, selection, wanted, limit).await?;
    Ok((of(values), Some(room)))
}

/// Whether there is a series.
async fn is_any(
    reader: &Rc<Reader>,
    read: &ReadInFlight,
    selection: Selection,
) -> Result<bool, ReadRejected> {
    let in_memory =
        RowStream::<SeriesBatch>::is_any(reader, read.lease(), selection.clone(), SeriesWanted::LabelSets);
    if in_memory.await? {
        return Ok(true);
    }
    let wanted = SeriesWanted::LabelSets;
    let mut rows: RowStream<SeriesBatch> =
        RowStream::open_all(reader, read.lease(), selection, wanted, 1).await?;
    Ok(rows.advance(None).await?.is_some())
}
