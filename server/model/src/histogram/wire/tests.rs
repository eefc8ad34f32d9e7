//! Messages that are whole, that aren't, and that are larger than a histogram may be.
use super::*;

const TIMES: HistogramTimes = HistogramTimes { timestamp_ms: 1_700_000_000_000, start_timestamp_ms: 5 };

fn integer() -> Histogram {
    Histogram {
        hint: ResetHint::NotReset,
        schema: -3,
        zero_threshold: 0.25,
        sum_bits: 0x7ff8_0000_0000_0001,
        count: 300,
        zero_count: 2,
        positive: Buckets {
            spans: vec![Span { offset: -7, length: 2 }, Span { offset: 0, length: 0 }],
            words: vec![900, (-200_i64) as u64],
        },
        negative: Buckets { spans: vec![Span { offset: i32::MIN, length: u32::MAX }], words: vec![1 << 63] },
        ..Histogram::default()
    }
}

fn float() -> Histogram {
    Histogram {
        kind: HistogramKind::Float,
        schema: -53,
        sum_bits: (-0.0_f64).to_bits(),
        count: 1.5_f64.to_bits(),
        positive: Buckets { spans: vec![Span { offset: 0, length: 1 }], words: vec![1.5_f64.to_bits()] },
        bounds: vec![-1.0, 0.1],
        ..Histogram::default()
    }
}

fn message(histogram: &Histogram) -> Vec<u8> {
    let mut out = Vec::new();
    histogram.put_message(TIMES, &mut out);
    out
}

fn read(message: &[u8]) -> Result<Histogram, HistogramWireError> {
    let mut histogram = Histogram::stale(HistogramKind::Float);
    histogram.read_message(message).map(|_| histogram)
}

#[test]
fn what_is_written_is_read_again_bit_for_bit() {
    for histogram in [integer(), float(), Histogram::default(), Histogram::stale(HistogramKind::Float)] {
        let mut again = integer();
        assert_eq!(again.read_message(&message(&histogram)), Ok(TIMES));
        assert_eq!(again, histogram);
    }
}

#[test]
fn a_histogram_is_read_into_the_memory_of_the_last() {
    let mut scratch = integer();
    scratch.read_message(&message(&integer())).unwrap();
    let places = |histogram: &Histogram| {
        (
            histogram.positive.words.as_ptr(),
            histogram.positive.spans.as_ptr(),
            histogram.negative.words.as_ptr(),
        )
    };
    let before = places(&scratch);
    scratch.read_message(&message(&integer())).unwrap();
    assert_eq!(places(&scratch), before);
}

#[test]
fn numbers_may_stand_one_by_one() {
    // Two deltas, -1 and 2, each a field; two bounds likewise.
    let deltas = [0x60, 1, 0x60, 4];
    let histogram = read(&deltas).unwrap();
    assert_eq!(histogram.positive.words, [u64::MAX, 2]);
    let bound = |value: f64| [&[0x81, 0x01][..], &value.to_le_bytes()].concat();
    assert_eq!(read(&[bound(1.0), bound(2.0)].concat()).unwrap().bounds, [1.0, 2.0]);
}

#[test]
fn of_two_counts_the_last_tells_the_kind_and_fields_of_the_other_say_nothing() {
    let float_count = [&[0x11][..], &2.0_f64.to_le_bytes()].concat();
    let integer_count = [0x08, 7];
    let both = [&float_count[..], &integer_count, &[0x60, 4]].concat();
    let histogram = read(&both).unwrap();
    assert_eq!(
        (histogram.kind, histogram.count, histogram.positive.words),
        (HistogramKind::Integer, 7, vec![2])
    );
    let both = [&integer_count[..], &float_count, &[0x60, 4]].concat();
    let histogram = read(&both).unwrap();
    assert_eq!((histogram.kind, histogram.positive.words), (HistogramKind::Float, vec![]));
    // The zero bucket's count is one of two as well.
    let zero_count = [&[0x30, 9, 0x39][..], &1.0_f64.to_le_bytes()].concat();
    assert_eq!(read(&zero_count).unwrap().zero_count, 0);
}

#[test]
fn unknown_fields_are_skipped_and_known_ones_have_their_type() {
    let later = [0xa0, 0x01, 7, 0xa5, 0x01, 1, 2, 3, 4, 0xaa, 0x01, 1, 9];
    assert_eq!(read(&later), Ok(Histogram::default()));
    for tag in [0x0a, 0x1a, 0x19 - 1, 0x25, 0x40, 0x5d, 0x78 + 1] {
        let bytes = [&[tag][..], &[1; 9]].concat();
        assert_eq!(read(&bytes), Err(HistogramWireError::Malformed), "{tag:#x}");
    }
}

