//! The shard's label index: each label name and value once, and the postings of each pair.

use std::cmp::Ordering;
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use roaring::RoaringBitmap;

use crate::cell::SeriesRef;
use crate::cell::heap::heap_bytes;
use crate::cell::pages::Pages;
use crate::cell::series::LabelRef;
use crate::shard::postings::{Postings, set_bytes_max};
use silverback_model::encode_label;
use silverback_model::gorilla::prefetch;

/// Values that a table may have to be made again in a smaller size at one go: the others wait meanwhile. A larger
/// one keeps its five bytes for each value that it had until it is as small, or empty.
const SHRUNK_MAX: usize = 1024;

/// A label name as the index numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NameRef(pub u32);

/// A moment of the index: what came later is distinguished from what was there, though refs are used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexMoment(u32);

impl IndexMoment {
    /// Whether this lies before another one. Moments are some 2^31 new names and pairs apart at most: far
    /// more than come while one read goes on.
    fn is_before(self, other: Self) -> bool {
        other.0.wrapping_sub(self.0) as i32 > 0
    }

    fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

#[derive(Debug, Default)]
struct Name {
    text: Box<str>,
    since: IndexMoment,
    values: HashTable<LabelRef>,
    /// Counts up whenever the table's entries may have changed their places.
    places: Places,
}

/// Tells a table's order of entries from the one after it was made again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places(u32);

/// How far a name's pairs are listed.
#[derive(Debug, Default)]
pub(crate) struct PairsListed {
    pairs: Vec<LabelRef>,
    of: Option<(NameRef, Places)>,
    next: usize,
}

/// Whether a list of pairs is at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListProgress {
    /// Go on.
    Part,
    /// That was all.
    All,
}

impl PairsListed {
    /// A list with room for so many.
    pub(crate) fn with_room(pairs: usize) -> Self {
        Self { pairs: Vec::with_capacity(pairs), ..Self::default() }
    }

    /// What was listed.
    pub(crate) fn into_pairs(self) -> Vec<LabelRef> {
        self.pairs
    }

    /// What was listed since this was asked last. A list that starts over gives pairs again.
    pub(crate) fn take_pairs(&mut self) -> Vec<LabelRef> {
        std::mem::take(&mut self.pairs)
    }
}

/// How far the names are listed.
#[derive(Debug, Default)]
pub(crate) struct NamesListed {
    names: Vec<NameRef>,
    next: u32,
}

impl NamesListed {
    /// What was listed.
    pub(crate) fn into_names(self) -> Vec<NameRef> {
        self.names
    }
}

#[derive(Debug)]
struct Pair {
    name: NameRef,
    since: IndexMoment,
    value: Box<str>,
    postings: Postings,
}

impl Default for Pair {
    fn default() -> Self {
        Self {
            name: NameRef(0),
            since: IndexMoment::default(),
            value: Box::default(),
            postings: Postings::default(),
        }
    }
}

/// Names, values and postings of one shard's series.
#[derive(Debug, Default)]
pub struct LabelIndex {
    /// By their bytes: what is looked for need not have been looked into.
    by_name: HashMap<Box<[u8]>, NameRef>,
    names: Pages<Name>,
    pairs: Pages<Pair>,
    all: Postings,
    hasher: DefaultHashBuilder,
    /// Moves on with each name and pair that is new.
    now: IndexMoment,
    text_bytes: usize,
    postings_bytes: usize,
    /// The names' tables of values.
    value_table_bytes: usize,
}

