//! Two answers to an expression: whether they say the same.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::expressions::Knowledge;

/// What two answers have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are the same.
    Same,
    /// Neither has series.
    Empty,
    /// Both refuse, for the same reason.
    Error,
    /// Prometheus doesn't know what it is asked.
    Unknown,
}

/// How far two floats may be apart, of the larger one: the order of additions changes last digits, and differences of
/// numbers that are nearly the same have but few.
const TOLERANCE: f64 = 1e-9;
/// Or by themselves: what rounding leaves of numbers that cancel each other out.
const LEFT_OVER: f64 = 1e-12;

/// Compares the node's answer with Prometheus'. Or says what differs.
pub(super) fn compare(ours: &Value, theirs: &Value, knows: Knowledge) -> Result<Verdict, String> {
    let is_error = |answer: &Value| answer["status"] != "success";
    match (is_error(ours), is_error(theirs)) {
        (true, true) => return compare_errors(ours, theirs, knows),
        (false, true) if knows == Knowledge::Former && theirs["errorType"] == "bad_data" => {
            return Ok(Verdict::Unknown);
        }
        // It looked after the comparison only.
        (true, false)
            if knows == Knowledge::Former && ours["error"].to_string().contains("multiple matches") =>
        {
            return Ok(Verdict::Unknown);
        }
        (false, false) => {}
        (true, false) | (false, true) => {
            return Err(format!("ours {}, theirs {}", short(ours), short(theirs)));
        }
    }
    let (ours_type, theirs_type) = (&ours["data"]["resultType"], &theirs["data"]["resultType"]);
    if ours_type != theirs_type {
        return Err(format!("ours is a {ours_type}, theirs a {theirs_type}"));
    }
    if knows == Knowledge::Current {
        for notes in ["warnings", "infos"] {
            compare_notes(&ours[notes], &theirs[notes])?;
        }
    }
    let (ours, theirs) = (&ours["data"]["result"], &theirs["data"]["result"]);
    if ours_type == "scalar" || ours_type == "string" {
        compare_samples(ours, theirs)?;
        return Ok(Verdict::Same);
    }
    let (ours, theirs) = (by_labels(ours)?, by_labels(theirs)?);
    for (labels, of_theirs) in &theirs {
        let of_ours =
            ours.get(labels).ok_or_else(|| format!("{labels}: theirs alone, {}", short(of_theirs)))?;
        compare_series(of_ours, of_theirs).map_err(|difference| format!("{labels}: {difference}"))?;
    }
    match ours.iter().find(|(labels, _)| !theirs.contains_key(*labels)) {
        Some((labels, series)) => Err(format!("{labels}: ours alone, {}", short(series))),
        None if ours.is_empty() => Ok(Verdict::Empty),
        None => Ok(Verdict::Same),
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    text.truncate(text.floor_char_boundary(400));
    text
}

fn compare_errors(ours: &Value, theirs: &Value, knows: Knowledge) -> Result<Verdict, String> {
    let fields: &[&str] = match knows {
        Knowledge::Current => &["errorType", "error"],
        Knowledge::Former => &["errorType"],
    };
    // Of several faults of matching, and of several duplicates, which is met first depends on the order of series.
    let cut = |answer: &Value, field: &str| match answer[field].as_str().unwrap_or_default() {
        text if text.starts_with("found duplicate series for the match group ") => "matching".to_owned(),
        text if text.starts_with("multiple matches for labels: ") => "matching".to_owned(),
        text => text.to_owned(),
    };
    match fields.iter().find(|field| cut(ours, field) != cut(theirs, field)) {
        None => Ok(Verdict::Error),
        Some(_) => Err(format!("ours {}, theirs {}", short(ours), short(theirs))),
    }
}

fn compare_notes(ours: &Value, theirs: &Value) -> Result<(), String> {
    let list = |notes: &Value| notes.as_array().cloned().unwrap_or_default();
    let (ours, theirs) = (list(ours), list(theirs));
    // Of more than are shown, Prometheus shows any.
    let is_cut = |notes: &[Value]| notes.iter().any(|note| note.to_string().contains("annotations omitted"));
    if is_cut(&ours) && is_cut(&theirs) && ours.len() == theirs.len() {
        return Ok(());
    }
    // Without their places, because of one that comes at several any may be shown; and without the count of samples
    // that weren't monotonic, which Prometheus doubles at each step.
    let text = |note: &Value| {
        let text = note.as_str().unwrap_or_default();
        let text = text.rsplit_once(" (").map_or(text, |(text, _place)| text);
        text.split_once(", over ").map_or(text, |(text, _count)| text).to_owned()
    };
    let set = |notes: &[Value]| -> BTreeSet<String> { notes.iter().map(text).collect() };
    let (ours, theirs) = (set(&ours), set(&theirs));
    if ours == theirs { Ok(()) } else { Err(format!("ours says {ours:?}, theirs {theirs:?}")) }
}

fn by_labels(result: &Value) -> Result<BTreeMap<String, &Value>, String> {
    let mut series = BTreeMap::new();
    for one in result.as_array().into_iter().flatten() {
        // serde_json's maps are sorted by name.
        let labels = one["metric"].to_string();
        if series.insert(labels.clone(), one).is_some() {
            return Err(format!("{labels} occurs there twice"));
        }
    }
    Ok(series)
}

fn compare_series(ours: &Value, theirs: &Value) -> Result<(), String> {
    for samples in ["value", "histogram"] {
        compare_samples(&ours[samples], &theirs[samples])?;
    }
    for samples in ["values", "histograms"] {
        let list = |series: &Value| series[samples].as_array().cloned().unwrap_or_default();
        let (ours, theirs) = (list(ours), list(theirs));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            compare_samples(ours, theirs)?;
        }
        if ours.len() != theirs.len() {
            return Err(format!("{} {samples} of ours, {} of theirs", ours.len(), theirs.len()));
        }
    }
    Ok(())
}

