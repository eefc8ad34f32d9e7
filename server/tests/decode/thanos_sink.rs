//! Surveys and decodes a request of a Thanos router, in large steps and in the smallest.

use std::cell::RefCell;

use silverback::api::ingest::remote_write::{
    Decoder, Decoding, RequestTally, SeriesIn, Survey, WriteRejected,
};
use silverback_model::SeriesIdHasher;

use crate::sink::{Series, decode_started};

/// Whose samples are taken.
pub(crate) const OWN: &str = "default-tenant";

thread_local! {
    /// Kept, like that of a core, so that a fuzzer needn't make one for each input.
    static DECODER: RefCell<Decoder> = RefCell::default();
}

fn survey(bytes: &[u8], fields_max: usize) -> Result<SeriesIn, WriteRejected> {
    let mut survey = Survey::new(bytes, OWN);
    for _look in 0..2 * bytes.len() + 2 {
        if let Some(series_in) = survey.look(fields_max)? {
            return Ok(series_in);
        }
    }
    panic!("more looks than bytes");
}

/// The series of a request, and what was counted.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Vec<Series>, RequestTally), WriteRejected> {
    let series_in = survey(bytes, usize::MAX / 8);
    assert_eq!(series_in, survey(bytes, 1), "steps change nothing");
    let (series_in, hasher) = (series_in?, SeriesIdHasher::new(7, "tenant"));
    DECODER.with_borrow_mut(|decoder| {
        let mut decode = |series_max| {
            decode_started(decoder, &hasher, Decoding::start_thanos(series_in), bytes, series_max)
        };
        let first = decode(usize::MAX / 8);
        assert_eq!(first, decode(1), "labels that were seen before, and slices, change nothing");
        assert_eq!(first, decode(usize::MAX / 8));
        Ok(first?)
    })
}