impl LabelIndex {
    /// The ref of a pair of texts in UTF-8, made where it is new. `None`: no ref is left, or it isn't UTF-8, which is looked
    /// at where it is new alone.
    pub fn intern(&mut self, name: &[u8], value: &[u8]) -> Option<LabelRef> {
        let name_ref = match self.by_name.get(name) {
            Some(found) => *found,
            None => {
                // Before anything is made: a name without values would stay.
                str::from_utf8(value).ok()?;
                self.add_name(str::from_utf8(name).ok()?)?
            }
        };
        let hash = self.hasher.hash_one(value);
        let since = self.now.next();
        let pairs = &self.pairs;
        let Name { values, places, .. } = self.names.get_mut(name_ref.0);
        if let Some(found) = values.find(hash, |pair| pairs.get(pair.0).value.as_bytes() == value) {
            return Some(*found);
        }
        let value = str::from_utf8(value).ok()?;
        let pair = Pair { name: name_ref, since, value: value.into(), postings: Postings::default() };
        let label = LabelRef(self.pairs.insert(pair)?);
        self.now = since;
        self.text_bytes += heap_bytes(value.len());
        self.value_table_bytes -= heap_bytes(values.allocation_size());
        let (pairs, hasher) = (&self.pairs, &self.hasher);
        let room = values.capacity() - values.len();
        values.insert_unique(hash, label, |pair| hasher.hash_one(pairs.get(pair.0).value.as_bytes()));
        if values.capacity() - values.len() > room {
            // It was made larger, or in its old size again without the holes that removed entries left.
            places.0 = places.0.wrapping_add(1);
        }
        self.value_table_bytes += heap_bytes(values.allocation_size());
        Some(label)
    }

    fn add_name(&mut self, text: &str) -> Option<NameRef> {
        let since = self.now.next();
        let name = Name { text: text.into(), since, values: HashTable::new(), places: Places::default() };
        let name_ref = NameRef(self.names.insert(name)?);
        self.now = since;
        self.by_name.insert(text.as_bytes().into(), name_ref);
        self.text_bytes += 2 * heap_bytes(text.len());
        Some(name_ref)
    }

    /// Adds a series to the postings of its pairs.
    pub fn add(&mut self, series: SeriesRef, labels: &[LabelRef]) {
        self.all.insert(series.0, &mut self.postings_bytes);
        for label in labels {
            self.pairs.get_mut(label.0).postings.insert(series.0, &mut self.postings_bytes);
        }
    }

    /// Takes a series out of the postings; a pair and a name without series go with it.
    pub fn remove(&mut self, series: SeriesRef, labels: &[LabelRef]) {
        self.all.remove(series.0, &mut self.postings_bytes);
        for label in labels {
            let pair = self.pairs.get_mut(label.0);
            pair.postings.remove(series.0, &mut self.postings_bytes);
            if pair.postings.series().is_empty() {
                self.remove_pair(*label);
            }
        }
    }

    /// Pairs that were interned for a series that then was not added go again.
    pub(crate) fn forget_unused(&mut self, labels: &[LabelRef]) {
        for label in labels {
            let pair = self.pairs.get(label.0);
            if pair.postings.series().is_empty() && self.is_held(*label) {
                self.remove_pair(*label);
            }
        }
    }

    fn is_held(&self, label: LabelRef) -> bool {
        let pair = self.pairs.get(label.0);
        let hash = self.hasher.hash_one(pair.value.as_bytes());
        self.names.get(pair.name.0).values.find(hash, |held| *held == label).is_some()
    }

    fn remove_pair(&mut self, label: LabelRef) {
        let pair = self.pairs.remove(label.0);
        self.text_bytes -= heap_bytes(pair.value.len());
        pair.postings.forget(&mut self.postings_bytes);
        let hash = self.hasher.hash_one(pair.value.as_bytes());
        let pairs = &self.pairs;
        let hasher = &self.hasher;
        let Name { values, places, .. } = self.names.get_mut(pair.name.0);
        self.value_table_bytes -= heap_bytes(values.allocation_size());
        if let Ok(entry) = values.find_entry(hash, |held| *held == label) {
            entry.remove();
        }
        if values.len() * 4 < values.capacity() && values.len() < SHRUNK_MAX {
            places.0 = places.0.wrapping_add(1);
            values.shrink_to_fit(|held| hasher.hash_one(pairs.get(held.0).value.as_bytes()));
        }
        self.value_table_bytes += heap_bytes(values.allocation_size());
        if values.is_empty() {
            let name = self.names.remove(pair.name.0);
            self.value_table_bytes -= heap_bytes(name.values.allocation_size());
            self.by_name.remove(name.text.as_bytes());
            self.text_bytes -= 2 * heap_bytes(name.text.len());
        }
    }

    /// Gives the memory of some places back that names or pairs have left. Returns whether there were any.
    pub(crate) fn give_page_back(&mut self) -> bool {
        self.names.give_back_page() || self.pairs.give_back_page()
    }

    /// The present moment.
    pub(crate) fn now(&self) -> IndexMoment {
        self.now
    }

