//! An answer in Prometheus' JSON, made part by part while it is sent.

use std::rc::Rc;

use http::StatusCode;

use super::super::json;
use super::run::Evaluated;
use crate::api::query::Reader;
use crate::api::query::stream::streamed;
use crate::api::response::{NodeResponse, with_type};
use silverback_promql::{Answer, JsonWriter, Value};

/// Answers with a value, its warnings and infos. Its memory, which the evaluation took, is held until it is sent.
pub(super) fn respond(reader: &Rc<Reader>, evaluated: Evaluated) -> NodeResponse {
    let Evaluated { read, answer, asked, stats, room } = evaluated;
    let Answer { mut value, mut warnings, infos, bytes: _, samples } = answer;
    let stats = asked.stats.map(|_wanted| stats);
    if asked.limit > 0 && truncate(&mut value, asked.limit) {
        warnings.push(json::TRUNCATED.to_owned());
    }
    let core_of_read = Rc::clone(reader);
    let body = streamed(Rc::clone(reader), read, async move |outgoing| {
        json::put_begin(outgoing.made());
        let mut writer =
            if stats.is_some() { JsonWriter::left_open(&value) } else { JsonWriter::new(&value) };
        let (mut part, mut held) = (String::new(), None);
        loop {
            let slice = core_of_read.slicer.go_on(held).await;
            part.clear();
            let has_more = writer.write_part(&mut part);
            outgoing.made().extend_from_slice(part.as_bytes());
            held = outgoing.send_if_full(slice).await?;
            if !has_more {
                break;
            }
        }
        if let Some(stats) = stats {
            let mut written = 0;
            stats.put_begin(outgoing.made());
            while let Some(more) = stats.put_steps(outgoing.made(), &samples, written) {
                written = more;
                let slice = core_of_read.slicer.go_on(held).await;
                held = outgoing.send_if_full(slice).await?;
            }
            stats.put_end(outgoing.made(), &samples);
            outgoing.made().push(b'}');
        }
        put_notes(outgoing.made(), "warnings", &warnings);
        put_notes(outgoing.made(), "infos", &infos);
        json::put_end(outgoing.made(), &[]);
        drop(room);
        Ok(())
    });
    with_type(StatusCode::OK, json::CONTENT_TYPE, body)
}

fn put_notes(out: &mut Vec<u8>, name: &str, notes: &[String]) {
    if !notes.is_empty() {
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        json::put(out, notes);
    }
}

/// Leaves at most so many series. Whether any went.
fn truncate(value: &mut Value, limit: usize) -> bool {
    let len = match value {
        Value::Scalar { .. } | Value::Text { .. } => return false,
        Value::Vector(samples) => {
            let len = samples.len();
            samples.truncate(limit);
            len
        }
        Value::Matrix(series) => {
            let len = series.len();
            series.truncate(limit);
            len
        }
    };
    len > limit
}
