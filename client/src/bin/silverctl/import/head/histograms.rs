//! The native histograms of a record of the log: integer and float ones, exponential or with custom bounds.

use silverback_block::cursor::Cursor;
use silverback_block::error::BlockSectionError;
use silverback_client::histogram::{
    Buckets, CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, ResetHint, Span,
};
use silverback_model::limits::{HISTOGRAM_BOUNDS_MAX, HISTOGRAM_BUCKETS_MAX, HISTOGRAM_SPANS_MAX};

/// Reads the next one; nothing where it has more buckets, spans or bounds than a node takes.
pub(super) fn read(kind: HistogramKind, cursor: &mut Cursor) -> Result<Option<Histogram>, BlockSectionError> {
    let mut fits = true;
    let hint = hint(cursor.u8()?);
    let schema = cursor.varint()? as i32;
    let zero_threshold = f64::from_bits(cursor.u64()?);
    let (zero_count, count) = (number(kind, cursor)?, number(kind, cursor)?);
    let sum_bits = cursor.u64()?;
    let (mut positive, mut negative) = (Buckets::default(), Buckets::default());
    for side in [&mut positive, &mut negative] {
        side.spans = list(cursor, &mut fits, HISTOGRAM_SPANS_MAX, |cursor| {
            Ok(Span { offset: cursor.varint()? as i32, length: cursor.uvarint()? as u32 })
        })?;
    }
    for side in [&mut positive, &mut negative] {
        side.words = list(cursor, &mut fits, HISTOGRAM_BUCKETS_MAX, |cursor| match kind {
            HistogramKind::Integer => cursor.varint().map(i64::cast_unsigned),
            HistogramKind::Float => cursor.u64(),
        })?;
    }
    let bounds = match schema {
        CUSTOM_BUCKETS_SCHEMA => {
            list(cursor, &mut fits, HISTOGRAM_BOUNDS_MAX, |cursor| cursor.u64().map(f64::from_bits))?
        }
        _exponential => Vec::new(),
    };
    let read = Histogram {
        kind,
        hint,
        schema,
        zero_threshold,
        sum_bits,
        count,
        zero_count,
        positive,
        negative,
        bounds,
    };
    Ok(fits.then_some(read))
}

fn number(kind: HistogramKind, cursor: &mut Cursor) -> Result<u64, BlockSectionError> {
    match kind {
        HistogramKind::Integer => cursor.uvarint(),
        HistogramKind::Float => cursor.u64(),
    }
}

/// As many as are before them. More than may be are read past: each has a byte at least.
fn list<T>(
    cursor: &mut Cursor,
    fits: &mut bool,
    max: usize,
    mut read: impl FnMut(&mut Cursor) -> Result<T, BlockSectionError>,
) -> Result<Vec<T>, BlockSectionError> {
    let count = cursor.uvarint()?;
    if count <= max as u64 {
        return (0..count).map(|_| read(cursor)).collect();
    }
    *fits = false;
    for _ in 0..count {
        read(cursor)?;
    }
    Ok(Vec::new())
}

/// One of a later version counts as none.
const fn hint(byte: u8) -> ResetHint {
    match byte {
        1 => ResetHint::Reset,
        2 => ResetHint::NotReset,
        3 => ResetHint::Gauge,
        _none_or_later => ResetHint::Unknown,
    }
}
