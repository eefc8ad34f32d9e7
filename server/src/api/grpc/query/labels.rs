//! Label names and the values of a label, each in one message; and labels as messages have them.

use std::num::NonZeroUsize;
use std::rc::Rc;

use prost::Message;
use silverback_proto::v1::{
    Label, LabelNamesRequest, LabelNamesResponse, LabelValuesRequest, LabelValuesResponse,
};

use super::begin;
use super::selection::selection;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::rows::RowStream;
use crate::api::query::selector::Breadth;
use crate::routing::{Asker, ReadInFlight, SharedReservation};
use silverback_model::LabelBlock;
use silverback_model::limits::UNARY_ANSWER_BYTES_MAX;
use silverback_storage::message::{Selection, TextBatch, TextsWanted};

/// The label names of the series that match, and the room that they take until they are sent.
pub(crate) async fn names(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: LabelNamesRequest,
) -> Result<(LabelNamesResponse, SharedReservation), ReadRejected> {
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    let selection = selection(reader, &request.matchers, request.range, Breadth::Any).await?;
    let (names, room) = texts(reader, &read, selection, TextsWanted::LabelNames, None).await?;
    Ok((LabelNamesResponse { names }, room))
}

/// The values that a label has in the series that match, and their room.
pub(crate) async fn values(
    reader: &Rc<Reader>,
    asker: &Asker,
    request: LabelValuesRequest,
) -> Result<(LabelValuesResponse, SharedReservation), ReadRejected> {
    let read = begin(reader, asker, &request.matchers, request.encoded_len()).await?;
    if request.name.is_empty() {
        return Err(ReadRejected::BadRequest("a label name is needed".to_owned()));
    }
    let selection = selection(reader, &request.matchers, request.range, Breadth::Any).await?;
    let (values, room) =
        texts(reader, &read, selection, TextsWanted::LabelValues(request.name.into()), None).await?;
    Ok((LabelValuesResponse { values }, room))
}

/// All of them, or the first so many, within the room that reads in flight have: the answer is one message.
pub(in crate::api::grpc) async fn texts(
    reader: &Rc<Reader>,
    read: &ReadInFlight,
    selection: Selection,
    wanted: TextsWanted,
    limit: Option<NonZeroUsize>,
) -> Result<(Vec<String>, SharedReservation), ReadRejected> {
    let mut stream: RowStream<TextBatch> =
        RowStream::open_all(reader, read.lease(), selection, wanted, 1).await?;
    let mut room = reader.read_bytes.begin();
    let (mut texts, mut bytes, mut held) = (Vec::new(), 0, None);
    while let Some(slice) = stream.advance(held).await? {
        held = Some(slice);
        let text = stream.text();
        bytes += text.len();
        if bytes > UNARY_ANSWER_BYTES_MAX {
            return Err(ReadRejected::AnswerTooLarge { bytes_max: UNARY_ANSWER_BYTES_MAX });
        }
        room.grow_within(size_of::<String>() + text.len())?;
        texts.push(text.to_owned());
        if limit.is_some_and(|limit| texts.len() == limit.get()) {
            break;
        }
    }
    Ok((texts, room.into()))
}

/// The bytes of labels' texts.
pub(crate) fn text_bytes(labels: &[Label]) -> usize {
    labels.iter().map(|label| label.name.len() + label.value.len()).sum()
}

/// A label set as messages have it.
pub(crate) fn proto_labels(labels: LabelBlock<'_>) -> Vec<Label> {
    labels.texts().map(|(name, value)| Label { name: name.to_owned(), value: value.to_owned() }).collect()
}