    /// Every series.
    pub(crate) fn all(&self) -> &RoaringBitmap {
        self.all.series()
    }

    /// Lists the next names, of so many places. Names that come or go meanwhile may be in it or not.
    pub(crate) fn list_names(&self, places: usize, listed: &mut NamesListed) -> ListProgress {
        let end = self.names.end().min(listed.next.saturating_add(places as u32));
        let places = (listed.next..end).map(NameRef);
        listed.names.extend(places.filter(|name| !self.name(*name).is_empty()));
        listed.next = end;
        if end == self.names.end() { ListProgress::All } else { ListProgress::Part }
    }

    /// A name's text; empty for one that went since its ref was taken.
    pub(crate) fn name(&self, name: NameRef) -> &str {
        &self.names.get(name.0).text
    }

    /// The text of a name that was there at a moment. `None`: it went.
    pub(crate) fn name_since(&self, name: NameRef, moment: IndexMoment) -> Option<&str> {
        let Name { text, since, .. } = self.names.get(name.0);
        (!text.is_empty() && !moment.is_before(*since)).then_some(&**text)
    }

    /// The name of a pair.
    pub(crate) fn name_of(&self, label: LabelRef) -> NameRef {
        self.pairs.get(label.0).name
    }

    /// A name's number; `None`: no series has it.
    pub(crate) fn name_ref(&self, name: &str) -> Option<NameRef> {
        self.by_name.get(name.as_bytes()).copied()
    }

    /// How many values a name has.
    pub(crate) fn value_count(&self, name: &str) -> usize {
        self.by_name.get(name.as_bytes()).map_or(0, |name| self.names.get(name.0).values.len())
    }

    /// What a set of series takes at most, in bytes.
    pub(crate) fn set_bytes_max(&self) -> usize {
        set_bytes_max(self.all.series())
    }

    /// Appends labels in their canonical form.
    pub(crate) fn put_canonical(&self, labels: &[LabelRef], out: &mut Vec<u8>) {
        for label in labels {
            let (name, value) = self.text(*label);
            encode_label(out, name.as_bytes(), value.as_bytes());
        }
    }

    /// Lists the next pairs of a name, of so many places; none where no series has it. A list whose
    /// table was made again meanwhile starts over. Pairs that come or go meanwhile may be in it or not.
    pub(crate) fn list_pairs(&self, name: &str, places: usize, listed: &mut PairsListed) -> ListProgress {
        let Some(name_ref) = self.by_name.get(name.as_bytes()) else { return ListProgress::All };
        let name = self.names.get(name_ref.0);
        let of = Some((*name_ref, name.places));
        if listed.of != of {
            listed.pairs.clear();
            (listed.of, listed.next) = (of, 0);
        }
        let end = (listed.next + places).min(name.values.num_buckets());
        let found = (listed.next..end).filter_map(|place| name.values.get_bucket(place));
        listed.pairs.extend(found);
        listed.next = end;
        if end == name.values.num_buckets() { ListProgress::All } else { ListProgress::Part }
    }

    /// The pair of exactly this name and value.
    pub(crate) fn pair(&self, name: &str, value: &str) -> Option<LabelRef> {
        let name_ref = self.by_name.get(name.as_bytes())?;
        let values = &self.names.get(name_ref.0).values;
        values
            .find(self.hasher.hash_one(value.as_bytes()), |pair| &*self.pairs.get(pair.0).value == value)
            .copied()
    }

    /// A pair's name and value. A pair that went since its ref was taken reads as another one or as
    /// an empty one, never out of bounds.
    pub(crate) fn text(&self, label: LabelRef) -> (&str, &str) {
        let pair = self.pairs.get(label.0);
        (&self.names.get(pair.name.0).text, &pair.value)
    }

    /// The value of a pair that was there at a moment. `None`: it went.
    pub(crate) fn value_since(&self, label: LabelRef, moment: IndexMoment) -> Option<&str> {
        self.pair_since(label, moment).map(|pair| &*pair.value)
    }

    fn pair_since(&self, label: LabelRef, moment: IndexMoment) -> Option<&Pair> {
        let pair = self.pairs.get(label.0);
        // No label has an empty value.
        (!pair.value.is_empty() && !moment.is_before(pair.since)).then_some(pair)
    }

