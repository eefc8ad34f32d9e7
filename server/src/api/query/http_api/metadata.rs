//! `/api/v1/metadata`: what is said of metrics, in Prometheus' shape, streamed.

use std::iter::Peekable;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::vec::IntoIter;

use http::StatusCode;

use super::json;
use super::params::Params;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadAnswer;
use crate::api::query::rows::batch_bytes;
use crate::api::query::stream::streamed;
use crate::api::response::with_type;
use crate::routing::fanout::{FanoutError, read_all};
use crate::routing::{ReadInFlight, ReadLease};
use silverback_model::ShardId;
use silverback_storage::message::{MetadataPage, MetadataWanted, OwnedMetadata};

/// Answers for one metric, or for all, names ascending. A page of each shard is held at a time.
pub(crate) async fn respond(reader: &Rc<Reader>, read: ReadInFlight, params: &Params) -> ReadAnswer {
    // As in Prometheus, 0 metrics are none, and 0 of each are all.
    let metrics_max = params.number("limit")?.unwrap_or(usize::MAX);
    let per_metric_max = params.number("limit_per_metric")?.and_then(NonZeroUsize::new);
    let wanted = MetadataWanted {
        name: params.get("metric").map(Into::into),
        after: None,
        metrics_max,
        per_metric_max: per_metric_max.map_or(usize::MAX, NonZeroUsize::get),
        bytes: batch_bytes(reader, 1),
    };
    let mut pages = Pages::open(reader, read.lease(), wanted).await?;
    let slicer = reader.slicer.clone();
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        json::put_begin(outgoing.made());
        outgoing.made().push(b'{');
        let (mut last, mut metrics, mut held): (Option<OwnedMetadata>, usize, _) = (None, 0, None);
        loop {
            if pages.lack() {
                held = None;
                pages.fetch().await?;
            }
            let slice = slicer.go_on(held).await;
            let Some(said) = pages.pop_first() else { break };
            let is_same = last.as_ref().is_some_and(|last| last.name == said.name);
            metrics += usize::from(!is_same);
            if metrics > metrics_max {
                break;
            }
            put(outgoing.made(), &said, last.as_ref());
            last = Some(said);
            held = outgoing.send_if_full(slice).await?;
        }
        outgoing.made().extend_from_slice(if last.is_some() { b"]}" } else { b"}" });
        json::put_end(outgoing.made(), &[]);
        Ok(())
    });
    Ok(with_type(StatusCode::OK, json::CONTENT_TYPE, body))
}

/// What shards say of metrics, a page of each at a time.
struct Pages {
    reader: Rc<Reader>,
    lease: ReadLease,
    wanted: MetadataWanted,
    of_shards: Vec<ShardPage>,
}

/// What is left of a shard's page, and after which name the next one begins.
struct ShardPage {
    shard: ShardId,
    rest: Peekable<IntoIter<OwnedMetadata>>,
    next: Option<Box<str>>,
}

impl Pages {
    async fn open(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        wanted: MetadataWanted,
    ) -> Result<Self, FanoutError> {
        let pages = read_all(&reader.router, lease, &wanted).await?;
        let of_shards =
            reader.router.shards().zip(pages).map(|(shard, page)| ShardPage::new(shard, page)).collect();
        Ok(Self { reader: Rc::clone(reader), lease: lease.clone(), wanted, of_shards })
    }

    /// Whether a page is used up and another one follows it.
    fn lack(&self) -> bool {
        self.of_shards.iter().any(ShardPage::is_used_up)
    }

    /// Fetches what is lacking.
    async fn fetch(&mut self) -> Result<(), FanoutError> {
        let router = &self.reader.router;
        for page in self.of_shards.iter_mut().filter(|page| page.is_used_up()) {
            let wanted = MetadataWanted { after: page.next.take(), ..self.wanted.clone() };
            // Metadata doesn't move with cells, so any epoch will do.
            let asked = router.ask_to_read(page.shard, router.read_epoch(), wanted, &self.lease)?;
            *page = ShardPage::new(page.shard, asked.await?);
        }
        Ok(())
    }

    /// What is said of the first name. Nothing may be lacking.
    fn pop_first(&mut self) -> Option<OwnedMetadata> {
        let mut first: Option<(usize, &str)> = None;
        for (at, page) in self.of_shards.iter_mut().enumerate() {
            if let Some(said) = page.rest.peek()
                && first.is_none_or(|(_, name)| *said.name < *name)
            {
                first = Some((at, &said.name));
            }
        }
        let (at, _) = first?;
        self.of_shards[at].rest.next()
    }
}

impl ShardPage {
    fn new(shard: ShardId, page: MetadataPage) -> Self {
        Self { shard, rest: page.said.into_iter().peekable(), next: page.next }
    }

    fn is_used_up(&self) -> bool {
        self.rest.len() == 0 && self.next.is_some()
    }
}

/// Appends it, after what was said `last`: of the same metric or of another.
fn put(out: &mut Vec<u8>, said: &OwnedMetadata, last: Option<&OwnedMetadata>) {
    match last {
        Some(last) if last.name == said.name => out.push(b','),
        Some(_) | None => {
            out.extend_from_slice(if last.is_some() { b"]," } else { b"" });
            json::put_text(out, &said.name);
            out.extend_from_slice(b":[");
        }
    }
    for (key, text) in
        [("{\"type\":", said.kind.as_str()), (",\"unit\":", &said.unit), (",\"help\":", &said.help)]
    {
        out.extend_from_slice(key.as_bytes());
        json::put_text(out, text);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::MetricType;

    fn said(name: &str, help: &str) -> OwnedMetadata {
        OwnedMetadata { name: name.into(), kind: MetricType::Gauge, help: help.into(), unit: "".into() }
    }

    #[test]
    fn metadata_is_written_as_prometheus_writes_it() {
        let mut out = Vec::new();
        let all = [said("a", "1"), said("a", "2"), said("b", "\"")];
        let mut last = None;
        for one in &all {
            put(&mut out, one, last);
            last = Some(one);
        }
        let expect = concat!(
            r#""a":[{"type":"gauge","unit":"","help":"1"},{"type":"gauge","unit":"","help":"2"}],"#,
            r#""b":[{"type":"gauge","unit":"","help":"\""}"#
        );
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
