//! `/api/v1/metadata`: what is said of metrics, in Prometheus' shape, streamed.

use std::cmp::Ordering;
use std::num::NonZeroUsize;
use std::rc::Rc;

use http::StatusCode;

use super::json;
use super::params::Params;
use crate::api::query::Reader;
use crate::api::query::read_fault::ReadFault;
use crate::api::query::stream::streamed;
use crate::api::response::{NodeResponse, with_type};
use crate::routing::ReadInFlight;
use crate::routing::fanout::read_all;
use silverback_storage::message::{MetadataWanted, OwnedMetadata};

/// Answers for one metric, or for all, names ascending. What shards say is held until it is sent.
pub(crate) async fn respond(
    reader: &Rc<Reader>,
    read: ReadInFlight,
    params: &Params,
) -> Result<NodeResponse, ReadFault> {
    // As in Prometheus, 0 metrics are none, and 0 of each are all.
    let metrics_max = params.number("limit")?.unwrap_or(usize::MAX);
    let per_metric_max = params.number("limit_per_metric")?.and_then(NonZeroUsize::new);
    let wanted = MetadataWanted {
        name: params.get("metric").map(Into::into),
        metrics_max,
        per_metric_max: per_metric_max.map_or(usize::MAX, NonZeroUsize::get),
    };
    let mut room = reader.read_bytes.begin();
    let of_shards = read_all(&reader.router, read.lease(), &wanted).await?;
    room.grow_within(of_shards.iter().flatten().map(bytes_of).sum())?;
    let slicer = reader.slicer.clone();
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        let _room = room;
        let mut rest: Vec<_> = of_shards.into_iter().map(|said| said.into_iter().peekable()).collect();
        json::put_begin(outgoing.made());
        outgoing.made().push(b'{');
        let (mut last, mut metrics, mut held): (Option<OwnedMetadata>, usize, _) = (None, 0, None);
        loop {
            let slice = slicer.go_on(held).await;
            let Some(shard) = next_of(&mut rest) else { break };
            let Some(said) = rest[shard].next() else { break };
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

/// The shard whose next name is the first.
fn next_of<I: Iterator<Item = OwnedMetadata>>(rest: &mut [std::iter::Peekable<I>]) -> Option<usize> {
    let mut first: Option<(usize, &str)> = None;
    for (at, of_shard) in rest.iter_mut().enumerate() {
        if let Some(said) = of_shard.peek()
            && first.is_none_or(|(_, name)| said.name.as_ref().cmp(name) == Ordering::Less)
        {
            first = Some((at, &said.name));
        }
    }
    first.map(|(at, _)| at)
}

/// Appends it, behind what was said `last`: of the same metric or of another.
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

fn bytes_of(said: &OwnedMetadata) -> usize {
    size_of::<OwnedMetadata>() + said.name.len() + said.help.len() + said.unit.len()
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

    #[test]
    fn shards_names_come_in_their_order() {
        let of = |names: &[&str]| {
            names.iter().map(|name| said(name, "")).collect::<Vec<_>>().into_iter().peekable()
        };
        let mut rest = [of(&["b", "d"]), of(&[]), of(&["a", "a", "c"])];
        let mut names = Vec::new();
        while let Some(at) = next_of(&mut rest) {
            names.extend(rest[at].next().map(|said| said.name.to_string()));
        }
        assert_eq!(names, ["a", "a", "b", "c", "d"]);
    }
}
