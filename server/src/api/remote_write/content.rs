//! What a series holds beside its labels: samples, histograms, exemplars. The two protocol
//! versions number them differently; that is all they differ in here.

use super::{
    malformed::MalformedBody,
    wire::{Reader, Tag, WireType},
};
use crate::model::Sample;

const SAMPLES: Tag = Tag::new(2, WireType::Len);
const SAMPLES_BYTE: u8 = SAMPLES.0 as u8;
const VALUE_BYTE: u8 = SAMPLE_VALUE.0 as u8;
const TIMESTAMP_BYTE: u8 = SAMPLE_TIMESTAMP.0 as u8;
const SAMPLE_VALUE: Tag = Tag::new(1, WireType::Fixed64);
const SAMPLE_TIMESTAMP: Tag = Tag::new(2, WireType::Varint);
/// Remote write 2 alone has these. They aren't stored.
const START_TIMESTAMP: Tag = Tag::new(3, WireType::Varint);

/// How one version numbers the fields of its series.
#[derive(Debug)]
pub struct SeriesFields {
    /// Labels or label references, in every encoding they may have.
    pub labels: &'static [Tag],
    /// Native histograms.
    pub histograms: Tag,
    /// Exemplars.
    pub exemplars: Tag,
    /// Metadata, where the series carries it.
    pub metadata: Option<Tag>,
    /// The highest number of a known field.
    pub known_max: u32,
    /// The highest number of a known field in a sample.
    pub sample_known_max: u32,
}

/// The counts of one series, and its first sample: mostly the only one.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// Samples.
    pub samples: u32,
    /// The first of them.
    pub first: Sample,
    /// Native histograms.
    pub histograms: u32,
    /// Exemplars.
    pub exemplars: u32,
    /// Metadata: one or none.
    pub metadata: u32,
    /// Label fields: where the labels were read before, the series is an odd one.
    pub labels: u32,
}

impl Content {
    /// Whether it holds anything beside labels and samples.
    #[inline]
    pub fn has_unstored(&self) -> bool {
        self.histograms | self.exemplars | self.metadata > 0
    }

    /// Samples of both kinds.
    pub fn samples_and_histograms(&self) -> u64 {
        u64::from(self.samples) + u64::from(self.histograms)
    }
}

/// Reads a series from here to its end. Everything in it that will be looked at again is checked.
#[inline]
pub fn read_content(mut series: Reader, fields: &SeriesFields) -> Result<Content, MalformedBody> {
    let first = Sample::new(0, 0.0);
    let mut content = Content { samples: 0, first, histograms: 0, exemplars: 0, metadata: 0, labels: 0 };
    if let Some((sample, end)) = usual_sample(series.bytes(), series.at()) {
        (content.first, content.samples) = (sample, 1);
        series = Reader::new(series.bytes(), end);
    }
    while !series.is_empty() {
        let tag = series.tag()?;
        if tag == SAMPLES {
            let sample = read_sample(series.message()?, fields)?;
            if content.samples == 0 {
                content.first = sample;
            }
            content.samples += 1;
        } else {
            count_other(&mut series, tag, fields, &mut content)?;
        }
    }
    Ok(content)
}

fn count_other(
    series: &mut Reader,
    tag: Tag,
    fields: &SeriesFields,
    content: &mut Content,
) -> Result<(), MalformedBody> {
    if tag == fields.histograms {
        content.histograms += 1;
    } else if tag == fields.exemplars {
        content.exemplars += 1;
    } else if Some(tag) == fields.metadata {
        // No repeated field: two of them are one.
        content.metadata = 1;
    } else if fields.labels.contains(&tag) {
        content.labels += 1;
    } else {
        return series.skip_unknown(tag, fields.known_max);
    }
    series.skip(tag)
}

/// Calls `each` with every sample of a series that [`read_content`] has checked.
pub fn for_each_sample(
    mut series: Reader,
    fields: &SeriesFields,
    mut each: impl FnMut(Sample),
) -> Result<(), MalformedBody> {
    while !series.is_empty() {
        let tag = series.tag()?;
        if tag == SAMPLES {
            each(read_sample(series.message()?, fields)?);
        } else {
            series.skip(tag)?;
        }
    }
    Ok(())
}

/// A sample as every sender writes it: its value, then a timestamp of our times, which takes six
/// bytes until the year 2109. Also tells where it ends.
#[inline(always)]
fn usual_sample(bytes: &[u8], at: usize) -> Option<(Sample, usize)> {
    const LEN: u8 = 1 + 8 + 1 + 6;
    const CONTINUED: u64 = 0x0080_8080_8080;
    const SEVEN_BITS: u64 = 0x7f7f_7f7f_7f7f;
    let (head, rest) = bytes[at..].split_first_chunk::<12>()?;
    let [SAMPLES_BYTE, LEN, VALUE_BYTE, value @ .., TIMESTAMP_BYTE] = head else {
        return None;
    };
    let [a, b, c, d, e, f] = *rest.first_chunk::<6>()?;
    let varint = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    if varint & !SEVEN_BITS != CONTINUED {
        return None;
    }
    // Seven bits of eight each; then fourteen of sixteen, and twenty-eight of thirty-two.
    let sevens = varint & SEVEN_BITS;
    let fourteens = (sevens & 0x007f_007f_007f) | (sevens & 0x7f00_7f00_7f00) >> 1;
    let twenty_eights = (fourteens & 0xffff_0000_3fff) | (fourteens & 0x3fff_0000) >> 2;
    let timestamp_ms = (twenty_eights & 0x0fff_ffff) | (twenty_eights & 0x3fff_0000_0000) >> 4;
    let sample = Sample::new(timestamp_ms as i64, f64::from_le_bytes(value.first_chunk().copied()?));
    Some((sample, at + 2 + usize::from(LEN)))
}

/// A field that is absent has its default, zero; of one that is repeated the last counts.
#[inline]
fn read_sample(mut message: Reader, fields: &SeriesFields) -> Result<Sample, MalformedBody> {
    let mut sample = Sample::new(0, 0.0);
    while !message.is_empty() {
        let tag = message.tag()?;
        if tag == SAMPLE_VALUE {
            sample.value = f64::from_bits(message.fixed64()?);
        } else if tag == SAMPLE_TIMESTAMP {
            sample.timestamp_ms = message.varint()? as i64;
        } else if tag == START_TIMESTAMP {
            message.skip(tag)?;
        } else {
            message.skip_unknown(tag, fields.sample_known_max)?;
        }
    }
    Ok(sample)
}
