//! The worked example of the format's description: a group made here, byte for byte as it is there.
use super::*;
use crate::wal::frame::{FrameKey, encode_header};
use crate::wal::{Journal, Lsn};
use silverback_model::{Sample, SeriesId, SeriesRef};

/// The bytes of the description's hex block: each line is an offset, bytes, and after `|` a note.
fn described() -> Vec<u8> {
    let block = include_str!("../format.md").split("```hex\n").nth(1).expect("a block of hex");
    let lines = block.split("```").next().unwrap().lines();
    let mut bytes = Vec::new();
    for line in lines {
        let mut words = line.split('|').next().unwrap().split_whitespace();
        if let Some(offset) = words.next() {
            assert_eq!(usize::from_str_radix(offset, 16), Ok(bytes.len()), "{line}");
            bytes.extend(words.map(|byte| u8::from_str_radix(byte, 16).expect("a byte")));
        }
    }
    bytes
}

/// As many hex lines as there are parts, to be pasted where the format was changed.
fn hex_lines(parts: &[&[u8]]) -> String {
    let (mut lines, mut at) = (String::new(), 0);
    for part in parts.iter().flat_map(|part| part.chunks(16)) {
        let bytes: Vec<_> = part.iter().map(|byte| format!("{byte:02x}")).collect();
        lines += &format!("{at:04x}  {}\n", bytes.join(" "));
        at += part.len();
    }
    lines
}

#[test]
fn the_described_example_is_what_is_written() {
    let mut group = Group::default();
    for (series, device) in [(7, "sda"), (8, "sdb")] {
        let labels = [("__name__", "disk_up"), ("device", device)];
        let labels = labels.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        group.created(SeriesRef(series), SeriesId(0x1000 + u128::from(series)), labels.into_iter());
    }
    let samples = [(7, 0.0), (8, 1.0), (9, 300.0), (3, 0.25), (4, 12.34)];
    for (series, value) in samples {
        let timestamp_ms = if series < 7 { 1_700_000_000_250 } else { 1_700_000_000_000 };
        group.stored(SeriesRef(series), Sample { timestamp_ms, value });
    }
    group.removed(SeriesRef(8), SeriesId(0x1008));
    let parts = group.parts();
    let header = encode_header(FrameKey::new(1), 2, Lsn(3), &parts);
    let frame = [&header[..], &parts.concat()].concat();
    let hex = hex_lines(&[&[&header[..]], &parts[..]].concat());
    assert!(frame == described(), "the frame is\n{hex}");
}
