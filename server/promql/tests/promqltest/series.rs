//! A line of a script: a series with values, `up{job="a"} 1 2+3x4 _ stale {{sum:1 count:2 buckets:[1 1]}}`.

use silverback_model::selector::parse_selector;
use silverback_model::{Labels, STALE_NAN_BITS};
use silverback_promql::histogram::{FloatHistogram, ResetHint};

/// A value, or none at its step.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    Omitted,
    Float(f64),
    /// With whether the hint was written.
    Histogram(Box<FloatHistogram>, bool),
}

pub(crate) fn parse_line(line: &str) -> Result<(Labels, Vec<Item>), String> {
    let (metric, values) = split_metric(line);
    Ok((parse_labels(metric)?, parse_values(values)?))
}

pub(crate) fn parse_labels(metric: &str) -> Result<Labels, String> {
    let metric = metric.trim();
    if metric.is_empty() || metric == "{}" {
        return Ok(Labels::default());
    }
    let matchers = parse_selector(metric, 1000).map_err(|error| format!("{metric}: {error}"))?;
    let pairs = matchers.into_iter().map(|parsed| (parsed.matcher.name, parsed.matcher.value));
    Ok(Labels::from_pairs(pairs.filter(|(_, value)| !value.is_empty())))
}

/// The metric and what follows it.
fn split_metric(line: &str) -> (&str, &str) {
    let mut quote = None;
    let mut in_braces = false;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some('"' | '\''), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '{') => in_braces = true,
            (None, '}') => return line.split_at(at + 1),
            (None, ' ' | '\t') if !in_braces => return line.split_at(at),
            (None, _) => {}
        }
    }
    (line, "")
}

fn parse_values(text: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if rest.starts_with("{{") {
            rest = histograms(rest, &mut items)?;
        } else {
            let end = rest.find([' ', '\t']).unwrap_or(rest.len());
            floats(&rest[..end], &mut items)?;
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(items)
}

fn floats(token: &str, items: &mut Vec<Item>) -> Result<(), String> {
    let (value, times) = match token.rsplit_once('x') {
        Some((value, times)) => (value, Some(count(times)?)),
        None => (token, None),
    };
    if value == "_" {
        items.extend(std::iter::repeat_n(Item::Omitted, times.unwrap_or(1)));
        return Ok(());
    }
    let Some(times) = times else {
        items.push(Item::Float(number(value)?));
        return Ok(());
    };
    let bytes = value.as_bytes();
    let split = (1..bytes.len())
        .find(|at| matches!(bytes[*at], b'+' | b'-') && !matches!(bytes[*at - 1], b'e' | b'E'));
    let (start, step) = match split {
        Some(at) => (number(&value[..at])?, number(&value[at..])?),
        None => (number(value)?, 0.0),
    };
    let mut value = start;
    for _ in 0..=times {
        items.push(Item::Float(value));
        value += step;
    }
    Ok(())
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text:?} is no count"))
}

pub(crate) fn number(text: &str) -> Result<f64, String> {
    let plain = text.strip_prefix('+').unwrap_or(text).replace('_', "");
    match plain.to_ascii_lowercase().as_str() {
        "stale" => Ok(f64::from_bits(STALE_NAN_BITS)),
        "nan" => Ok(f64::NAN),
        "inf" => Ok(f64::INFINITY),
        "-inf" => Ok(f64::NEG_INFINITY),
        hexadecimal if hexadecimal.starts_with("0x") => i64::from_str_radix(&hexadecimal[2..], 16)
            .map(|value| value as f64)
            .map_err(|error| error.to_string()),
        other => match other.parse() {
            Ok(value) => Ok(value),
            Err(_) => silverback_promql::parse_duration_ms(other).map(|ms| ms as f64 / 1000.0),
        },
    }
}

/// A histogram, once or several times; what follows.
fn histograms<'a>(text: &'a str, items: &mut Vec<Item>) -> Result<&'a str, String> {
    let (mut current, is_hinted, mut rest) = histogram(text)?;
    let mut change: Option<(bool, FloatHistogram)> = None;
    let mut is_change_hinted = is_hinted;
    if let Some(sign @ ('+' | '-')) = rest.chars().next()
        && rest[1..].starts_with("{{")
    {
        let (step, is_step_hinted, after) = histogram(&rest[1..])?;
        change = Some((sign == '+', step));
        is_change_hinted = is_step_hinted;
        rest = after;
    }
    let Some(after) = rest.strip_prefix('x') else {
        items.push(Item::Histogram(Box::new(current), is_hinted));
        return Ok(rest);
    };
    let end = after.find([' ', '\t']).unwrap_or(after.len());
    for i in 0..=count(&after[..end])? {
        let is_hinted = if i == 0 { is_hinted } else { is_change_hinted };
        items.push(Item::Histogram(Box::new(current.clone()), is_hinted));
        current = match &change {
            Some((true, step)) => current.added(step).ok_or("histograms that can't be added")?,
            Some((false, step)) => current.subtracted(step).ok_or("histograms that can't be subtracted")?,
            None => current,
        };
    }
    Ok(&after[end..])
}

fn histogram(text: &str) -> Result<(FloatHistogram, bool, &str), String> {
    let end = text.find("}}").ok_or("a histogram without an end")?;
    let (fields, rest) = (&text[2..end], &text[end + 2..]);
    let mut histogram = FloatHistogram::default();
    let (mut positive, mut negative) = ((0, Vec::new()), (0, Vec::new()));
    let mut is_hinted = false;
    let mut left = fields.trim();
    while !left.is_empty() {
        let (name, after) = left.split_once(':').ok_or_else(|| format!("{left:?} is no field"))?;
        let value_end = match after.starts_with('[') {
            true => after.find(']').ok_or("a list without an end")? + 1,
            false => after.find([' ', '\t']).unwrap_or(after.len()),
        };
        let value = &after[..value_end];
        match name {
            "schema" => histogram.schema = integer(value)?,
            "sum" => histogram.sum = number(value)?,
            "count" => histogram.count = number(value)?,
            "z_bucket" => histogram.zero_count = number(value)?,
            "z_bucket_w" => histogram.zero_threshold = number(value)?,
            "custom_values" => histogram.custom_bounds = list(value)?,
            "buckets" => positive.1 = list(value)?,
            "n_buckets" => negative.1 = list(value)?,
            "offset" => positive.0 = integer(value)?,
            "n_offset" => negative.0 = integer(value)?,
            "counter_reset_hint" => {
                is_hinted = true;
                histogram.reset_hint = hint(value)?;
            }
            other => return Err(format!("{other:?} is no field of a histogram")),
        }
        left = after[value_end..].trim_start();
    }
    let indexed = |(offset, counts): (i32, Vec<f64>)| {
        counts.into_iter().enumerate().map(|(i, count)| (offset + i as i32, count)).collect()
    };
    histogram.positive = indexed(positive);
    histogram.negative = indexed(negative);
    Ok((histogram, is_hinted, rest))
}

fn hint(text: &str) -> Result<ResetHint, String> {
    Ok(match text {
        "unknown" => ResetHint::Unknown,
        "reset" => ResetHint::Reset,
        "not_reset" => ResetHint::NotReset,
        "gauge" => ResetHint::Gauge,
        other => return Err(format!("{other:?} is no hint")),
    })
}

fn integer(text: &str) -> Result<i32, String> {
    text.parse().map_err(|_| format!("{text:?} is no whole number"))
}

fn list(text: &str) -> Result<Vec<f64>, String> {
    text.trim_matches(['[', ']']).split_whitespace().map(number).collect()
}