    /// Brings the values of pairs towards the core, ahead of a look at each.
    pub(crate) fn prefetch_values(&self, labels: &[LabelRef]) {
        labels.iter().for_each(|label| prefetch(self.pairs.get(label.0)));
        let values = labels.iter().map(|label| self.pairs.get(label.0).value.as_bytes());
        values.for_each(|value| value.first().into_iter().for_each(prefetch));
    }

    /// The series of a pair.
    pub(crate) fn postings(&self, label: LabelRef) -> &RoaringBitmap {
        self.pairs.get(label.0).postings.series()
    }

    /// How two label sets of a moment are ordered: by names and values in turn, as remote read wants them. What
    /// went since then comes first, so that a sort that goes on meanwhile keeps the order of all that stays.
    pub(crate) fn compare(&self, a: &[LabelRef], b: &[LabelRef], moment: IndexMoment) -> Ordering {
        for (left, right) in a.iter().zip(b) {
            if left != right {
                return self.compare_pairs(*left, *right, moment);
            }
        }
        a.len().cmp(&b.len())
    }

    /// How two labels of a moment that aren't the same follow each other.
    pub(crate) fn compare_pairs(&self, a: LabelRef, b: LabelRef, moment: IndexMoment) -> Ordering {
        match (self.pair_since(a, moment), self.pair_since(b, moment)) {
            (Some(left), Some(right)) if left.name == right.name => left.value.cmp(&right.value),
            // Each name is there once.
            (Some(left), Some(right)) => self.name(left.name).cmp(self.name(right.name)),
            (left, right) => left.is_some().cmp(&right.is_some()).then(a.0.cmp(&b.0)),
        }
    }

    /// Names held.
    pub(crate) fn name_count(&self) -> usize {
        self.by_name.len()
    }

    /// Pairs held.
    pub(crate) fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// What the texts of names and values take of these.
    #[inline]
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    /// Bytes held, from sums that are kept as things come and go.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let tables = self.value_table_bytes + heap_bytes(self.by_name.allocation_size());
        self.text_bytes + tables + self.pairs.bytes() + self.names.bytes() + self.postings_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(index: &mut LabelIndex, series: u32, labels: &[(&str, &str)]) -> Vec<LabelRef> {
        let refs: Vec<_> =
            labels.iter().map(|(n, v)| index.intern(n.as_bytes(), v.as_bytes()).unwrap()).collect();
        index.add(SeriesRef(series), &refs);
        refs
    }

