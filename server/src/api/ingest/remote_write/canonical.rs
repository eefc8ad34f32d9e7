//! Recognises the label block of a remote write 1 series, and whether it is canonical, so that it is hashed where it
//! lies. It says yes or no; why not is found out by the slower way.

use silverback_model::{
    LabelBlock,
    limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX},
};

const LABELS_TAG: u8 = 0x0a;
const NAME_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x12;
const METRIC_NAME: &[u8; 8] = b"__name__";

/// No label fields of a good series in the usual form take more.
pub(crate) const FIELDS_BYTES_MAX: usize = LABELS_MAX * (LABEL_NAME_BYTES_MAX + LABEL_VALUE_BYTES_MAX + 16);

/// One label of a canonical block.
struct CanonicalLabel<'a> {
    name: &'a [u8],
    /// The name's first eight bytes, zero-padded: as numbers in the names' own order.
    prefix: u64,
    /// What follows the label.
    rest: &'a [u8],
}

/// Where the label fields end that start at `start`: at the first field that isn't one, or where `bytes` end. Nothing
/// is said of what is in them. `None` where one isn't whole, or longer than any good one.
#[inline]
pub(crate) fn fields_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut rest = &bytes[start..];
    while let Some(&[tag, len]) = rest.first_chunk() {
        if tag != LABELS_TAG {
            return Some(bytes.len() - rest.len());
        }
        rest = if len < 0x80 { rest.get(2 + usize::from(len)..)? } else { take_field(rest, LABELS_TAG)?.1 };
    }
    rest.is_empty().then_some(bytes.len())
}

/// Whether label fields are each a name and a value in the usual form, so that they can be read as a
/// [`LabelBlock`], whatever their order.
pub(crate) fn is_plain(mut fields: &[u8]) -> bool {
    while !fields.is_empty() {
        let Some(label) = short_label(fields).or_else(|| long_label(fields)) else { return false };
        fields = label.rest;
    }
    true
}

/// Whether label fields are a canonical block.
pub(crate) fn is_canonical(fields: &[u8]) -> bool {
    let mut rest = fields;
    let (mut previous, mut previous_prefix) = (&rest[..0], 0);
    let (mut count, mut is_named) = (0, false);
    while !rest.is_empty() {
        let Some(label) = short_label(rest).or_else(|| long_label(rest)) else { return false };
        let ascending =
            previous_prefix < label.prefix || (previous_prefix == label.prefix && previous < label.name);
        if !ascending {
            return false;
        }
        is_named |= label.prefix == u64::from_be_bytes(*METRIC_NAME) && label.name.len() == 8;
        count += 1;
        rest = label.rest;
        (previous, previous_prefix) = (label.name, label.prefix);
    }
    is_named && count <= LABELS_MAX && is_utf8(fields)
}

/// A label whose lengths take one byte each: nearly all of them.
#[inline(always)]
fn short_label(rest: &[u8]) -> Option<CanonicalLabel<'_>> {
    const TAGS: u32 = u32::from_le_bytes([LABELS_TAG, 0, NAME_TAG, 0]);
    const TAGS_AND_SHORT: u32 = u32::from_le_bytes([0xff, 0x80, 0xff, 0]);
    let [tag, len, name_tag, name_len, prefix @ ..] = *rest.first_chunk::<12>()?;
    if u32::from_le_bytes([tag, len, name_tag, name_len]) & TAGS_AND_SHORT != TAGS {
        return None;
    }
    let (len, name_len) = (usize::from(len), usize::from(name_len));
    let (label, rest) = rest.split_at_checked(2 + len)?;
    let (name, value) = label.get(4..)?.split_at_checked(name_len)?;
    let [value_tag, value_len] = *value.first_chunk::<2>()?;
    // A value that fills the label has the right length; one of two bytes has no text.
    let fills = value_tag == VALUE_TAG && usize::from(value_len) + 2 == value.len();
    if !fills || name.is_empty() || value_len == 0 {
        return None;
    }
    let padding = 64 - 8 * name_len.min(8) as u32;
    Some(CanonicalLabel { name, prefix: u64::from_be_bytes(prefix) >> padding << padding, rest })
}

/// Any canonical label.
#[cold]
fn long_label(rest: &[u8]) -> Option<CanonicalLabel<'_>> {
    let (label, rest) = take_field(rest, LABELS_TAG)?;
    let (name, value) = take_field(label, NAME_TAG)?;
    let (value, behind) = take_field(value, VALUE_TAG)?;
    let lengths_fit = (1..=LABEL_NAME_BYTES_MAX).contains(&name.len())
        && (1..=LABEL_VALUE_BYTES_MAX).contains(&value.len());
    if !lengths_fit || !behind.is_empty() {
        return None;
    }
    let mut prefix = [0; 8];
    let known = name.len().min(8);
    prefix[..known].copy_from_slice(&name[..known]);
    Some(CanonicalLabel { name, prefix: u64::from_be_bytes(prefix), rest })
}

/// A length-delimited field with this tag and a minimal length, and what follows it. No canonical
/// length takes more than two bytes.
fn take_field(rest: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    match *rest {
        [first, len, ref rest @ ..] if first == tag && len < 0x80 => rest.split_at_checked(len.into()),
        [first, low, high, ref rest @ ..] if first == tag && (1..0x80).contains(&high) => {
            rest.split_at_checked(usize::from(low & 0x7f) | usize::from(high) << 7)
        }
        _ => None,
    }
}
const _: () = assert!(LABEL_NAME_BYTES_MAX + LABEL_VALUE_BYTES_MAX + 16 < 1 << 14);

#[inline]
fn is_utf8(block: &[u8]) -> bool {
    let is_text = |bytes| std::str::from_utf8(bytes).is_ok();
    block.is_ascii() || LabelBlock(block).iter().all(|(name, value)| is_text(name) && is_text(value))
}
