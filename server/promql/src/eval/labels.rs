//! Label sets in an evaluation: parts of them, their hashes, changes to them.

use std::cmp::Ordering;
use std::hash::{BuildHasher, Hasher};
use std::rc::Rc;
use std::sync::OnceLock;

use hashbrown::DefaultHashBuilder;
use silverback_model::Labels;

use crate::ast::Grouping;

pub(crate) const METRIC_NAME: &str = "__name__";
/// What says more of a metric than its name, and goes with it.
const METADATA: [&str; 3] = [METRIC_NAME, "__type__", "__unit__"];

pub(crate) type Pair = (Box<str>, Box<str>);

/// A label's own part beside its texts, in bytes.
const LABEL_BYTES: usize = size_of::<Pair>() + 16;

/// What a label set takes that has its own memory, in bytes.
pub(crate) fn bytes(labels: &Labels) -> usize {
    let texts = labels.0.iter().map(|(name, value)| name.len() + value.len() + LABEL_BYTES);
    size_of::<Labels>() + texts.sum::<usize>()
}

/// Two of them, which differ.
fn hashers() -> &'static [DefaultHashBuilder; 2] {
    // Seeded by the process, so that nobody can choose labels that collide.
    static HASHERS: OnceLock<[DefaultHashBuilder; 2]> = OnceLock::new();
    HASHERS.get_or_init(Default::default)
}

/// Of a whole label set.
pub(crate) fn hash(labels: &Labels) -> u64 {
    hash_pairs(labels.0.iter())
}

/// Of a whole label set, so wide that two sets with the same are the same.
pub(crate) fn wide_hash(labels: &Labels) -> u128 {
    let [low, high] = hashers();
    u128::from(hash_by(low, labels.0.iter())) | u128::from(hash_by(high, labels.0.iter())) << 64
}

/// Of some labels, names ascending.
pub(crate) fn hash_pairs<'a>(pairs: impl Iterator<Item = &'a Pair>) -> u64 {
    hash_by(&hashers()[0], pairs)
}

fn hash_by<'a>(hasher: &DefaultHashBuilder, pairs: impl Iterator<Item = &'a Pair>) -> u64 {
    let mut state = hasher.build_hasher();
    for (name, value) in pairs {
        state.write(name.as_bytes());
        state.write_u8(0xff);
        state.write(value.as_bytes());
        state.write_u8(0xff);
    }
    state.finish()
}

/// The same in each process (FNV-1a): what is chosen by it stays chosen.
pub(crate) fn stable_hash(labels: &Labels) -> u64 {
    let bytes = |text: &str| text.bytes().chain([0xff]).collect::<Vec<_>>();
    let all = labels.0.iter().flat_map(|(name, value)| [bytes(name), bytes(value)]).flatten();
    let mixed = all.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // Its high bits hardly differ between short texts: spread them.
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

pub(crate) fn metric_name(labels: &Labels) -> &str {
    labels.get(METRIC_NAME).unwrap_or_default()
}

/// The same set where it has no name.
pub(crate) fn without_name(labels: &Rc<Labels>) -> Rc<Labels> {
    match labels.0.iter().any(|(name, _)| METADATA.contains(&&**name)) {
        false => Rc::clone(labels),
        true => Rc::new(kept(labels, |name| !METADATA.contains(&name))),
    }
}

/// Takes the name away: in place, where nobody else has the set.
pub(crate) fn lose_name(labels: &mut Rc<Labels>) {
    match Rc::get_mut(labels) {
        Some(own) => own.0.retain(|(name, _)| !METADATA.contains(&&**name)),
        None => *labels = without_name(labels),
    }
}

/// The labels whose names are wanted.
pub(crate) fn kept(labels: &Labels, is_wanted: impl Fn(&str) -> bool) -> Labels {
    Labels(labels.0.iter().filter(|(name, _)| is_wanted(name)).cloned().collect())
}

/// Sets a label, or takes it away where the value is empty.
pub(crate) fn set(labels: &mut Labels, name: &str, value: &str) {
    match labels.0.binary_search_by(|(other, _)| (**other).cmp(name)) {
        Ok(at) if value.is_empty() => {
            labels.0.remove(at);
        }
        Ok(at) => labels.0[at].1 = value.into(),
        Err(_) if value.is_empty() => {}
        Err(at) => labels.0.insert(at, (name.into(), value.into())),
    }
}

/// Which labels of a set count: these, or all but these.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// Ascending.
    names: Vec<Box<str>>,
    takes_named: bool,
}

impl Chosen {
    /// What makes an aggregation's groups.
    pub(crate) fn grouping(grouping: &Grouping) -> Self {
        Self::new(&grouping.labels, !grouping.without)
    }

    /// What matches the sides of an operator.
    pub(crate) fn new(labels: &[Box<str>], takes_named: bool) -> Self {
        let mut names = labels.to_vec();
        if !takes_named {
            names.push(METRIC_NAME.into());
        }
        names.sort();
        names.dedup();
        Self { names, takes_named }
    }

    fn takes(&self, name: &str) -> bool {
        self.names.binary_search_by(|other| (**other).cmp(name)).is_ok() == self.takes_named
    }

    pub(crate) fn of<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = &'a Pair> {
        labels.0.iter().filter(|(name, value)| self.takes(name) && !value.is_empty())
    }

    pub(crate) fn hash(&self, labels: &Labels) -> u64 {
        hash_pairs(self.of(labels))
    }

    /// Whether these labels of two sets are the same.
    pub(crate) fn are_same(&self, left: &Labels, right: &Labels) -> bool {
        self.of(left).eq(self.of(right))
    }

    pub(crate) fn labels(&self, labels: &Labels) -> Labels {
        Labels(self.of(labels).cloned().collect())
    }
}

/// As answers are sorted.
pub(crate) fn compare(left: &Labels, right: &Labels) -> Ordering {
    left.0.cmp(&right.0)
}

/// A label set as errors show it: `{__name__="a", b="c"}`.
pub(crate) fn shown(labels: &Labels) -> String {
    let pairs = labels.0.iter().map(|(name, value)| {
        let name = match silverback_model::printable::is_bare_name(name) {
            true => name.to_string(),
            false => crate::number::quote(name),
        };
        format!("{name}={}", crate::number::quote(value))
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}