#[test]
fn a_message_that_ends_anywhere_but_between_fields_is_malformed() {
    let whole = message(&integer());
    let mut malformed = 0;
    for end in 0..whole.len() {
        malformed += usize::from(read(&whole[..end]) == Err(HistogramWireError::Malformed));
    }
    assert!(malformed > whole.len() / 2, "{malformed} of {}", whole.len());
    assert_eq!(read(&[0x60]), Err(HistogramWireError::Malformed));
    assert_eq!(read(&[0xff; 20]), Err(HistogramWireError::Malformed));
    assert_eq!(read(&[0x00, 0x00]), Err(HistogramWireError::Malformed), "field 0");
    assert_eq!(read(&[0x62, 0xff, 0xff, 0xff, 0xff, 0x0f]), Err(HistogramWireError::Malformed));
    assert_eq!(
        read(&[0x82, 0x01, 7, 0, 0, 0, 0, 0, 0, 0]),
        Err(HistogramWireError::Malformed),
        "no whole double"
    );
}

#[test]
fn more_than_a_histogram_may_have_is_refused_before_it_takes_memory() {
    let too_large = Err(HistogramWireError::Histogram(HistogramError::TooLarge));
    let packed = |tag: &[u8], len: usize| {
        let mut out = tag.to_vec();
        put_varint(&mut out, len as u64);
        out.resize(out.len() + len, 0);
        out
    };
    assert_eq!(read(&packed(&[0x62], HISTOGRAM_BUCKETS_MAX + 1)), too_large);
    assert_eq!(read(&packed(&[0x82, 0x01], 8 * HISTOGRAM_BOUNDS_MAX + 8)), too_large);
    assert_eq!(read(&[0x5a, 0].repeat(HISTOGRAM_SPANS_MAX + 1)), too_large);
    let float = [&[0x11][..], &[0; 8], &packed(&[0x6a], 8 * HISTOGRAM_BUCKETS_MAX + 8)].concat();
    assert_eq!(read(&float), too_large);
    assert!(read(&packed(&[0x62], HISTOGRAM_BUCKETS_MAX)).is_ok());
}

#[test]
fn a_zero_of_either_sign_is_one_threshold_and_one_bound_as_in_a_chunk_of_them() {
    let signed = |zero: f64| {
        let bounded = Histogram { zero_threshold: zero, bounds: vec![zero, 1.0], ..float() };
        let read = read(&message(&bounded)).unwrap();
        assert_eq!(read.zero_threshold.to_bits(), 0, "{zero}");
        assert_eq!(read.bounds[0].to_bits(), 0, "{zero}");
        assert_eq!(read.sum_bits, (-0.0_f64).to_bits(), "a sum keeps its sign");
        message(&read)
    };
    assert_eq!(signed(-0.0), signed(0.0));
}

#[test]
fn what_stands_around_a_timestamp_is_told_where_all_of_a_message_was_read() {
    let around = |message: &[u8]| {
        let mut histogram = Histogram::default();
        let read = histogram.read_untimed(message).unwrap();
        let untimed = read.around_timestamp.map(|pieces| pieces.concat());
        if let Some(untimed) = &untimed {
            let mut again = integer();
            let times = HistogramTimes { timestamp_ms: 0, ..read.times };
            assert_eq!((again.read_message(untimed), again), (Ok(times), histogram));
        }
        untimed
    };
    let timed = |histogram: &Histogram, timestamp_ms| {
        let mut out = Vec::new();
        histogram.put_message(HistogramTimes { timestamp_ms, ..TIMES }, &mut out);
        out
    };
    for histogram in [integer(), float(), Histogram::default(), Histogram::stale(HistogramKind::Float)] {
        assert_eq!(around(&timed(&histogram, 7)), Some(timed(&histogram, 0)));
        assert_eq!(around(&timed(&histogram, 0)), Some(timed(&histogram, 0)));
        // A second timestamp, a hint and a field of a later version, and a count of the other kind.
        for odd in [&[0x78, 9][..], &[0x70, 4], &[0xa0, 0x01, 7], &[0x30, 0, 0x39, 0, 0, 0, 0, 0, 0, 0, 0]] {
            let read = [&timed(&histogram, 7)[..], odd].concat();
            let is_read = Histogram::default().read_message(&read).is_ok();
            assert!(!is_read || around(&read).is_none(), "{odd:?}");
        }
        // A list of the other kind, a field of a later version in a span, and sums without end.
        let lists = if histogram.kind == HistogramKind::Float { [0x4a, 0x62] } else { [0x52, 0x6a] };
        let sums = [0x19, 0, 0, 0, 0, 0, 0, 0, 0].repeat(100);
        for odd in [&[lists[0], 0][..], &[lists[1], 0], &[0x5a, 4, 0x10, 0, 0x18, 1], &sums] {
            let read = [&timed(&histogram, 7)[..], odd].concat();
            assert!(Histogram::default().read_message(&read).is_ok(), "{odd:?}");
            assert!(around(&read).is_none(), "{odd:?}");
        }
    }
    // The kind comes last.
    let late = [&[0x70, 2][..], &timed(&float(), 7)].concat();
    assert_eq!(around(&late), Some([&[0x70, 2][..], &timed(&float(), 0)].concat()));
}