/// Of `[time, "value"]`, of `[time, {histogram}]`, or of neither.
fn compare_samples(ours: &Value, theirs: &Value) -> Result<(), String> {
    if is_same(ours, theirs) {
        Ok(())
    } else {
        Err(format!("ours {}, theirs {}", short(ours), short(theirs)))
    }
}

fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .all(|(name, ours)| theirs.get(name).is_some_and(|theirs| is_same(ours, theirs)))
        }
        (Value::String(ours), Value::String(theirs)) => ours == theirs || is_near(ours, theirs),
        (ours, theirs) => ours == theirs,
    }
}

fn is_near(ours: &str, theirs: &str) -> bool {
    let (Ok(ours), Ok(theirs)) = (ours.parse::<f64>(), theirs.parse::<f64>()) else { return false };
    let apart = LEFT_OVER.max(TOLERANCE * ours.abs().max(theirs.abs()));
    ours == theirs || (apart.is_finite() && (ours - theirs).abs() <= apart)
}

#[test]
fn what_differs_is_seen() {
    let answer = |result: &str| -> Value {
        let text = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#);
        serde_json::from_str(&text).unwrap()
    };
    let one =
        |labels: &str, value: &str| answer(&format!(r#"{{"metric":{{{labels}}},"value":[1,"{value}"]}}"#));
    let of = |ours: &Value, theirs: &Value| compare(ours, theirs, Knowledge::Current);
    let whole = one(r#""a":"1""#, "2");
    assert_eq!(of(&whole, &whole), Ok(Verdict::Same));
    assert_eq!(of(&whole, &one(r#""a":"1""#, "2.0000000000000004")), Ok(Verdict::Same));
    assert_eq!(of(&answer(""), &answer("")), Ok(Verdict::Empty));
    assert!(of(&one(r#""a":"1""#, "+Inf"), &one(r#""a":"1""#, "-Inf")).is_err());
    let error: Value =
        serde_json::from_str(r#"{"status":"error","errorType":"bad_data","error":"no"}"#).unwrap();
    assert_eq!(of(&error, &error), Ok(Verdict::Error));
    for other in [
        one(r#""a":"1""#, "+Inf"),
        one(r#""a":"1""#, "2.00001"),
        one(r#""a":"1""#, "NaN"),
        one(r#""a":"2""#, "2"),
        answer(""),
        error,
    ] {
        assert!(of(&whole, &other).is_err() && of(&other, &whole).is_err(), "{other}");
    }
}
