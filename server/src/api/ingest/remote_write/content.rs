//! What a series holds beside its labels: samples, histograms, exemplars. The two protocol
//! versions number them differently; that is all they differ in here.

use super::{
    decoder::SeriesSink,
    malformed::MalformedError,
    wire::{Tag, WireReader, WireType},
};
use silverback_model::Sample;

const SAMPLES: Tag = Tag::new(2, WireType::Len);
const SAMPLE_VALUE: Tag = Tag::new(1, WireType::Fixed64);
const SAMPLE_TIMESTAMP: Tag = Tag::new(2, WireType::Varint);
/// Remote write 2 alone has these.
const START_TIMESTAMP: Tag = Tag::new(3, WireType::Varint);

/// How one version numbers the fields of its series.
#[derive(Debug)]
pub(crate) struct SeriesFields {
    /// Labels or label references, in every encoding they may have.
    pub labels: &'static [Tag],
    /// Native histograms.
    pub histograms: Tag,
    /// Exemplars.
    pub exemplars: Tag,
    /// Metadata, where the series carries it.
    pub metadata: Option<Tag>,
    /// The highest number of a known field.
    pub(crate) known_max: u32,
    /// The highest number of a known field in a sample.
    pub(crate) sample_known_max: u32,
}

/// The counts of one series, and its first sample: mostly the only one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    /// Samples.
    pub samples: u32,
    /// The first of them.
    pub first: Sample,
    /// Those of them that have a start timestamp.
    pub starts: u32,
    /// Native histograms.
    pub histograms: u32,
    /// Exemplars.
    pub exemplars: u32,
    /// Where its metadata begins, after the field's tag: of several fields the last counts. 0: it has none.
    pub metadata_at: u32,
    /// Label fields: where the labels were read before, the series is an odd one.
    pub labels: u32,
}

impl Content {
    /// Samples of both kinds.
    pub(crate) fn samples_and_histograms(&self) -> u64 {
        u64::from(self.samples) + u64::from(self.histograms)
    }
}

/// Reads a series from here to its end. Everything in it that will be looked at again is checked.
#[inline(always)]
pub(crate) fn read_content(mut series: WireReader, fields: &SeriesFields) -> Result<Content, MalformedError> {
    let first = Sample::new(0, 0.0);
    let mut content =
        Content { samples: 0, first, starts: 0, histograms: 0, exemplars: 0, metadata_at: 0, labels: 0 };
    while !series.is_empty() {
        let sample = match take_usual_sample(&mut series) {
            Some(sample) => sample,
            None => {
                let tag = series.tag()?;
                if tag != SAMPLES {
                    count_other(&mut series, tag, fields, &mut content)?;
                    continue;
                }
                let (sample, start_ms) = read_sample(series.message()?, fields)?;
                content.starts += u32::from(start_ms != 0);
                sample
            }
        };
        if content.samples == 0 {
            content.first = sample;
        }
        content.samples += 1;
    }
    Ok(content)
}

fn count_other(
    series: &mut WireReader,
    tag: Tag,
    fields: &SeriesFields,
    content: &mut Content,
) -> Result<(), MalformedError> {
    if tag == fields.histograms {
        content.histograms += 1;
    } else if tag == fields.exemplars {
        content.exemplars += 1;
    } else if Some(tag) == fields.metadata {
        content.metadata_at = series.at() as u32;
    } else if fields.labels.contains(&tag) {
        content.labels += 1;
    } else {
        return series.skip_unknown(tag, fields.known_max);
    }
    series.skip(tag)
}

/// Passes every sample of a series on that [`read_content`] has checked, with the start timestamps of those that have one.
pub(crate) fn pass_samples(
    mut series: WireReader,
    fields: &SeriesFields,
    sink: &mut impl SeriesSink,
) -> Result<(), MalformedError> {
    while !series.is_empty() {
        if let Some(sample) = take_usual_sample(&mut series) {
            sink.sample(sample);
            continue;
        }
        let tag = series.tag()?;
        if tag == SAMPLES {
            let (sample, start_ms) = read_sample(series.message()?, fields)?;
            sink.sample(sample);
            if start_ms != 0 {
                sink.start_timestamp(start_ms);
            }
        } else {
            series.skip(tag)?;
        }
    }
    Ok(())
}

