//! Label sets, without samples.

use std::rc::Rc;

use silverback_proto::v1::{LabelSet, SeriesRequest, SeriesResponse};

use super::labels::{proto_labels, text_bytes};
use super::permit;
use super::selection::selection;
use crate::api::core::Core;
use crate::api::fanout::SeriesStream;
use crate::api::grpc::stream::{Answers, streamed};
use crate::api::read_fault::ReadFault;
use crate::api::selector::Breadth;
use crate::limits::STREAM_BUFFER_BYTES;
use crate::message::SelectContent;

/// The label sets that match, ascending.
pub async fn answer(core: &Rc<Core>, request: SeriesRequest) -> Result<Answers<SeriesResponse>, ReadFault> {
    let permit = permit(core, &request).await?;
    let selection = selection(&core.slicer, &request.matchers, request.range, Breadth::Narrowed).await?;
    let mut stream = SeriesStream::open(Rc::clone(core), selection, SelectContent::LabelsOnly).await?;
    let read = Rc::clone(core);
    Ok(streamed(core, permit, async move |outgoing| {
        let (mut response, mut bytes) = (SeriesResponse::default(), 0);
        while let Some(series) = stream.next().await? {
            let slice = read.slicer.begin().await;
            let labels = proto_labels(&series.labels);
            drop(slice);
            bytes += text_bytes(&labels);
            response.series.push(LabelSet { labels });
            if bytes >= STREAM_BUFFER_BYTES {
                outgoing.send(std::mem::take(&mut response)).await?;
                bytes = 0;
            }
        }
        if !response.series.is_empty() {
            outgoing.send(response).await?;
        }
        Ok(())
    }))
}
