//! Two answers, sample for sample. It knows nothing of where they came from.

use std::collections::{BTreeMap, BTreeSet};

/// Series by their labels' JSON; each sample as its JSON, `[seconds,"value"]`.
pub(crate) type Answer = BTreeMap<String, Vec<String>>;

/// The number of samples that are the same, or the first difference.
pub(crate) fn compare(expected: &Answer, actual: &Answer) -> Result<usize, String> {
    compare_keys(expected.keys(), actual.keys())?;
    for (labels, samples) in expected {
        let read = &actual[labels];
        if let Some(place) = (0..samples.len().max(read.len())).find(|&i| samples.get(i) != read.get(i)) {
            return Err(format!(
                "{labels}: {} samples expected, {} read; the first that differs is {place}: {:?} expected, {:?} read",
                samples.len(),
                read.len(),
                samples.get(place),
                read.get(place)
            ));
        }
    }
    Ok(expected.values().map(Vec::len).sum())
}

/// The number of members that are the same, or the first difference.
pub(crate) fn compare_sets(expected: &BTreeSet<String>, actual: &BTreeSet<String>) -> Result<usize, String> {
    compare_keys(expected.iter(), actual.iter())
}

fn compare_keys<'a, I: Iterator<Item = &'a String>>(expected: I, actual: I) -> Result<usize, String> {
    let (expected, actual): (BTreeSet<_>, BTreeSet<_>) = (expected.collect(), actual.collect());
    let counts = format!("{} expected, {} read", expected.len(), actual.len());
    if let Some(missing) = expected.difference(&actual).next() {
        return Err(format!("{counts}; missing {missing}"));
    }
    if let Some(surplus) = actual.difference(&expected).next() {
        return Err(format!("{counts}; surplus {surplus}"));
    }
    if expected.is_empty() {
        return Err("nothing to compare".to_owned());
    }
    Ok(expected.len())
}
