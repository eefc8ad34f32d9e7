//! What is said of metrics: type, help and unit by name, each name on the shard that its hash names, whatever cells
//! move. Senders may not agree, so a name may have several.
//!
//! It is bounded in names and bytes, and what nobody says any more goes after as long as samples are kept.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::cell::heap::heap_bytes;
use crate::message::{PartMetadata, WriteBody};
use crate::shard::Shard;
use crate::wal::Journal;
use silverback_model::limits::{METADATA_METRICS_MAX, METADATA_PER_METRIC_MAX, METADATA_SHARE};
use silverback_model::{Metadata, MetadataRejected, MetricType};

/// Names that are looked at between two looks at the slice.
pub(super) const STEP: usize = 32;

/// What a name takes in the tree beside its text and its list.
const PLACE_BYTES: usize = 80;

/// The metadata of a shard.
#[derive(Debug)]
pub(crate) struct MetadataStore {
    by_name: BTreeMap<Box<str>, Vec<Said>>,
    bytes: usize,
    bytes_max: usize,
}

/// One of the things that are said of a metric.
#[derive(Debug)]
struct Said {
    kind: MetricType,
    help: Box<str>,
    unit: Box<str>,
    /// When somebody said it last, in ms on the wall clock.
    seen_ms: i64,
}

/// What became of metadata that is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is kept now.
    New,
    /// It was kept already.
    Known,
}

impl Default for MetadataStore {
    /// Without a bound in bytes, until it is set.
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), bytes: 0, bytes_max: usize::MAX }
    }
}

impl Said {
    fn is(&self, other: &Metadata<'_>) -> bool {
        (self.kind, &*self.help, &*self.unit) == (other.kind, other.help, other.unit)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + heap_bytes(self.help.len()) + heap_bytes(self.unit.len())
    }

    fn of<'a>(&'a self, name: &'a str) -> Metadata<'a> {
        Metadata { name, kind: self.kind, help: &self.help, unit: &self.unit }
    }
}

fn name_bytes(name: &str) -> usize {
    PLACE_BYTES + heap_bytes(name.len())
}

impl MetadataStore {
    /// What it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Names of which something is kept.
    pub(crate) fn metrics(&self) -> usize {
        self.by_name.len()
    }

    /// Notes what is said of a metric at a time.
    pub(crate) fn hear(&mut self, metadata: &Metadata<'_>, now_ms: i64) -> Result<Heard, MetadataRejected> {
        let known = self.by_name.get_mut(metadata.name);
        let is_new_name = known.is_none();
        if let Some(said) = known.and_then(|all| all.iter_mut().find(|said| said.is(metadata))) {
            said.seen_ms = said.seen_ms.max(now_ms);
            return Ok(Heard::Known);
        }
        let Metadata { name, kind, help, unit } = *metadata;
        let said = Said { kind, help: help.into(), unit: unit.into(), seen_ms: now_ms };
        let bytes = said.bytes() + if is_new_name { name_bytes(name) } else { 0 };
        if self.bytes + bytes > self.bytes_max || is_new_name && self.metrics() == METADATA_METRICS_MAX {
            return Err(MetadataRejected::Full);
        }
        self.bytes += bytes;
        let all = self.by_name.entry(name.into()).or_default();
        if all.len() == METADATA_PER_METRIC_MAX {
            let silent_longest = (0..all.len()).min_by_key(|at| all[*at].seen_ms).unwrap_or_default();
            self.bytes -= all.remove(silent_longest).bytes();
        }
        all.push(said);
        Ok(Heard::New)
    }

    /// Passes on what is said of some names, those after `passed`. Where to go on.
    pub(crate) fn visit(
        &self,
        passed: Option<&str>,
        mut visit: impl FnMut(Metadata<'_>, i64),
    ) -> Option<Box<str>> {
        let from = passed.map_or(Bound::Unbounded, Bound::Excluded);
        let mut last = None;
        for (name, all) in self.by_name.range::<str, _>((from, Bound::Unbounded)).take(STEP) {
            all.iter().for_each(|said| visit(said.of(name), said.seen_ms));
            last = Some(name.clone());
        }
        last
    }

    /// Passes on what is said of one name.
    pub(crate) fn visit_one(&self, name: &str, mut visit: impl FnMut(Metadata<'_>)) {
        if let Some((name, all)) = self.by_name.get_key_value(name) {
            all.iter().for_each(|said| visit(said.of(name)));
        }
    }

    /// Drops what nobody has said since a time, of some names after `passed`. Where to go on.
    fn drop_before(&mut self, horizon_ms: i64, passed: Option<&str>) -> Option<Box<str>> {
        let from = passed.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut last, mut emptied) = (None, Vec::new());
        for (name, all) in self.by_name.range_mut::<str, _>((from, Bound::Unbounded)).take(STEP) {
            let gone = all.extract_if(.., |said| said.seen_ms < horizon_ms);
            self.bytes -= gone.map(|said| said.bytes()).sum::<usize>();
            if all.is_empty() {
                emptied.push(name.clone());
            }
            last = Some(name.clone());
        }
        for name in emptied {
            self.bytes -= name_bytes(&name);
            self.by_name.remove(&name);
        }
        last
    }
}

impl Shard {
    /// Gives the metadata its share of a changed budget. What it has beyond that stays until nobody says it any more.
    pub(super) fn share_budget_with_metadata(&mut self, budget_bytes: usize) {
        self.metadata.bytes_max = budget_bytes / METADATA_SHARE;
    }

