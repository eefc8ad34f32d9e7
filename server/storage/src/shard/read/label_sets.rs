//! Canonical label sets that are put one after another into a batch: in the order in which series are read most labels of a
//! set are those of the set before, and runs of equal ones are copied from it at once.

use crate::cell::series::LabelRef;
use crate::shard::index::LabelIndex;
use silverback_model::encode_label;

/// Puts label sets. It goes by refs, so what was put before the read yielded must be forgotten: a ref may be another label's
/// by then.
#[derive(Debug, Default)]
pub(super) struct LabelSets {
    before: Vec<LabelRef>,
    /// Where each label of the set before begins in what it was put into, and where the last one ends.
    begins: Vec<usize>,
    /// The same of the set that is put.
    next: Vec<usize>,
}

impl LabelSets {
    /// Nothing is copied from what was put so far: the read has yielded, or what was put is taken out again.
    pub(super) fn forget(&mut self) {
        self.before.clear();
    }

    /// Appends a set to what all since [`Self::forget`] were appended to.
    pub(super) fn put(&mut self, index: &LabelIndex, labels: &[LabelRef], out: &mut Vec<u8>) {
        self.next.clear();
        let mut at = 0;
        while let Some(label) = labels.get(at) {
            let others = self.before.get(at..).unwrap_or_default();
            let equal = labels[at..].iter().zip(others).take_while(|(label, other)| label == other).count();
            let end = out.len();
            if equal == 0 {
                let (name, value) = index.text(*label);
                encode_label(out, name.as_bytes(), value.as_bytes());
                self.next.push(end);
                at += 1;
                continue;
            }
            let begins = &self.begins[at..=at + equal];
            out.extend_from_within(begins[0]..begins[equal]);
            self.next.extend(begins[..equal].iter().map(|begin| begin - begins[0] + end));
            at += equal;
        }
        self.next.push(out.len());
        std::mem::swap(&mut self.begins, &mut self.next);
        self.before.clear();
        self.before.extend_from_slice(labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::SeriesRef;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_are_put_as_each_of_them_alone(
            series in proptest::collection::vec(
                (proptest::collection::btree_map("[a-e]", "[xy]|z{130}", 0..=5), any::<bool>()), 1..20),
        ) {
            let (mut index, mut sets) = (LabelIndex::default(), LabelSets::default());
            let (mut out, mut expect) = (vec![7], vec![7]);
            for (at, (labels, forgets)) in (0..).zip(series) {
                let labels = labels.iter().map(|(name, value)| index.intern(name.as_bytes(), value.as_bytes()));
                let labels: Vec<_> = labels.map(Option::unwrap).collect();
                index.add(SeriesRef(at), &labels);
                if forgets {
                    sets.forget();
                }
                sets.put(&index, &labels, &mut out);
                index.put_canonical(&labels, &mut expect);
                prop_assert_eq!(&out, &expect);
            }
        }
    }
}
