//! Samples as lines, written by each format's own rules.

use silverback_model::{Labels, Sample};

/// A sample as a line in Prometheus' text format, all names in quotes. Times that would be taken for seconds are
/// written as such.
pub(super) fn prometheus(labels: &Labels, sample: Sample) -> String {
    let quoted = |text: &str| {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("\"{escaped}\"")
    };
    let label = |(name, value): &(Box<str>, Box<str>)| match &**name {
        "__name__" => quoted(value),
        name => format!("{}={}", quoted(name), quoted(value)),
    };
    let labels: Vec<String> = labels.0.iter().map(label).collect();
    let ms = sample.timestamp_ms;
    let time = match ms.unsigned_abs() <= i32::MAX as u64 {
        true => format!("{}{}.{:03}", if ms < 0 { "-" } else { "" }, ms.abs() / 1000, ms.abs() % 1000),
        false => ms.to_string(),
    };
    format!("{{{}}} {} {time}\n", labels.join(", "), sample.value)
}

/// A finite sample as a line in InfluxDB's line protocol, in ms. Its series' name is split where measurement and field
/// can both be written; `None`, if it can't be, which no line gives.
pub(super) fn influx(labels: &Labels, sample: Sample) -> Option<String> {
    let key = |text: &str| text.replace(',', "\\,").replace(' ', "\\ ").replace('=', "\\=");
    let name = labels.get("__name__")?;
    let is_split = |(at, _): &(usize, &str)| *at > 0 && !name[..*at].ends_with('\\') && *at + 1 < name.len();
    let (at, _) = name.match_indices('_').find(is_split)?;
    let mut line = name[..at].replace(',', "\\,").replace(' ', "\\ ");
    for (name, value) in labels.0.iter().filter(|(name, _)| &**name != "__name__") {
        line.push_str(&format!(",{}={}", key(name), key(value)));
    }
    line.push_str(&format!(" {}={} {}\n", key(&name[at + 1..]), sample.value, sample.timestamp_ms));
    Some(line)
}
