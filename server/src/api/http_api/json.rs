//! The shape of Prometheus' answers: `{"status":"success","data":…}` or
//! `{"status":"error","errorType":"…","error":"…"}`.

use serde::Serialize;

use crate::api::read_fault::ReadFault;
use crate::model::LabelBlock;

/// The answers' content type.
pub const CONTENT_TYPE: &str = "application/json";

/// What a limit cut off is told in.
pub const TRUNCATED: &str = "results truncated due to limit";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Error<'a> {
    status: &'a str,
    error_type: &'a str,
    error: String,
}

/// An answer with its warnings.
pub fn success(data: impl Serialize, warnings: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    put_begin(&mut out);
    serde_json::to_writer(&mut out, &data).expect("answers are made of text and numbers");
    put_end(&mut out, warnings);
    out
}

/// Appends what stands before an answer.
pub fn put_begin(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"status\":\"success\",\"data\":");
}

/// Appends what stands after an answer.
pub fn put_end(out: &mut Vec<u8>, warnings: &[&str]) {
    if !warnings.is_empty() {
        out.extend_from_slice(b",\"warnings\":");
        serde_json::to_writer(&mut *out, warnings).expect("a text can be written to memory");
    }
    out.push(b'}');
}

/// A refusal.
pub fn error(fault: &ReadFault) -> String {
    let error = Error { status: "error", error_type: fault.error_type(), error: fault.to_string() };
    serde_json::to_string(&error).expect("an error is made of texts")
}

/// Appends a text in quotes.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text);
}

/// Appends what is made of texts and numbers.
pub fn put(out: &mut Vec<u8>, data: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, data).expect("texts and numbers can be written to memory");
}

/// Appends `{"name":"value",…}`.
pub fn put_labels(out: &mut Vec<u8>, labels: LabelBlock<'_>) {
    out.push(b'{');
    for (i, (name, value)) in labels.texts().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        put_text(out, value);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Labels;

    #[test]
    fn answers_have_prometheus_shape() {
        assert_eq!(success(["a"], &[]), br#"{"status":"success","data":["a"]}"#);
        let warned = success(["a"], &["w"]);
        assert_eq!(warned, br#"{"status":"success","data":["a"],"warnings":["w"]}"#);
        let refused = error(&ReadFault::BadRequest("a \"b\"".into()));
        assert_eq!(refused, r#"{"status":"error","errorType":"bad_data","error":"a \"b\""}"#);
    }

    #[test]
    fn labels_are_escaped() {
        let mut out = Vec::new();
        let labels = Labels::from_pairs([("a", "\"\n"), ("é", "x")]).to_canonical();
        put_labels(&mut out, LabelBlock(&labels));
        assert_eq!(out, "{\"a\":\"\\\"\\n\",\"é\":\"x\"}".as_bytes());
    }
}
