//! Chunks that Prometheus itself wrote: read to the samples they came from, written again to the
//! same bytes. How they were made is beside them, in `vectors/promtool/README.md`.
use silverback_model::Sample;
use silverback_model::gorilla::{OpenXor, SealedChunk, XorIter};

const SEGMENT: &[u8] = include_bytes!("vectors/promtool/chunks");
const TEXT: &str = include_str!("vectors/promtool/samples.om");

/// The NaN that Prometheus makes of the text "NaN".
const PARSED_NAN_BITS: u64 = 0x7ff8_0000_0000_0001;

/// The chunks of a segment file, their checksums seen to be right.
fn chunks(segment: &[u8]) -> Vec<&[u8]> {
    let mut rest =
        segment.strip_prefix(&[0x85, 0xbd, 0x40, 0xdd, 1, 0, 0, 0]).expect("a segment of version 1");
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let (len, behind_len) = uvarint(rest);
        let (encoding_and_chunk, behind_chunk) = behind_len.split_at(1 + len);
        let (checksum, behind_checksum) = behind_chunk.split_at(4);
        assert_eq!(crc32c::crc32c(encoding_and_chunk).to_be_bytes(), checksum);
        assert_eq!(encoding_and_chunk[0], 1, "an XOR chunk");
        chunks.push(&encoding_and_chunk[1..]);
        rest = behind_checksum;
    }
    chunks
}

fn uvarint(bytes: &[u8]) -> (usize, &[u8]) {
    let len = 1 + bytes.iter().position(|byte| *byte < 0x80).expect("a varint");
    let value = bytes[..len].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, &bytes[len..])
}

/// The samples of OpenMetrics lines, read as Prometheus reads them.
fn samples(text: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let [_name, value, seconds] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let value = match value {
            "NaN" => f64::from_bits(PARSED_NAN_BITS),
            number => number.parse().expect(line),
        };
        let seconds: f64 = seconds.parse().expect(line);
        Sample::new((seconds * 1000.0) as i64, value)
    };
    lines.map(sample).collect()
}

fn written_again(samples: &[Sample]) -> SealedChunk {
    let mut words = Vec::new();
    let mut chunk = OpenXor::start(samples[0], &mut words);
    for &sample in &samples[1..] {
        chunk.append(sample, &mut words);
    }
    chunk.seal(words.into_iter())
}

#[test]
fn the_chunks_hold_the_samples_of_the_text() {
    let read: Result<Vec<_>, _> = chunks(SEGMENT).into_iter().flat_map(XorIter::new).collect();
    let (read, expect) = (read.unwrap(), samples(TEXT));
    assert_eq!(read.len(), expect.len());
    for (read, expect) in read.iter().zip(&expect) {
        assert_eq!(read, expect);
    }
}

#[test]
fn the_samples_are_written_to_the_same_bytes() {
    let (mut same, mut same_but_a_zero_byte) = (0, 0);
    for chunk in chunks(SEGMENT) {
        let samples: Vec<_> = XorIter::new(chunk).map(Result::unwrap).collect();
        let again = written_again(&samples);
        match chunk.strip_prefix(again.bytes()) {
            Some([]) => same += 1,
            // The needless one that Prometheus wrote before 3.0.
            Some([0]) => same_but_a_zero_byte += 1,
            Some(_) | None => panic!("{chunk:02x?} is written as {:02x?}", again.bytes()),
        }
    }
    assert!(same > 2 * same_but_a_zero_byte, "{same} and {same_but_a_zero_byte}");
}