/// Where the samples begin that a series ends with, if they are few and as every sender writes them. That is a guess:
/// the bytes before decide whether these are samples, or the end of something else that looks alike.
#[inline]
pub(crate) fn last_samples_start(series: WireReader) -> Option<usize> {
    const FEW: usize = 4;
    let (bytes, mut start) = (series.bytes(), series.bytes().len());
    for _sample in 0..=FEW {
        let at = start.checked_sub(USUAL_SAMPLE_LEN).filter(|at| *at >= series.at());
        let Some(at) = at.filter(|at| take_usual_sample(&mut WireReader::new(bytes, *at)).is_some()) else {
            return (start < bytes.len()).then_some(start);
        };
        start = at;
    }
    None
}

/// The tag, the length and what it counts of a sample as every sender writes it.
const USUAL_SAMPLE_LEN: usize = 2 + USUAL_SAMPLE_INNER_LEN;
const USUAL_SAMPLE_INNER_LEN: usize = 1 + 8 + 1 + 6;

/// Takes a sample as every sender writes it: its value, then a timestamp of our times, which takes
/// six bytes until the year 2109.
#[inline(always)]
fn take_usual_sample(series: &mut WireReader) -> Option<Sample> {
    const HEAD: [u8; 3] = [SAMPLES.0 as u8, USUAL_SAMPLE_INNER_LEN as u8, SAMPLE_VALUE.0 as u8];
    let sample = series.bytes()[series.at()..].first_chunk::<USUAL_SAMPLE_LEN>()?;
    let (head, sample) = sample.split_first_chunk()?;
    let (value, timestamp) = sample.split_first_chunk()?;
    let [tag, timestamp @ ..] = timestamp.first_chunk::<7>()?;
    if *head != HEAD || *tag != SAMPLE_TIMESTAMP.0 as u8 {
        return None;
    }
    let sample = Sample::new(varint_of_six(*timestamp)?, f64::from_le_bytes(*value));
    *series = WireReader::new(series.bytes(), series.at() + USUAL_SAMPLE_LEN);
    Some(sample)
}

/// A varint of exactly six bytes, all of them at once.
#[inline(always)]
fn varint_of_six([a, b, c, d, e, f]: [u8; 6]) -> Option<i64> {
    const CONTINUED: u64 = 0x0080_8080_8080;
    const SEVEN_BITS: u64 = 0x7f7f_7f7f_7f7f;
    let bytes = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    if bytes & !SEVEN_BITS != CONTINUED {
        return None;
    }
    // Seven bits of every eight; then fourteen of sixteen, and twenty-eight of thirty-two.
    let sevens = bytes & SEVEN_BITS;
    let fourteens = (sevens & 0x007f_007f_007f) | (sevens & 0x7f00_7f00_7f00) >> 1;
    let twenty_eights = (fourteens & 0xffff_0000_3fff) | (fourteens & 0x3fff_0000) >> 2;
    Some(((twenty_eights & 0x0fff_ffff) | (twenty_eights & 0x3fff_0000_0000) >> 4) as i64)
}

/// A sample and its start timestamp, in ms. A field that is absent has its default, zero; of one that is repeated the last
/// counts.
#[inline]
fn read_sample(mut message: WireReader, fields: &SeriesFields) -> Result<(Sample, i64), MalformedError> {
    let (mut sample, mut start_ms) = (Sample::new(0, 0.0), 0);
    while !message.is_empty() {
        let tag = message.tag()?;
        if tag == SAMPLE_VALUE {
            sample.value = f64::from_bits(message.fixed64()?);
        } else if tag == SAMPLE_TIMESTAMP {
            sample.timestamp_ms = message.varint()? as i64;
        } else if tag == START_TIMESTAMP && fields.sample_known_max >= START_TIMESTAMP.number() {
            start_ms = message.varint()? as i64;
        } else {
            message.skip_unknown(tag, fields.sample_known_max)?;
        }
    }
    Ok((sample, start_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_of_six_bytes_is_read_at_once() {
        for value in [1_i64 << 35, (1 << 42) - 1, 1_790_000_000_000, 0x2aa_aaaa_aaaa, 0x155_5555_5555] {
            let bytes: [u8; 6] = std::array::from_fn(|i| {
                let continued = if i < 5 { 0x80 } else { 0 };
                (value >> (7 * i)) as u8 & 0x7f | continued
            });
            assert_eq!(varint_of_six(bytes), Some(value));
        }
        assert_eq!(varint_of_six([0x80, 0x80, 0x80, 0x80, 0x80, 0x80]), None, "it goes on");
        assert_eq!(varint_of_six([0x80, 0x80, 0x80, 0x80, 0x00, 0x00]), None, "it ends before");
    }
}
