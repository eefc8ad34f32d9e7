//! The order in which series are given: by the labels that they have, or by those that are seen of them from outside.
//!
//! Of sets that all get the same labels, the added ones decide nothing but where one set ends: so what is compared are
//! refs of the labels that series keep, as without a view.

use std::cmp::Ordering;

use crate::cell::SeriesRef;
use crate::cell::series::LabelRef;
use crate::message::ExternalView;
use crate::shard::Shard;
use crate::shard::index::{IndexMoment, LabelIndex, NameRef};

/// An order of series.
#[derive(Debug, Clone)]
pub(super) struct Order<'a> {
    view: Option<&'a ExternalView>,
    /// The names whose labels don't count, as the index numbered them when the read began: what its series have since
    /// has no other. Ascending.
    dropped: Vec<NameRef>,
}

impl<'a> Order<'a> {
    pub(super) fn new(view: Option<&'a ExternalView>, index: &LabelIndex) -> Self {
        let names = view.into_iter().flat_map(ExternalView::dropped);
        let mut dropped: Vec<_> = names.filter_map(|name| index.name_ref(name)).collect();
        dropped.sort_unstable_by_key(|name| name.0);
        Self { view, dropped }
    }

    /// Whether one set of labels follows another where its first that isn't the same does, and where it goes on after all
    /// of the other's.
    pub(super) fn is_of_labels_alone(&self) -> bool {
        self.view.is_none()
    }

    /// Those of a series' labels that count, in their order.
    pub(super) fn kept<'b>(
        &'b self,
        index: &'b LabelIndex,
        labels: &'b [LabelRef],
    ) -> impl Iterator<Item = LabelRef> + 'b {
        labels.iter().copied().filter(|label| self.counts(index, *label))
    }

    /// Appends these.
    pub(super) fn add_kept(&self, index: &LabelIndex, labels: &[LabelRef], to: &mut Vec<LabelRef>) {
        match self.dropped.is_empty() {
            true => to.extend_from_slice(labels),
            false => to.extend(self.kept(index, labels)),
        }
    }

    /// How two label sets follow each other, by labels that count.
    pub(super) fn compare(
        &self,
        index: &LabelIndex,
        a: impl Iterator<Item = LabelRef>,
        b: impl Iterator<Item = LabelRef>,
        moment: IndexMoment,
    ) -> Ordering {
        let (mut a, mut b) = (a, b);
        loop {
            match (a.next(), b.next()) {
                (Some(left), Some(right)) if left == right => {}
                (Some(left), Some(right)) => return index.compare_pairs(left, right, moment),
                (None, None) => return Ordering::Equal,
                (Some(next), None) => return self.longer_against_shorter(index, next, moment),
                (None, Some(next)) => return self.longer_against_shorter(index, next, moment).reverse(),
            }
        }
    }

    /// The same of whole label sets.
    pub(super) fn compare_series(
        &self,
        shard: &Shard,
        a: SeriesRef,
        b: SeriesRef,
        moment: IndexMoment,
    ) -> Ordering {
        let kept = |series| self.kept(&shard.index, shard.store.labels(series));
        self.compare(&shard.index, kept(a), kept(b), moment)
    }

    fn longer_against_shorter(&self, index: &LabelIndex, next: LabelRef, moment: IndexMoment) -> Ordering {
        let Some(view) = self.view else { return Ordering::Greater };
        match index.value_since(next, moment) {
            Some(_) => view.longer_against_shorter(index.name(index.name_of(next))),
            // It went, and its series with it: that has no place any more.
            None => Ordering::Greater,
        }
    }

    fn counts(&self, index: &LabelIndex, label: LabelRef) -> bool {
        let is_dropped = |name: NameRef| self.dropped.binary_search_by_key(&name.0, |one| one.0).is_ok();
        self.dropped.is_empty() || !is_dropped(index.name_of(label))
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::message::{Read, ReadReply, ReadRequest, ReadTicket, Rows, Selection, SeriesWanted};
    use crate::shard::Reads;
    use crate::shard::tests::{EVER, append, shard};
    use proptest::prelude::*;
    use silverback_host::Alone;
    use silverback_model::{Epoch, Labels, Sample};
    use std::rc::Rc;
    use std::sync::Arc;

    /// What a read of all series gives, and what it should: all series, seen and then sorted.
    fn check(series: &[Labels], external: &Labels, left_out: &[Box<str>]) {
        let view = ExternalView::new(external, left_out, None);
        let (shard, reads) = (shard(), Reads::new(usize::MAX));
        let written: Vec<_> =
            series.iter().map(|labels| (labels.clone(), vec![Sample::new(1, 1.0)])).collect();
        append(&shard, EVER, &written);
        let request = ReadRequest::Open {
            selection: Selection::everything(),
            wanted: SeriesWanted::ExternalLabelSets(Arc::new(view.clone())).into(),
            bytes: usize::MAX >> 40,
        };
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        let reply = block_on(Rc::clone(&reads).answer(Rc::clone(&shard), Alone, read)).unwrap();
        let ReadReply::Series(batch, None) = *reply else { panic!("one batch of series") };
        let found: Vec<Labels> = (0..batch.count()).map(|at| batch.get(at).labels.into()).collect();
        let mut expect: Vec<Labels> = series
            .iter()
            .map(|labels| {
                let kept = labels.0.iter().filter(|(name, _)| {
                    !left_out.contains(name) && !external.0.iter().any(|(other, _)| other == name)
                });
                let added = external.0.iter().filter(|(name, _)| !left_out.contains(name));
                Labels::from_pairs(kept.chain(added).cloned())
            })
            .collect();
        expect.sort();
        assert_eq!(found, expect, "{external} without {left_out:?}");
    }

    /// Names that lie before, between and after each other, and few values: prefixes and equal sets are common.
    fn labels(at_most: usize) -> impl Strategy<Value = Labels> {
        proptest::collection::btree_map("[a-e]", "[xy]", 0..=at_most).prop_map(Labels::from_pairs)
    }

    fn series() -> impl Strategy<Value = Vec<Labels>> {
        let named = labels(4).prop_map(|mut labels| {
            // Its name is in the middle.
            labels.0.push(("c0".into(), "m".into()));
            labels.0.push(("__name__".into(), "m".into()));
            labels.0.sort();
            labels
        });
        proptest::collection::btree_set(named, 1..100).prop_map(|set| set.into_iter().collect())
    }

    proptest! {
        #[test]
        fn series_come_in_the_order_of_what_is_seen_of_them(
            series in series(),
            external in labels(3),
            left_out in proptest::collection::vec("[a-e]|c0|__name__".prop_map(Box::<str>::from), 0..4),
        ) {
            check(&series, &external, &left_out);
        }
    }
}
