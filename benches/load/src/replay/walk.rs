//! Walks a remote write body down to every label and sample and keeps nothing: the least that a
//! receiver must do. It checks what it needs to walk on, no more.

use crate::encode::RemoteWrite;

/// What a walk came by.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    /// Samples.
    pub samples: usize,
    /// Label pairs.
    pub labels: usize,
    /// Bytes of label names and values.
    pub label_bytes: usize,
    /// The sum of all values.
    pub value_sum: f64,
    /// The newest timestamp.
    pub timestamp_max_ms: u64,
}

/// The body isn't what senders send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a remote write body")]
pub struct Malformed;

/// Walks one body. `on_series` gets the bytes that stand for a series' labels: its whole label
/// fields in 1.0, its symbol references in 2.0. `symbols` is scratch, kept for its capacity.
pub fn walk<'a>(
    version: RemoteWrite,
    body: &'a [u8],
    tally: &mut Tally,
    symbols: &mut Vec<&'a [u8]>,
    on_series: impl FnMut(&[u8]),
) -> Result<(), Malformed> {
    match version {
        RemoteWrite::V1 => walk_v1(body, tally, on_series),
        RemoteWrite::V2 => walk_v2(body, tally, symbols, on_series),
    }
}

fn walk_v1(body: &[u8], tally: &mut Tally, mut on_series: impl FnMut(&[u8])) -> Result<(), Malformed> {
    let mut fields = Reader(body);
    while let Some((number, value)) = fields.next()? {
        if number != 1 {
            continue;
        }
        let series = value.bytes()?;
        let mut labels_end = 0;
        let mut fields = Reader(series);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => {
                    walk_label(value.bytes()?, tally)?;
                    labels_end = series.len() - fields.0.len();
                }
                2 => walk_sample(value.bytes()?, tally)?,
                _ => {}
            }
        }
        on_series(&series[..labels_end]);
    }
    Ok(())
}

fn walk_label(label: &[u8], tally: &mut Tally) -> Result<(), Malformed> {
    let mut fields = Reader(label);
    while let Some((_, value)) = fields.next()? {
        tally.label_bytes += value.bytes()?.len();
    }
    tally.labels += 1;
    Ok(())
}

fn walk_v2<'a>(
    body: &'a [u8],
    tally: &mut Tally,
    symbols: &mut Vec<&'a [u8]>,
    mut on_series: impl FnMut(&[u8]),
) -> Result<(), Malformed> {
    symbols.clear();
    let mut fields = Reader(body);
    while let Some((number, value)) = fields.next()? {
        match number {
            4 => symbols.push(value.bytes()?),
            5 => {
                let mut references: &[u8] = &[];
                let mut fields = Reader(value.bytes()?);
                while let Some((number, value)) = fields.next()? {
                    match number {
                        1 => {
                            references = value.bytes()?;
                            walk_references(references, symbols, tally)?;
                        }
                        2 => walk_sample(value.bytes()?, tally)?,
                        _ => {}
                    }
                }
                on_series(references);
            }
            _ => {}
        }
    }
    Ok(())
}

fn walk_references(references: &[u8], symbols: &[&[u8]], tally: &mut Tally) -> Result<(), Malformed> {
    let mut reader = Reader(references);
    let mut strings = 0;
    while !reader.0.is_empty() {
        let symbol = symbols.get(reader.varint()? as usize).ok_or(Malformed)?;
        tally.label_bytes += symbol.len();
        strings += 1;
    }
    tally.labels += strings / 2;
    Ok(())
}

fn walk_sample(sample: &[u8], tally: &mut Tally) -> Result<(), Malformed> {
    let mut fields = Reader(sample);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Number(bits)) => tally.value_sum += f64::from_bits(bits),
            (2, Value::Number(timestamp_ms)) => {
                tally.timestamp_max_ms = tally.timestamp_max_ms.max(timestamp_ms)
            }
            _ => {}
        }
    }
    tally.samples += 1;
    Ok(())
}

/// What is left to read of a message.
struct Reader<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    #[inline(always)]
    fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Number(_) => Err(Malformed),
        }
    }
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                let (number, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
                self.0 = rest;
                Value::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let length = self.varint()? as usize;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
                self.0 = rest;
                Value::Bytes(bytes)
            }
            _ => return Err(Malformed),
        };
        Ok(Some((key >> 3, value)))
    }

    #[inline(always)]
    fn varint(&mut self) -> Result<u64, Malformed> {
        // Nearly all keys, lengths and references are one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        let mut value = 0;
        for (i, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use crate::encode::{Encoder, MetricType, Sample};
    use crate::scrapes::DefineSeries;

    use super::*;

    fn check(version: RemoteWrite, body: &[u8], expected: Result<(), Malformed>) {
        assert_eq!(walk(version, body, &mut Tally::default(), &mut Vec::new(), |_| {}), expected);
    }

    #[test]
    fn bodies_of_both_versions_are_walked_to_the_last_sample() {
        let labels = [("__name__".to_owned(), "up".to_owned()), ("job".to_owned(), "node".to_owned())];
        let sample = |timestamp_ms, value| Sample { series: 0, timestamp_ms, value };
        for version in [RemoteWrite::V1, RemoteWrite::V2] {
            let mut encoder = Encoder::new(version);
            encoder.define(0, &labels, MetricType::Gauge, "Whether it is up.");
            let mut body = Vec::new();
            encoder.encode(&[sample(1_700_000_000_000, 1.5), sample(1_700_000_015_000, 0.0)], &mut body);
            let mut tally = Tally::default();
            walk(version, &body, &mut tally, &mut Vec::new(), |_| {}).expect("a body that can be read");
            let label_bytes = 2 * "__name__upjobnode".len();
            let timestamp_max_ms = 1_700_000_015_000;
            assert_eq!(tally, Tally { samples: 2, labels: 4, label_bytes, value_sum: 1.5, timestamp_max_ms });
        }
    }

    #[test]
    fn a_body_cut_short_is_told() {
        check(RemoteWrite::V1, &[0x0a, 0x05, 0x0a], Err(Malformed));
        check(RemoteWrite::V1, &[0x80], Err(Malformed));
    }

    #[test]
    fn a_reference_past_the_symbols_is_told() {
        check(RemoteWrite::V2, &[0x22, 0x00, 0x2a, 0x03, 0x0a, 0x01, 0x00], Ok(()));
        check(RemoteWrite::V2, &[0x22, 0x00, 0x2a, 0x03, 0x0a, 0x01, 0x01], Err(Malformed));
    }
}
