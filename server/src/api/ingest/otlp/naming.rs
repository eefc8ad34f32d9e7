//! Names as Prometheus has them, of OTLP's: units and kinds become suffixes, other characters
//! underscores. The rules are those of Prometheus' own receiver as it is set up by default.

/// What a metric is, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedKind {
    /// A sum that only grows.
    Counter,
    /// A value as it is.
    Gauge,
    /// Anything else.
    Other,
}

/// The name of a metric; none where nothing of it is left.
pub(crate) fn metric_name(name: &str, unit: &str, kind: NamedKind) -> Option<String> {
    let mut words: Vec<&str> = name.split(|c| !is_metric_char(c)).filter(|word| !word.is_empty()).collect();
    let (of, per) = unit_suffixes(unit);
    let (of, per) = (of.trim_start_matches('_'), per.trim_end_matches('_'));
    let is_new = |words: &[&str], suffix: &str| !suffix.is_empty() && !words.contains(&suffix);
    let has_per = per != "per" && is_new(&words, per);
    let of = if has_per { of.trim_end_matches('_') } else { of };
    if is_new(&words, of) {
        words.push(of);
    }
    if has_per {
        words.push(per);
    }
    match kind {
        NamedKind::Counter => move_to_end(&mut words, "total"),
        // Counters of unit 1 count things: no ratio is meant.
        NamedKind::Gauge if unit == "1" => move_to_end(&mut words, "ratio"),
        NamedKind::Gauge | NamedKind::Other => {}
    }
    let name = words.join("_");
    match name.bytes().next()? {
        b'0'..=b'9' => Some(format!("_{name}")),
        _other => Some(name),
    }
}

/// A unit as metadata has it: in words, as the name's suffix has it.
pub(crate) fn unit_name(unit: &str) -> String {
    let (of, per) = unit_suffixes(unit);
    let words = [of.trim_matches('_'), per.trim_matches('_')];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

fn is_metric_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == ':'
}

fn move_to_end<'a>(words: &mut Vec<&'a str>, word: &'a str) {
    words.retain(|other| *other != word);
    words.push(word);
}

/// `By/s` → `bytes`, `per_second`, in characters that a name may have.
fn unit_suffixes(unit: &str) -> (String, String) {
    let (of, per) = unit.split_once('/').unwrap_or((unit, ""));
    // In braces is what is counted, and no unit.
    let bare = |unit: &str| Some(unit.trim().to_owned()).filter(|unit| !unit.contains(['{', '}']));
    let of = bare(of).map_or(String::new(), |of| unit_word(&of).map_or(of, str::to_owned));
    let per = match bare(per) {
        Some(per) if !per.is_empty() => format!("per_{}", per_unit_word(&per).unwrap_or(&per)),
        Some(_) | None => String::new(),
    };
    (underscored(&of), underscored(&per))
}

/// Runs of other characters become one underscore.
fn underscored(unit: &str) -> String {
    let mut out = String::with_capacity(unit.len());
    for c in unit.chars().map(|c| if is_metric_char(c) { c } else { '_' }) {
        if c != '_' || !out.ends_with('_') {
            out.push(c);
        }
    }
    out
}

fn unit_word(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "d" => "days",
        "h" => "hours",
        "min" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        "By" => "bytes",
        "KiBy" => "kibibytes",
        "MiBy" => "mebibytes",
        "GiBy" => "gibibytes",
        "TiBy" => "tibibytes",
        "KBy" => "kilobytes",
        "MBy" => "megabytes",
        "GBy" => "gigabytes",
        "TBy" => "terabytes",
        "m" => "meters",
        "V" => "volts",
        "A" => "amperes",
        "J" => "joules",
        "W" => "watts",
        "g" => "grams",
        "Cel" => "celsius",
        "Hz" => "hertz",
        "1" => "",
        "%" => "percent",
        _unknown => return None,
    })
}

fn per_unit_word(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "s" => "second",
        "m" => "minute",
        "h" => "hour",
        "d" => "day",
        "w" => "week",
        "mo" => "month",
        "y" => "year",
        _unknown => return None,
    })
}

