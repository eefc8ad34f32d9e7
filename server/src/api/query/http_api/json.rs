//! The shape of Prometheus' answers: `{"status":"success","data":…}` or
//! `{"status":"error","errorType":"…","error":"…"}`.

use serde::Serialize;

use crate::api::query::read_rejected::ReadRejected;
use silverback_model::LabelBlock;

/// The answers' content type.
pub(super) const CONTENT_TYPE: &str = "application/json";

/// The warning that a limit cut something off.
pub(super) const TRUNCATED: &str = "results truncated due to limit";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Error<'a> {
    status: &'a str,
    error_type: &'a str,
    error: String,
}

/// An answer with its warnings.
pub(crate) fn success(data: impl Serialize, warnings: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    put_begin(&mut out);
    serde_json::to_writer(&mut out, &data).expect("answers are made of text and numbers");
    put_end(&mut out, warnings);
    out
}

/// Appends what is before an answer.
pub(crate) fn put_begin(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":");
}

/// Appends what is after an answer.
pub(crate) fn put_end(out: &mut Vec<u8>, warnings: &[&str]) {
    if !warnings.is_empty() {
        out.extend_from_slice(b",\"warnings\":");
        serde_json::to_writer(&mut *out, warnings).expect("a text can be written to memory");
    }
    out.push(b'}');
}

/// A refusal.
pub(crate) fn error(fault: &ReadRejected) -> String {
    let error = Error { status: "error", error_type: fault.cause().error_type(), error: fault.to_string() };
    serde_json::to_string(&error).expect("an error is made of texts")
}

/// Appends a text in quotes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    match is_plain(text.as_bytes()) {
        true => put_plain(out, text.as_bytes()),
        false => put(out, text),
    }
}

/// Whether a text is in JSON as it is. Looks at all of its bytes, whatever the first ones are: several at once.
fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(true, |plain, byte| plain & (*byte >= b' ') & (*byte != b'"') & (*byte != b'\\'))
}

fn put_plain(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Appends a name or value of canonical labels, which are UTF-8, in quotes.
fn put_label_text(out: &mut Vec<u8>, text: &[u8]) {
    match is_plain(text) {
        true => put_plain(out, text),
        false => put(out, str::from_utf8(text).unwrap_or_default()),
    }
}

/// Appends what is made of texts and numbers.
pub(crate) fn put(out: &mut Vec<u8>, data: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, data).expect("texts and numbers can be written to memory");
}

/// Appends `{"name":"value",…}`.
pub(crate) fn put_labels(out: &mut Vec<u8>, labels: LabelBlock<'_>) {
    out.push(b'{');
    for (i, (name, value)) in labels.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        put_label_text(out, name);
        out.push(b':');
        put_label_text(out, value);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::Labels;

    #[test]
    fn answers_have_prometheus_shape() {
        assert_eq!(success(["a"], &[]), br#"{"status":"success","data":["a"]}"#);
        let warned = success(["a"], &["w"]);
        assert_eq!(warned, br#"{"status":"success","data":["a"],"warnings":["w"]}"#);
        let refused = error(&ReadRejected::BadRequest("a \"b\"".into()));
        assert_eq!(refused, r#"{"status":"error","errorType":"bad_data","error":"a \"b\""}"#);
    }

    #[test]
    fn texts_are_as_serde_writes_them() {
        let odd = (0..=0x80).filter_map(char::from_u32).map(|c| format!("a{c}b"));
        for text in odd.chain(["".to_owned(), "é\u{2028}".to_owned()]) {
            let mut out = Vec::new();
            put_text(&mut out, &text);
            assert_eq!(out, serde_json::to_vec(&text).unwrap(), "{text:?}");
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut out = Vec::new();
        let labels = Labels::from_pairs([("a", "\"\n"), ("é", "x")]).to_canonical();
        put_labels(&mut out, LabelBlock(&labels));
        assert_eq!(out, "{\"a\":\"\\\"\\n\",\"é\":\"x\"}".as_bytes());
    }
}
