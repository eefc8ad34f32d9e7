//! The values of attributes as label values: text as it is, numbers and lists as OpenTelemetry
//! writes them for systems that know text alone.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use serde_json::Value as Json;
use silverback_proto::otlp::common::v1::any_value::Value;
use silverback_proto::otlp::common::v1::{AnyValue, KeyValue};

/// A value as text; empty where there is none.
pub(crate) fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        None => String::new(),
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(is_true)) => is_true.to_string(),
        Some(Value::IntValue(int)) => int.to_string(),
        Some(Value::DoubleValue(double)) => number(*double),
        Some(Value::BytesValue(bytes)) => BASE64.encode(bytes),
        Some(list @ (Value::ArrayValue(_) | Value::KvlistValue(_))) => json(Some(list)).to_string(),
    }
}

fn json(value: Option<&Value>) -> Json {
    match value {
        None => Json::Null,
        Some(Value::StringValue(text)) => text.as_str().into(),
        Some(Value::BoolValue(is_true)) => (*is_true).into(),
        Some(Value::IntValue(int)) => (*int).into(),
        Some(Value::DoubleValue(double)) => {
            // As a whole number where it is one: JSON's 1.0 is its 1.
            let whole = *double as i64;
            if whole as f64 == *double { whole.into() } else { (*double).into() }
        }
        Some(Value::BytesValue(bytes)) => BASE64.encode(bytes).into(),
        Some(Value::ArrayValue(list)) => list.values.iter().map(|value| json(value.value.as_ref())).collect(),
        Some(Value::KvlistValue(list)) => Json::Object(list.values.iter().map(member).collect()),
    }
}

fn member(pair: &KeyValue) -> (String, Json) {
    (pair.key.clone(), json(pair.value.as_ref().and_then(|value| value.value.as_ref())))
}

/// The shortest digits that are the number, very large and very small ones with an exponent.
fn number(double: f64) -> String {
    let size = double.abs();
    match double {
        nan if nan.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        large if size >= 1e21 => format!("{large:e}").replacen('e', "e+", 1),
        small if size < 1e-6 && size > 0.0 => format!("{small:e}"),
        usual => usual.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use silverback_proto::otlp::common::v1::{ArrayValue, KeyValueList};

    use super::*;

    fn any(value: Value) -> AnyValue {
        AnyValue { value: Some(value) }
    }

    fn check(value: Value, expect: &str) {
        assert_eq!(text(Some(&any(value.clone()))), expect, "{value:?}");
    }

    #[test]
    fn single_values_are_plain_text() {
        check(Value::StringValue("a \"b\"".into()), "a \"b\"");
        check(Value::BoolValue(true), "true");
        check(Value::IntValue(-7), "-7");
        check(Value::BytesValue(vec![1, 2, 0xff].into()), "AQL/");
        check(Value::BytesValue(b"a".to_vec().into()), "YQ==");
        check(Value::BytesValue(b"ab".to_vec().into()), "YWI=");
        assert_eq!(text(None), "");
        assert_eq!(text(Some(&AnyValue { value: None })), "");
    }

    #[test]
    fn numbers_have_no_more_digits_than_they_need() {
        check(Value::DoubleValue(1.0), "1");
        check(Value::DoubleValue(-0.25), "-0.25");
        check(Value::DoubleValue(1e20), "100000000000000000000");
        check(Value::DoubleValue(1.5e21), "1.5e+21");
        check(Value::DoubleValue(2.5e-7), "2.5e-7");
        check(Value::DoubleValue(f64::INFINITY), "+Inf");
        check(Value::DoubleValue(f64::NAN), "NaN");
    }

    #[test]
    fn lists_are_json() {
        let values =
            vec![any(Value::StringValue("a".into())), any(Value::DoubleValue(1.0)), AnyValue { value: None }];
        check(Value::ArrayValue(ArrayValue { values: values.clone() }), "[\"a\",1,null]");
        let pair = |key: &str, value| KeyValue { key: key.into(), value: Some(value) };
        let list = vec![
            pair("b", any(Value::ArrayValue(ArrayValue { values }))),
            pair("a", any(Value::BoolValue(false))),
        ];
        check(Value::KvlistValue(KeyValueList { values: list }), "{\"a\":false,\"b\":[\"a\",1,null]}");
    }
}
