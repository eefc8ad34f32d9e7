//! Recognises a canonical label block in a remote write 1 series, so that it is hashed where it
//! lies. It tells yes or no; why not is found out by the slower way.

use std::ops::Range;

use crate::{
    limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX},
    model::LabelBlock,
};

const LABELS_TAG: u8 = 0x0a;
const NAME_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x12;
const METRIC_NAME: &[u8; 8] = b"__name__";

/// One label of a canonical block, in offsets of the body.
struct CanonicalLabel {
    name: Range<usize>,
    /// The name's first eight bytes, zero-padded: as numbers in the names' own order.
    prefix: u64,
    end: usize,
}

/// Where the canonical label block ends that starts at `start`: at the first field that isn't a
/// label, or at the series' end, where `bytes` end. `None` if the labels aren't canonical.
#[inline]
pub fn block_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let (mut previous, mut previous_prefix) = (start..start, 0);
    let (mut count, mut is_named) = (0, false);
    while bytes.get(at) == Some(&LABELS_TAG) {
        let label = short_label(bytes, at).or_else(|| long_label(bytes, at))?;
        let ascending = previous_prefix < label.prefix
            || (previous_prefix == label.prefix && bytes[previous] < bytes[label.name.clone()]);
        if !ascending {
            return None;
        }
        is_named |= label.prefix == u64::from_be_bytes(*METRIC_NAME) && label.name.len() == 8;
        count += 1;
        at = label.end;
        (previous, previous_prefix) = (label.name, label.prefix);
    }
    let is_whole = is_named && count <= LABELS_MAX && is_utf8(&bytes[start..at]);
    is_whole.then_some(at)
}

/// A label whose lengths take one byte each: nearly all of them.
#[inline(always)]
fn short_label(bytes: &[u8], at: usize) -> Option<CanonicalLabel> {
    let [_tag, len, name_tag, name_len, prefix @ ..] = bytes[at..].first_chunk::<12>()?;
    let (len, name_len) = (usize::from(*len), usize::from(*name_len));
    let value_at = at + 4 + name_len;
    let [value_tag, value_len] = bytes[at..].get(4 + name_len..)?.first_chunk::<2>()?;
    let end = value_at + 2 + usize::from(*value_len);
    let fits = len < 0x80 && len + 2 == end - at && end <= bytes.len();
    let tagged = *name_tag == NAME_TAG && *value_tag == VALUE_TAG;
    if !(fits && tagged && name_len > 0 && *value_len > 0) {
        return None;
    }
    let padding = 8 * 8usize.saturating_sub(name_len) as u32;
    let prefix = u64::from_be_bytes(*prefix) >> padding << padding;
    Some(CanonicalLabel { name: at + 4..value_at, prefix, end })
}

/// Any canonical label.
#[cold]
fn long_label(bytes: &[u8], at: usize) -> Option<CanonicalLabel> {
    let label = take_field(bytes, at, LABELS_TAG)?;
    let bytes = &bytes[..label.end];
    let name = take_field(bytes, label.start, NAME_TAG)?;
    let value = take_field(bytes, name.end, VALUE_TAG)?;
    let lengths_fit = (1..=LABEL_NAME_BYTES_MAX).contains(&name.len())
        && (1..=LABEL_VALUE_BYTES_MAX).contains(&value.len());
    if !lengths_fit || value.end != label.end {
        return None;
    }
    let mut prefix = [0; 8];
    let known = name.len().min(8);
    prefix[..known].copy_from_slice(&bytes[name.start..][..known]);
    Some(CanonicalLabel { name, prefix: u64::from_be_bytes(prefix), end: label.end })
}

/// A length-delimited field with this tag and a minimal length. No canonical length takes more
/// than two bytes.
fn take_field(bytes: &[u8], at: usize, tag: u8) -> Option<Range<usize>> {
    let (start, len) = match *bytes.get(at..)? {
        [first, len, ..] if first == tag && len < 0x80 => (at + 2, usize::from(len)),
        [first, low, high, ..] if first == tag && (1..0x80).contains(&high) => {
            (at + 3, usize::from(low & 0x7f) | usize::from(high) << 7)
        }
        _ => return None,
    };
    (len <= bytes.len() - start).then(|| start..start + len)
}
const _: () = assert!(LABEL_NAME_BYTES_MAX + LABEL_VALUE_BYTES_MAX + 16 < 1 << 14);

#[inline]
fn is_utf8(block: &[u8]) -> bool {
    let is_text = |bytes| std::str::from_utf8(bytes).is_ok();
    block.is_ascii() || LabelBlock(block).iter().all(|(name, value)| is_text(name) && is_text(value))
}
