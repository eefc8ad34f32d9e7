//! Where we and prost may differ. Prost refuses a whole request for text that isn't UTF-8 and for
//! broken exemplars, histograms and metadata, which we judge by the series or don't look into. We
//! refuse groups and the other version's fields, which prost skips, and what is too large.

use prost::DecodeError;
use silverback::api::ingest::remote_write::{MalformedError, MalformedErrorKind, RequestTally};

use crate::oracle::{Outcome, Series};

/// Holds our reading against prost's.
pub fn compare(
    ours: Result<(Vec<Series>, RequestTally), MalformedError>,
    expected: Result<Outcome, DecodeError>,
    body_bytes: usize,
) {
    match (ours, expected) {
        (Ok((series, tally)), Ok(expected)) => {
            assert_eq!(Outcome::of_decoder(series, &tally), expected);
        }
        (Err(error), expected) => {
            assert!(error.offset <= body_bytes);
            let is_ours = matches!(
                error.cause,
                MalformedErrorKind::Group
                    | MalformedErrorKind::OtherVersion
                    | MalformedErrorKind::TooManySymbols
                    | MalformedErrorKind::LabelsTooLarge
            );
            assert!(is_ours || expected.is_err(), "{error}");
        }
        (Ok(_), Err(_)) => {}
    }
}