    #[test]
    fn a_pair_is_interned_once() {
        let mut index = LabelIndex::default();
        let a = add(&mut index, 1, &[("job", "x"), ("le", "1")]);
        let b = add(&mut index, 2, &[("job", "x"), ("le", "2")]);
        assert_eq!(a[0], b[0]);
        assert_ne!(a[1], b[1]);
        assert_eq!(index.postings(a[0]).iter().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(index.text(b[1]), ("le", "2"));
        assert_eq!((index.name_count(), index.pair_count()), (2, 3));
    }

    #[test]
    fn what_no_series_has_any_more_leaves_the_index() {
        let mut index = LabelIndex::default();
        let a = add(&mut index, 1, &[("job", "x"), ("pod", "p1")]);
        add(&mut index, 2, &[("job", "x")]);
        index.remove(SeriesRef(1), &a);
        assert_eq!((index.name_count(), index.pair_count()), (1, 1));
        assert_eq!(index.pair("pod", "p1"), None);
        assert!(index.pair("job", "x").is_some());
        assert_eq!(index.all().len(), 1);
    }

    #[test]
    fn an_index_that_is_empty_again_counts_no_text_postings_or_values() {
        let mut index = LabelIndex::default();
        let values: Vec<String> = (0..2000).map(|i| format!("value-{i}")).collect();
        let added: Vec<_> =
            (0..).zip(&values).map(|(i, v)| (i, add(&mut index, i, &[("job", "x"), ("pod", v)]))).collect();
        assert!(index.bytes() > 2000 * 16);
        added.iter().for_each(|(series, labels)| index.remove(SeriesRef(*series), labels));
        assert_eq!((index.text_bytes, index.value_table_bytes), (0, 0));
        assert!(index.postings_bytes <= 64, "{}", index.postings_bytes);
    }

    /// Of the values that stay, in parts, while others come and go.
    fn check_listed(come_and_go: impl Fn(&mut LabelIndex, usize)) {
        let mut index = LabelIndex::default();
        let stay: Vec<_> = (0..1000).map(|i| add(&mut index, i, &[("pod", &format!("p{i}"))])[0]).collect();
        let (mut listed, mut parts) = (PairsListed::default(), 1);
        while index.list_pairs("pod", 64, &mut listed) == ListProgress::Part {
            come_and_go(&mut index, parts);
            parts += 1;
        }
        let pairs = listed.into_pairs();
        for pair in stay {
            assert_eq!(pairs.iter().filter(|listed| **listed == pair).count(), 1, "{:?}", index.text(pair));
        }
        assert!(parts > 1000 / 64, "{parts} parts");
    }

    #[test]
    fn pairs_are_listed_once_each_in_parts_while_others_come_and_go() {
        check_listed(|_, _| {});
        // The table grows.
        check_listed(|index, part| {
            for i in 0..if part < 30 { 100 } else { 0 } {
                add(index, 2000, &[("pod", &format!("grown-{part}-{i}"))]);
            }
        });
        // The table stays as large, and its entries are brought together.
        check_listed(|index, part| {
            for i in 0..if part < 60 { 100 } else { 0 } {
                let gone = add(index, 2000, &[("pod", &format!("gone-{part}-{i}"))]);
                index.remove(SeriesRef(2000), &gone);
            }
        });
        let mut listed = PairsListed::default();
        assert_eq!(LabelIndex::default().list_pairs("pod", 64, &mut listed), ListProgress::All);
        assert!(listed.into_pairs().is_empty());
    }

    #[test]
    fn what_is_not_utf_8_is_no_text_and_leaves_nothing() {
        let mut index = LabelIndex::default();
        let texts: [(&[u8], &[u8]); 3] = [(b"job", b"\xff"), (b"\xff", b"x"), (b"j\xc3", b"\xff")];
        for known in [false, true] {
            assert!(texts.iter().all(|(name, value)| index.intern(name, value).is_none()));
            assert_eq!((index.name_count(), index.pair_count()), (usize::from(known), usize::from(known)));
            add(&mut index, 1, &[("job", "x")]);
        }
    }

    #[test]
    fn pairs_of_a_series_that_was_not_added_are_forgotten() {
        let mut index = LabelIndex::default();
        let kept = add(&mut index, 1, &[("job", "x")]);
        let unused = index.intern(b"job", b"y").unwrap();
        index.forget_unused(&[kept[0], unused]);
        assert_eq!(index.pair_count(), 1);
    }

    #[test]
    fn what_went_since_a_moment_comes_first_whatever_its_ref_serves_now() {
        let mut index = LabelIndex::default();
        let gone =
            [(1, "g"), (2, "h")].map(|(series, pod)| (series, add(&mut index, series, &[("pod", pod)])));
        let stays = add(&mut index, 3, &[("pod", "a")]);
        let moment = index.now();
        gone.iter().for_each(|(series, labels)| index.remove(SeriesRef(*series), labels));
        let later = add(&mut index, 4, &[("pod", "zzz")]);
        let [first, second] = gone.map(|(_, labels)| labels);
        assert!(later == first || later == second, "the ref is used again");
        for went in [&first, &second] {
            assert_eq!(index.compare(went, &stays, moment), Ordering::Less);
            assert_eq!(index.value_since(went[0], moment), None);
        }
        assert_eq!(index.compare(&first, &second, moment), first[0].0.cmp(&second[0].0));
        assert_eq!(index.value_since(stays[0], moment), Some("a"));
        assert_eq!(index.value_since(later[0], index.now()), Some("zzz"));
    }

    #[test]
    fn label_sets_are_ordered_as_text() {
        let mut index = LabelIndex::default();
        let b = add(&mut index, 1, &[("a", "2")]);
        let a = add(&mut index, 2, &[("a", "1"), ("b", "1")]);
        let c = add(&mut index, 3, &[("a", "2"), ("b", "0")]);
        let compare = |left: &[LabelRef], right: &[LabelRef]| index.compare(left, right, index.now());
        assert_eq!(compare(&a, &b), Ordering::Less);
        assert_eq!(compare(&b, &c), Ordering::Less);
        assert_eq!(compare(&c, &c), Ordering::Equal);
    }
}
