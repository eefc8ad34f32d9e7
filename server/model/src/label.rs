//! Label sets, and their canonical form in bytes.
//!
//! The canonical form is remote write 1's own: for each label the field `0x0a`, its length, and in
//! it `0x0a` name `0x12` value, lengths as minimal varints, names ascending and unique, no label
//! with an empty value. A well-behaved sender's bytes are canonical as they arrive, so they are
//! hashed where they are.

use std::cmp::Ordering;
use std::fmt;

use crate::printable::{LabelName, Quoted};
use crate::varint::{put_varint, varint_len};

/// A label set in canonical bytes. Whoever makes one has checked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelBlock<'a>(pub &'a [u8]);

/// An owned label set, names ascending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Labels(pub Vec<(Box<str>, Box<str>)>);

impl<'a> LabelBlock<'a> {
    /// The labels in order, as raw bytes: name and value.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            rest = &rest[1..];
            let _message_len = take_varint(&mut rest);
            let name = take_field(&mut rest);
            let value = take_field(&mut rest);
            Some((name, value))
        })
    }
}

impl<'a> LabelBlock<'a> {
    /// The labels in order, as text. What isn't UTF-8 is empty: nothing of the node makes that.
    pub fn texts(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let text = |bytes| str::from_utf8(bytes).unwrap_or_default();
        self.iter().map(move |(name, value)| (text(name), text(value)))
    }

    /// How two label sets follow each other: by names and values in turn, as texts.
    pub fn compare(self, other: LabelBlock<'_>) -> Ordering {
        let (mut left, mut right) = (self.0, other.0);
        loop {
            let (of_left, of_right) = (first_label(left), first_label(right));
            // Labels of the same bytes are the same: only the first that differ are looked into.
            if of_left != of_right || of_left.is_empty() {
                return LabelBlock(of_left).iter().cmp(LabelBlock(of_right).iter());
            }
            (left, right) = (&left[of_left.len()..], &right[of_right.len()..]);
        }
    }
}

/// As PromQL writes it: `{__name__="up", job="node"}`.
impl fmt::Display for LabelBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Labels::from(*self).fmt(f)
    }
}

impl From<LabelBlock<'_>> for Labels {
    fn from(block: LabelBlock<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into();
        Self(block.iter().map(|(name, value)| (text(name), text(value))).collect())
    }
}

/// The bytes of the first label; none where there is none.
fn first_label(labels: &[u8]) -> &[u8] {
    let Some(mut rest) = labels.get(1..) else { return labels };
    let len = take_varint(&mut rest);
    &labels[..labels.len() - rest.len() + len]
}

fn take_field<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    *rest = &rest[1..];
    let len = take_varint(rest);
    let (field, after) = rest.split_at(len);
    *rest = after;
    field
}

fn take_varint(rest: &mut &[u8]) -> usize {
    let (mut value, mut shift) = (0usize, 0);
    loop {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
        shift += 7;
    }
}

/// Appends one label in canonical form.
pub fn encode_label(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let inner = field_len(name.len()) + field_len(value.len());
    if inner < 0x80 {
        // Then each length is one byte.
        let [inner, name_len, value_len] = [inner, name.len(), value.len()].map(|len| len as u8);
        out.extend_from_slice(&[0x0a, inner, 0x0a, name_len]);
        out.extend_from_slice(name);
        out.extend_from_slice(&[0x12, value_len]);
        return out.extend_from_slice(value);
    }
    out.push(0x0a);
    put_varint(out, inner as u64);
    for (tag, bytes) in [(0x0a, name), (0x12, value)] {
        out.push(tag);
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

fn field_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

impl Labels {
    /// From pairs in any order; they are sorted by name.
    pub fn from_pairs<N: Into<Box<str>>, V: Into<Box<str>>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut labels: Vec<_> = pairs.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
        labels.sort();
        Self(labels)
    }

    /// The canonical bytes.
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            encode_label(&mut out, name.as_bytes(), value.as_bytes());
        }
        out
    }

    /// The value of one label.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| &**n == name).map(|(_, v)| &**v)
    }
}

/// As PromQL writes it, for a person: `{__name__="up", job="node", "a name"="\u001b"}`.
impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("{")?;
        for (i, (name, value)) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}={}", LabelName(name), Quoted(value))?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_is_read_back_as_written() {
        let labels = Labels::from_pairs([("job", "x"), ("__name__", "up"), ("long", &"v".repeat(300))]);
        let block = labels.to_canonical();
        let back: Vec<_> = LabelBlock(&block).iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        assert_eq!(back.len(), 3);
        assert_eq!(back[0], (b"__name__".to_vec(), b"up".to_vec()));
        assert_eq!(back[2].1.len(), 300);
    }

    #[test]
    fn a_label_of_any_length_is_read_back() {
        for len in (0..300).chain([16_000, 20_000]) {
            for (name, value) in [("n".to_owned(), "v".repeat(len)), ("n".repeat(len), "v".to_owned())] {
                let mut out = Vec::new();
                encode_label(&mut out, name.as_bytes(), value.as_bytes());
                let back: Vec<_> = LabelBlock(&out).iter().collect();
                assert_eq!(back, [(name.as_bytes(), value.as_bytes())], "{len}");
            }
        }
    }

    #[test]
    fn canonical_forms_follow_each_other_as_their_texts_do() {
        let sets = [
            &[("a", "1")][..],
            &[("a", "1"), ("b", "")],
            &[("a", "10")],
            &[("a", "2")],
            &[("a", "2"), ("b", "0")],
            &[("aa", "")],
            &[("b", "a long value that has a short name")],
        ];
        let labels = sets.map(|pairs| Labels::from_pairs(pairs.iter().copied()));
        for (left, right) in labels.iter().flat_map(|left| labels.iter().map(move |right| (left, right))) {
            let blocks = (left.to_canonical(), right.to_canonical());
            assert_eq!(LabelBlock(&blocks.0).compare(LabelBlock(&blocks.1)), left.cmp(right));
        }
        assert_eq!(LabelBlock(&labels[4].to_canonical()).to_string(), labels[4].to_string());
    }

    #[test]
    fn labels_are_shown_as_promql_writes_them() {
        let odd = [("__name__", "up"), ("na\nme", "\u{202e}\x1b[2J"), ("job", "a \"b\"")];
        let expect = r#"{__name__="up", job="a \"b\"", "na\nme"="\u202e\u001b[2J"}"#;
        assert_eq!(Labels::from_pairs(odd).to_string(), expect);
    }

    #[test]
    fn the_canonical_form_is_remote_write_1_s_own() {
        let block = Labels::from_pairs([("a", "b")]).to_canonical();
        assert_eq!(block, [0x0a, 6, 0x0a, 1, b'a', 0x12, 1, b'b']);
    }
}
