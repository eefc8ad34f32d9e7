//! Label names and the values of a label, each in one message; and labels as messages have them.

use std::rc::Rc;

use silverback_proto::v1::{
    Label, LabelNamesRequest, LabelNamesResponse, LabelValuesRequest, LabelValuesResponse,
};

use super::permit;
use super::selection::selection;
use crate::api::core::Core;
use crate::api::fanout;
use crate::api::read_fault::ReadFault;
use crate::api::selector::Breadth;
use crate::limits::UNARY_ANSWER_BYTES_MAX;
use crate::message::ReadRequest;
use crate::model::Labels;

/// The label names of the series that match.
pub async fn names(core: &Rc<Core>, request: LabelNamesRequest) -> Result<LabelNamesResponse, ReadFault> {
    let _permit = permit(core, &request).await?;
    let selection = selection(&core.slicer, &request.matchers, request.range, Breadth::Any).await?;
    let names = texts(core, &ReadRequest::LabelNames(selection)).await?;
    Ok(LabelNamesResponse { names })
}

/// The values that a label has in the series that match.
pub async fn values(core: &Rc<Core>, request: LabelValuesRequest) -> Result<LabelValuesResponse, ReadFault> {
    let _permit = permit(core, &request).await?;
    if request.name.is_empty() {
        return Err(ReadFault::BadRequest("a label name is needed".to_owned()));
    }
    let selection = selection(&core.slicer, &request.matchers, request.range, Breadth::Any).await?;
    let values = texts(core, &ReadRequest::LabelValues(request.name.into(), selection)).await?;
    Ok(LabelValuesResponse { values })
}

async fn texts(core: &Core, request: &ReadRequest) -> Result<Vec<String>, ReadFault> {
    let texts = fanout::strings(core, request).await?;
    if texts.iter().map(|text| text.len()).sum::<usize>() > UNARY_ANSWER_BYTES_MAX {
        return Err(ReadFault::AnswerTooLarge { bytes_max: UNARY_ANSWER_BYTES_MAX });
    }
    Ok(texts.into_iter().map(String::from).collect())
}

/// The bytes of labels' texts.
pub fn text_bytes(labels: &[Label]) -> usize {
    labels.iter().map(|label| label.name.len() + label.value.len()).sum()
}

/// A label set as messages have it.
pub fn proto_labels(labels: &Labels) -> Vec<Label> {
    let label =
        |(name, value): &(Box<str>, Box<str>)| Label { name: name.to_string(), value: value.to_string() };
    labels.0.iter().map(label).collect()
}
