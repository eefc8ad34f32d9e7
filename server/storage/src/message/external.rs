//! Series as they are seen from outside the node: external labels added, others left out, of one query shard alone.
//! This is what Thanos' StoreAPI asks for.
//!
//! Knows label sets as texts. Which series these are, and how a shard sorts them, is the shard's.

use std::cmp::Ordering;

use silverback_model::{LabelBlock, Labels, encode_label};
use xxhash_rust::xxh64::Xxh64;

/// Is after each name and each value that is hashed.
const SEPARATOR: &[u8] = &[0xff];

/// What becomes of the label sets of series that are read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExternalView {
    /// Labels that each series gets, in place of its own of the same name.
    added: Labels,
    /// Names whose labels no series keeps, those of the added ones among them, ascending.
    dropped: Vec<Box<str>>,
    /// The series that are given, of all; `None`: all.
    shard: Option<QueryShard>,
}

/// One of several equal parts that series are dealt out to by a hash of some of their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryShard {
    /// Which part, counted from 0.
    pub index: u64,
    /// Of how many.
    pub total: u64,
    /// The labels that are hashed.
    pub hashed: HashedLabels,
}

/// Some of a series' labels, by their names, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashedLabels {
    /// These.
    By(Vec<Box<str>>),
    /// All but these.
    Without(Vec<Box<str>>),
}

impl ExternalView {
    /// With these labels but those of the names `left_out`, which no series keeps either.
    pub fn new(external: &Labels, left_out: &[Box<str>], shard: Option<QueryShard>) -> Self {
        let is_kept = |name: &str| !left_out.iter().any(|out| **out == *name);
        let added = Labels(external.0.iter().filter(|(name, _)| is_kept(name)).cloned().collect());
        let mut dropped: Vec<Box<str>> = left_out.to_vec();
        dropped.extend(added.0.iter().map(|(name, _)| name.clone()));
        dropped.sort_unstable();
        dropped.dedup();
        Self { added, dropped, shard }
    }

    /// The names whose labels no series keeps of its own.
    pub fn dropped(&self) -> impl Iterator<Item = &str> {
        self.dropped.iter().map(|name| &**name)
    }

    /// Appends a label set as it is seen, in canonical form; `own` ascends.
    pub fn put_labels<'a>(&self, own: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
        let mut added = self.added.0.iter().peekable();
        let mut put = |name: &str, value: &str| encode_label(out, name.as_bytes(), value.as_bytes());
        for (name, value) in own {
            while let Some((before, of_before)) = added.next_if(|(added, _)| **added < *name) {
                put(before, of_before);
            }
            if self.dropped.binary_search_by(|dropped| (**dropped).cmp(name)).is_err() {
                put(name, value);
            }
        }
        added.for_each(|(name, value)| put(name, value));
    }

    /// Whether a label set as it is seen is one of the query shard's.
    pub fn holds(&self, labels: LabelBlock<'_>) -> bool {
        self.shard.as_ref().is_none_or(|shard| shard.hash(labels) % shard.total == shard.index)
    }

    /// How two label sets follow each other of which one's kept labels are the other's and one more, whose name is
    /// `next`: the longer one against the shorter. Where the shorter one has none left of its own, an added label of
    /// a greater name is against `next`.
    pub(crate) fn longer_against_shorter(&self, next: &str) -> Ordering {
        match self.added.0.last() {
            Some((greatest, _)) if **greatest > *next => Ordering::Less,
            Some(_) | None => Ordering::Greater,
        }
    }
}

impl QueryShard {
    fn hash(&self, labels: LabelBlock<'_>) -> u64 {
        let mut hash = Xxh64::new(0);
        for (name, value) in labels.iter().filter(|(name, _)| self.hashed.has(name)) {
            [name, SEPARATOR, value, SEPARATOR].into_iter().for_each(|bytes| hash.update(bytes));
        }
        hash.digest()
    }
}

impl HashedLabels {
    fn has(&self, name: &[u8]) -> bool {
        let is_among = |names: &[Box<str>]| names.binary_search_by(|one| one.as_bytes().cmp(name)).is_ok();
        match self {
            Self::By(names) => is_among(names),
            Self::Without(names) => !is_among(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh64::xxh64;

    fn names(names: &[&str]) -> Vec<Box<str>> {
        names.iter().map(|name| (*name).into()).collect()
    }

    fn seen(view: &ExternalView, own: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        view.put_labels(own.iter().copied(), &mut out);
        out
    }

    fn check(external: &[(&str, &str)], left_out: &[&str], own: &[(&str, &str)], expect: &[(&str, &str)]) {
        let external = Labels::from_pairs(external.iter().copied());
        let view = ExternalView::new(&external, &names(left_out), None);
        let expect = Labels::from_pairs(expect.iter().copied()).to_canonical();
        assert_eq!(seen(&view, own), expect, "{external} without {left_out:?}");
    }

    #[test]
    fn external_labels_are_added_and_win_and_others_are_left_out() {
        let own = [("__name__", "up"), ("job", "a"), ("replica", "own")];
        check(&[], &[], &own, &own);
        let expect = [("A", "1"), ("__name__", "up"), ("job", "a"), ("replica", "own"), ("z", "2")];
        check(&[("A", "1"), ("z", "2")], &[], &own, &expect);
        check(&[("replica", "r0")], &[], &own, &[("__name__", "up"), ("job", "a"), ("replica", "r0")]);
        check(&[("replica", "r0")], &["replica"], &own, &[("__name__", "up"), ("job", "a")]);
        check(&[("dc", "x"), ("zone", "y")], &["zone", "__name__", "job", "replica"], &own, &[("dc", "x")]);
        check(&[("dc", "x")], &[], &[], &[("dc", "x")]);
    }

    #[test]
    fn a_query_shard_is_told_by_xxhash64_of_names_and_values_with_separators() {
        let own = [("__name__", "up"), ("job", "a"), ("pod", "p")];
        let check = |hashed: HashedLabels, bytes: &[u8]| {
            let index = xxh64(bytes, 0) % 7;
            let shard = |index| Some(QueryShard { index, total: 7, hashed: hashed.clone() });
            let holds = |index| {
                let view = ExternalView::new(&Labels::default(), &[], shard(index));
                view.holds(LabelBlock(&seen(&view, &own)))
            };
            assert_eq!((0..7).filter(|index| holds(*index)).collect::<Vec<_>>(), [index], "{hashed:?}");
        };
        check(HashedLabels::By(names(&["job", "nothing"])), b"job\xffa\xff");
        check(HashedLabels::Without(names(&["pod"])), b"__name__\xffup\xffjob\xffa\xff");
        check(HashedLabels::Without(vec![]), b"__name__\xffup\xffjob\xffa\xffpod\xffp\xff");
        check(HashedLabels::By(vec![]), b"");
        // The hash's own test values.
        assert_eq!((xxh64(b"", 0), xxh64(b"a", 0)), (0xef46_db37_51d8_e999, 0xd24e_c4f1_a98c_6e5b));
    }
}
