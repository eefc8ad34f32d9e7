//! `meta.json` as it stands in a bucket: the block's own, and the section that Thanos reads.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use silverback_block::Ulid;
use silverback_model::utc::format_rfc3339;

use crate::blocks::LocalFile;

/// Thanos' section, of its version 1.
#[derive(Debug, Serialize)]
struct Thanos<'a> {
    version: u32,
    labels: &'a BTreeMap<String, String>,
    downsample: Downsample,
    /// Who uploaded it: one of the words that Thanos knows.
    source: &'static str,
    segment_files: Vec<&'a str>,
    files: Vec<File<'a>>,
    upload_time: String,
}

#[derive(Debug, Serialize)]
struct Downsample {
    /// 0: these are the samples as they came.
    resolution: u64,
}

#[derive(Debug, Serialize)]
struct File<'a> {
    rel_path: &'a str,
    /// `meta.json` can't say its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
}

/// The local file's text with Thanos' section in it. `None`: that isn't a JSON object.
pub(crate) fn with_thanos(
    local: &[u8],
    labels: &BTreeMap<String, String>,
    files: &[LocalFile],
    now_ms: i64,
) -> Option<Vec<u8>> {
    let mut meta: Map<String, Value> = serde_json::from_slice(local).ok()?;
    let listed = files.iter().map(|file| File { rel_path: &file.name, size_bytes: Some(file.bytes) });
    let thanos = Thanos {
        version: 1,
        labels,
        downsample: Downsample { resolution: 0 },
        source: "receive",
        segment_files: files.iter().filter_map(|file| file.name.strip_prefix("chunks/")).collect(),
        files: listed.chain([File { rel_path: "meta.json", size_bytes: None }]).collect(),
        upload_time: format_rfc3339(now_ms),
    };
    let thanos = serde_json::to_value(thanos).expect("texts and numbers are JSON");
    meta.insert("thanos".to_owned(), thanos);
    let mut text = serde_json::to_vec_pretty(&meta).expect("what was JSON is JSON");
    text.push(b'\n');
    Some(text)
}

/// Whether a text is the `meta.json` of a block, with Thanos' section, as nothing but an upload writes it.
pub(crate) fn is_of(text: &[u8], ulid: Ulid) -> bool {
    let meta: Option<Map<String, Value>> = serde_json::from_slice(text).ok();
    meta.is_some_and(|meta| {
        meta.get("ulid").and_then(Value::as_str) == Some(&*ulid.to_string())
            && meta.get("thanos").is_some_and(Value::is_object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_is_added_and_all_else_stays() {
        let file = |name: &str, bytes| LocalFile { name: name.to_owned(), bytes };
        let files = [file("chunks/000001", 7), file("chunks/000002", 8), file("index", 9)];
        let labels = BTreeMap::from([("replica".to_owned(), "a\"b".to_owned())]);
        let local = br#"{"ulid":"X","compaction":{"level":1,"hints":["from-out-of-order"]},"later":7}"#;
        let text = with_thanos(local, &labels, &files, 1_767_225_600_000).unwrap();
        let meta: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&meta["ulid"], &meta["later"]), (&Value::from("X"), &Value::from(7)));
        assert_eq!(meta["compaction"]["hints"][0], "from-out-of-order");
        let expect: Value = serde_json::from_str(
            r#"{
                "version": 1, "labels": {"replica": "a\"b"}, "downsample": {"resolution": 0}, "source": "receive",
                "segment_files": ["000001", "000002"],
                "files": [
                    {"rel_path": "chunks/000001", "size_bytes": 7}, {"rel_path": "chunks/000002", "size_bytes": 8},
                    {"rel_path": "index", "size_bytes": 9}, {"rel_path": "meta.json"}
                ],
                "upload_time": "2026-01-01T00:00:00Z"
            }"#,
        )
        .unwrap();
        assert_eq!(meta["thanos"], expect);
        assert_eq!(with_thanos(b"[]", &labels, &files, 0), None);
    }
}