/// Why an attribute's key makes no label name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelNameError {
    /// It is empty.
    Empty,
    /// Nothing but underscores is left of it.
    NothingLeft,
}

/// The label name of an attribute's key.
pub(crate) fn label_name(key: &str) -> Result<String, LabelNameError> {
    let mut name: String =
        key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    match name.bytes().next().ok_or(LabelNameError::Empty)? {
        b'0'..=b'9' => name.insert_str(0, "key_"),
        b'_' if !name.starts_with("__") => name.insert_str(0, "key"),
        _other => {}
    }
    let is_left = name == key || name.bytes().any(|c| c != b'_');
    if is_left { Ok(name) } else { Err(LabelNameError::NothingLeft) }
}

#[cfg(test)]
mod tests {
    use super::NamedKind::{Counter, Gauge, Other};
    use super::*;

    fn check(name: &str, unit: &str, kind: NamedKind, expect: &str) {
        let translated = metric_name(name, unit, kind);
        assert_eq!(translated.as_deref(), (!expect.is_empty()).then_some(expect), "{name} {unit} {kind:?}");
    }

    #[test]
    fn other_characters_become_one_underscore_between_words() {
        check("http.server.duration", "", Other, "http_server_duration");
        check("metric@@##$$name", "", Gauge, "metric_name");
        check("metric__with__many", "", Gauge, "metric_with_many");
        check("_leading.and.trailing_", "", Gauge, "leading_and_trailing");
        check("rule:sum", "", Gauge, "rule:sum");
        check("temperatur.höhe", "", Gauge, "temperatur_h_he");
        check("123metric", "", Gauge, "_123metric");
        check("@#$%", "", Gauge, "");
        check("", "", Gauge, "");
    }

    #[test]
    fn units_become_suffixes() {
        check("response_time", "ms", Gauge, "response_time_milliseconds");
        check("memory.usage", "By", Gauge, "memory_usage_bytes");
        check("request.duration", "s", Other, "request_duration_seconds");
        check("response_time_seconds", "s", Gauge, "response_time_seconds");
        check("requests", "1/s", Gauge, "requests_per_second");
        check("throughput", "By/s", Gauge, "throughput_bytes_per_second");
        check("throughput", " By / s ", Gauge, "throughput_bytes_per_second");
        check("custom_metric", "custom_unit", Gauge, "custom_metric_custom_unit");
        check("custom_metric", "{custom}", Gauge, "custom_metric");
        check("custom_metric", "By/{custom}", Gauge, "custom_metric_bytes");
        check("custom_metric", "unit@with#special/chars", Gauge, "custom_metric_unit_with_special_per_chars");
        check("metric", "unit__of__many", Gauge, "metric_unit_of_many");
        check("load", "%", Gauge, "load_percent");
        check("@#", "s", Gauge, "seconds");
    }

    #[test]
    fn counters_end_in_total_and_gauges_of_unit_1_in_ratio() {
        check("requests", "", Counter, "requests_total");
        check("requests_total", "", Counter, "requests_total");
        check("total.requests", "", Counter, "requests_total");
        check("items", "1", Counter, "items_total");
        check("cpu.time", "s", Counter, "cpu_time_seconds_total");
        check("requests", "1/s", Counter, "requests_per_second_total");
        check("cpu_usage", "1", Gauge, "cpu_usage_ratio");
        check("cpu_usage_ratio", "1", Gauge, "cpu_usage_ratio");
        check("active", "1", Other, "active");
    }

    fn check_label(key: &str, expect: Result<&str, LabelNameError>) {
        assert_eq!(label_name(key), expect.map(str::to_owned), "{key}");
    }

    #[test]
    fn keys_become_label_names() {
        check_label("http.method", Ok("http_method"));
        check_label("a..b", Ok("a__b"));
        check_label("123", Ok("key_123"));
        check_label("_private", Ok("key_private"));
        check_label("__reserved__", Ok("__reserved__"));
        check_label("höhe", Ok("h_he"));
        check_label("a:b", Ok("a_b"));
        check_label("___", Ok("___"));
        check_label("", Err(LabelNameError::Empty));
        check_label("..", Err(LabelNameError::NothingLeft));
    }
}
