//! From matchers to the series of one block: postings, and matchers over the values of labels.

use std::sync::Arc;

use roaring::RoaringBitmap;
use silverback_block::OpenBlock;
use silverback_model::Matcher;

use super::threads::{BlockJob, BlockJobError, ask};

/// The series of a block that all matchers match.
pub(super) fn matching(
    job: &BlockJob,
    block: &Arc<OpenBlock>,
    matchers: &[Matcher],
) -> Result<RoaringBitmap, BlockJobError> {
    let (narrow, mut wide): (Vec<_>, Vec<_>) = matchers.iter().partition(|m| m.exact_value().is_some());
    // Those that search values come last: what matches is few by then.
    wide.sort_by_key(|matcher| matcher.deciding_values().is_none());
    let mut found = None::<RoaringBitmap>;
    for matcher in narrow {
        job.check()?;
        let Some(place) = ask(block, |block| block.find(&matcher.name, &matcher.value))? else {
            return Ok(RoaringBitmap::new());
        };
        let postings = ask(block, |block| block.postings(place))?;
        found = Some(match found {
            None => postings,
            Some(so_far) => so_far & postings,
        });
    }
    for matcher in wide {
        job.check()?;
        let so_far = match found {
            Some(so_far) if so_far.is_empty() => return Ok(so_far),
            Some(so_far) => so_far,
            None => ask(block, |block| block.all_series())?,
        };
        found = Some(narrow_by_values(job, block, matcher, so_far)?);
    }
    match found {
        Some(found) => Ok(found),
        None => ask(block, |block| block.all_series()),
    }
}

/// Looks at the values of the label that decide. Where the matcher takes a missing label, what doesn't match is taken away
/// from the series; otherwise only what matches stays.
fn narrow_by_values(
    job: &BlockJob,
    block: &Arc<OpenBlock>,
    matcher: &Matcher,
    so_far: RoaringBitmap,
) -> Result<RoaringBitmap, BlockJobError> {
    let takes_missing = matcher.matches_empty();
    let marked = match matcher.deciding_values() {
        Some(values) => {
            let mut marked = RoaringBitmap::new();
            for value in values {
                job.check()?;
                if let Some(place) = ask(block, |block| block.find(&matcher.name, value))? {
                    marked |= ask(block, |block| block.postings(place))?;
                }
            }
            marked
        }
        None => searched(job, block, matcher, takes_missing)?,
    };
    Ok(if takes_missing { so_far - marked } else { so_far & marked })
}

/// Any value may decide: each is searched. The series with those that match or, where the matcher takes a missing label,
/// with those that don't.
fn searched(
    job: &BlockJob,
    block: &Arc<OpenBlock>,
    matcher: &Matcher,
    takes_missing: bool,
) -> Result<RoaringBitmap, BlockJobError> {
    let (mut searching, mut marked, mut stopped) = (matcher.searching(), RoaringBitmap::new(), Ok(()));
    let mut mark = |value: &str, place| {
        // A search that is out of time goes on where it was, if anybody still waits.
        let is_match = loop {
            job.check()?;
            if let Some(is_match) = searching.matches(value, || job.check().is_err()) {
                break is_match;
            }
        };
        if is_match != takes_missing {
            marked |= ask(block, |block| block.postings(place))?;
        }
        Ok(())
    };
    ask(block, |block| {
        block.label_values(&matcher.name, |value, place| {
            stopped = mark(value, place);
            stopped.is_ok()
        })
    })?;
    stopped.map(|()| marked)
}
