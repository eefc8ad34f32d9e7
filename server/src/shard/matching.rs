//! From matchers to series: postings and matchers over label values, in slices.

use std::cell::RefCell;
use std::rc::Rc;

use roaring::RoaringBitmap;

use crate::cell::series::LabelRef;
use crate::model::{MatchOp, Matcher};
use crate::shard::index::{Listed, PairsListed};
use crate::shard::{Host, Shard};

/// Values that are tried between two looks at the slice.
const STEP: usize = 64;
/// Places of the index's tables that are looked through between two looks at the slice.
const PLACES: usize = 4096;

/// The series that match all matchers. Series that come or go meanwhile may be in it or not.
pub async fn matching<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, matchers: &[Matcher]) -> RoaringBitmap {
    let (narrow, wide): (Vec<_>, Vec<_>) = matchers.iter().partition(|m| exact_value(m).is_some());
    let mut found: Option<RoaringBitmap> = None;
    for matcher in narrow {
        let shard = shard.borrow();
        let postings = shard.index.pair(&matcher.name, &matcher.value).map(|pair| shard.index.postings(pair));
        found = Some(match (found, postings) {
            (_, None) => return RoaringBitmap::new(),
            (None, Some(postings)) => postings.clone(),
            (Some(so_far), Some(postings)) => so_far & postings,
        });
    }
    for matcher in wide {
        let so_far = found.unwrap_or_else(|| shard.borrow().index.all().clone());
        found = Some(narrow_by_values(shard, host, matcher, so_far).await);
    }
    found.unwrap_or_else(|| shard.borrow().index.all().clone())
}

/// The one value that a matcher wants, when it wants exactly one.
fn exact_value(matcher: &Matcher) -> Option<&str> {
    match matcher.op {
        MatchOp::Equal if !matcher.value.is_empty() => Some(&matcher.value),
        MatchOp::Equal | MatchOp::NotEqual | MatchOp::Regex | MatchOp::NotRegex => None,
    }
}

/// Looks at each value of the label. Where the matcher takes a missing label, what doesn't match is
/// taken away from the series; otherwise only what matches stays.
async fn narrow_by_values<H: Host>(
    shard: &Rc<RefCell<Shard>>,
    host: &H,
    matcher: &Matcher,
    so_far: RoaringBitmap,
) -> RoaringBitmap {
    let takes_missing = matcher.matches_empty();
    let pairs = pairs_of(shard, host, &matcher.name).await;
    let mut marked = RoaringBitmap::new();
    for step in pairs.chunks(STEP) {
        mark(&shard.borrow(), matcher, step, takes_missing, &so_far, &mut marked);
        host.breathe().await;
    }
    match takes_missing {
        true => so_far - marked,
        false => marked,
    }
}

/// The pairs of a name. Pairs that come or go meanwhile may be in it or not.
pub async fn pairs_of<H: Host>(shard: &Rc<RefCell<Shard>>, host: &H, name: &str) -> Vec<LabelRef> {
    let mut listed = PairsListed::default();
    while shard.borrow().index.list_pairs(name, PLACES, &mut listed) == Listed::Part {
        host.breathe().await;
    }
    listed.into_pairs()
}

/// Adds to `marked` the series of those pairs whose values decide: the ones that match, or, where a
/// missing label matches, the ones that don't.
fn mark(
    shard: &Shard,
    matcher: &Matcher,
    pairs: &[LabelRef],
    takes_missing: bool,
    so_far: &RoaringBitmap,
    marked: &mut RoaringBitmap,
) {
    for pair in pairs {
        let (name, value) = shard.index.text(*pair);
        // The pair's place may serve another pair by now.
        if name == &*matcher.name && matcher.matches(value) != takes_missing {
            *marked |= shard.index.postings(*pair) & so_far;
        }
    }
}