    /// Notes what a part says of metrics. What isn't kept is counted by reason, and fails nothing.
    pub fn hear_metadata(
        &mut self,
        body: &WriteBody,
        metadata: &[PartMetadata],
        now_ms: i64,
        journal: &mut impl Journal,
    ) {
        for one in metadata {
            let said = body.metadata(one);
            match self.metadata.hear(&said, now_ms) {
                Ok(Heard::New) => journal.metadata(&said, now_ms),
                Ok(Heard::Known) => {}
                Err(reason) => self.counters.metadata_refused.add(reason, 1),
            }
        }
    }

    /// Drops what nobody has said since a time, of some names after `passed`. Where to go on.
    pub(super) fn drop_metadata_before(&mut self, horizon_ms: i64, passed: Option<&str>) -> Option<Box<str>> {
        self.metadata.drop_before(horizon_ms, passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<'a>(name: &'a str, help: &'a str) -> Metadata<'a> {
        Metadata { name, kind: MetricType::Counter, help, unit: "s" }
    }

    fn all(store: &MetadataStore) -> Vec<(String, String, i64)> {
        let (mut all, mut passed) = (Vec::new(), None);
        loop {
            let add =
                |one: Metadata<'_>, seen_ms| all.push((one.name.to_owned(), one.help.to_owned(), seen_ms));
            passed = store.visit(passed.as_deref(), add);
            if passed.is_none() {
                return all;
            }
        }
    }

    #[test]
    fn what_is_said_again_is_kept_once_and_what_is_said_otherwise_beside_it() {
        let mut store = MetadataStore::default();
        let told: Vec<_> = [("b", "1"), ("a", "1"), ("a", "1"), ("a", "2")]
            .iter()
            .zip(10..)
            .map(|((name, help), now_ms)| store.hear(&said(name, help), now_ms).unwrap())
            .collect();
        assert_eq!(told, [Heard::New, Heard::New, Heard::Known, Heard::New]);
        let expect = [("a", "1", 12), ("a", "2", 13), ("b", "1", 10)];
        assert_eq!(all(&store), expect.map(|(name, help, at)| (name.to_owned(), help.to_owned(), at)));
        let mut one = Vec::new();
        store.visit_one("b", |metadata| one.push(metadata.help.to_owned()));
        store.visit_one("c", |metadata| one.push(metadata.help.to_owned()));
        assert_eq!(one, ["1"]);
    }

    #[test]
    fn of_too_much_that_is_said_of_one_name_what_was_not_said_for_longest_goes() {
        let mut store = MetadataStore::default();
        let texts: Vec<String> = (0..=METADATA_PER_METRIC_MAX).map(|i| i.to_string()).collect();
        (texts[..METADATA_PER_METRIC_MAX].iter().zip(0..))
            .for_each(|(text, at)| assert!(store.hear(&said("a", text), at).is_ok()));
        store.hear(&said("a", "0"), 100).unwrap();
        store.hear(&said("a", &texts[METADATA_PER_METRIC_MAX]), 101).unwrap();
        let left: Vec<_> = all(&store).into_iter().map(|(_, help, _)| help).collect();
        assert!(left.len() == METADATA_PER_METRIC_MAX && left.contains(&"0".to_owned()), "{left:?}");
        assert!(!left.contains(&"1".to_owned()), "{left:?}");
    }

    #[test]
    fn what_has_no_room_is_refused_and_what_nobody_says_any_more_makes_room() {
        let mut store = MetadataStore::default();
        (0..100).for_each(|i| assert!(store.hear(&said(&format!("m{i}"), "help"), i).is_ok()));
        store.bytes_max = store.bytes();
        assert_eq!(store.hear(&said("other", ""), 200), Err(MetadataRejected::Full));
        assert_eq!(store.hear(&said("m0", "help"), 200), Ok(Heard::Known), "what is known is");
        let (mut passed, mut steps) = (None, 0);
        loop {
            passed = store.drop_before(100, passed.as_deref());
            steps += 1;
            if passed.is_none() {
                break;
            }
        }
        assert!(steps > 100 / STEP, "{steps}");
        assert_eq!(all(&store), [("m0".to_owned(), "help".to_owned(), 200)]);
        assert_eq!(store.hear(&said("other", ""), 200), Ok(Heard::New));
        store.drop_before(i64::MAX, None);
        assert_eq!((store.bytes(), store.metrics()), (0, 0));
    }
}
