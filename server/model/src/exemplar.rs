//! Exemplars: single events, mostly traces, that stand for a series' samples. Which labels one may have, why one is
//! refused, and counts of those. Where they are kept is not known here.

use std::cmp::Ordering;

use crate::label::{LabelBlock, encode_label};
use crate::limits::EXEMPLAR_LABEL_CHARS_MAX;
use crate::named;
use crate::named::counted;

/// An exemplar of some series.
#[derive(Debug, Clone, Copy)]
pub struct Exemplar<'a> {
    /// When, in ms since the Unix epoch.
    pub timestamp_ms: i64,
    /// What was observed.
    pub value: f64,
    /// What it was observed of, names ascending: a trace's id, for one.
    pub labels: LabelBlock<'a>,
}

impl Exemplar<'_> {
    /// By time, then value, then labels, as Prometheus orders them. Values are compared by their bits where they are
    /// no numbers.
    pub fn order(&self, other: &Self) -> Ordering {
        let by_value = || self.value.total_cmp(&other.value);
        let by_labels = || self.labels.0.cmp(other.labels.0);
        self.timestamp_ms.cmp(&other.timestamp_ms).then_with(by_value).then_with(by_labels)
    }
}

named! {
    /// Why an exemplar isn't kept.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum ExemplarRejected {
        /// It can't be read.
        Malformed = "malformed",
        /// A label has no name, is no UTF-8, occurs twice, or refers to no symbol.
        BadLabels = "bad_labels",
        /// Its labels have more characters than OpenMetrics allows.
        LabelsTooLong = "labels_too_long",
        /// Its request has more of them than are accepted.
        TooMany = "too_many",
        /// Its series isn't known: none of its samples are stored.
        UnknownSeries = "unknown_series",
        /// Older than the newest one of its series by more than the window.
        OutOfOrder = "out_of_order",
        /// Older than what retention keeps.
        TooOld = "too_old",
        /// Too far ahead of the node's clock.
        TooFarInFuture = "too_far_in_future",
        /// The node keeps none (`--max-exemplars=0`).
        Disabled = "disabled",
    }
}

counted! {
    /// Exemplars that were not kept, by reason.
    pub struct ExemplarRejectedCounts by ExemplarRejected;
}

/// A label set as it is collected, on the stack: more labels than characters are never good.
#[derive(Debug)]
pub struct ExemplarLabels<'a> {
    pairs: [(&'a [u8], &'a [u8]); EXEMPLAR_LABEL_CHARS_MAX],
    count: usize,
    chars: usize,
}

impl Default for ExemplarLabels<'_> {
    fn default() -> Self {
        Self { pairs: [(&[], &[]); EXEMPLAR_LABEL_CHARS_MAX], count: 0, chars: 0 }
    }
}

impl<'a> ExemplarLabels<'a> {
    /// Adds a label. An error: no more of them help.
    pub fn push(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), ExemplarRejected> {
        if name.is_empty() {
            return Err(ExemplarRejected::BadLabels);
        }
        for text in [name, value] {
            // A character has four bytes at most: what is longer isn't looked through.
            if text.len() > 4 * EXEMPLAR_LABEL_CHARS_MAX {
                return Err(ExemplarRejected::LabelsTooLong);
            }
            self.chars += str::from_utf8(text).map_err(|_| ExemplarRejected::BadLabels)?.chars().count();
        }
        if self.chars > EXEMPLAR_LABEL_CHARS_MAX {
            return Err(ExemplarRejected::LabelsTooLong);
        }
        // Each has a character at least, so there is a place for it.
        self.pairs[self.count] = (name, value);
        self.count += 1;
        Ok(())
    }

    /// Writes them to the end of `out` in canonical form.
    pub fn put_canonical(&mut self, out: &mut Vec<u8>) -> Result<(), ExemplarRejected> {
        let pairs = &mut self.pairs[..self.count];
        pairs.sort_unstable();
        if pairs.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(ExemplarRejected::BadLabels);
        }
        pairs.iter().for_each(|(name, value)| encode_label(out, name, value));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, ExemplarRejected> {
        let mut labels = ExemplarLabels::default();
        for (name, value) in pairs {
            labels.push(name.as_bytes(), value.as_bytes())?;
        }
        let mut out = Vec::new();
        labels.put_canonical(&mut out)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(LabelBlock(&out).iter().map(|(name, value)| (text(name), text(value))).collect())
    }

    fn check_refused(pairs: &[(&str, &str)], reason: ExemplarRejected) {
        assert_eq!(canonical(pairs), Err(reason), "{pairs:?}");
    }

    #[test]
    fn labels_are_sorted_and_empty_values_stay() {
        let told = canonical(&[("trace_id", "é"), ("a", ""), ("span_id", "x")]).unwrap();
        let told: Vec<_> = told.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(told, [("a", ""), ("span_id", "x"), ("trace_id", "é")]);
        assert_eq!(canonical(&[]), Ok(Vec::new()));
    }

    #[test]
    fn names_and_values_have_128_characters_at_the_most() {
        let fits = "é".repeat(EXEMPLAR_LABEL_CHARS_MAX - 1);
        assert!(canonical(&[("a", &fits)]).is_ok());
        check_refused(&[("a", &format!("{fits}x"))], ExemplarRejected::LabelsTooLong);
        check_refused(&[("a", &"x".repeat(1 << 20))], ExemplarRejected::LabelsTooLong);
        let many: Vec<String> = (0..130).map(|i| char::from_u32(0x100 + i).unwrap().to_string()).collect();
        let many: Vec<_> = many.iter().map(|name| (&**name, "")).collect();
        assert!(canonical(&many[..128]).is_ok());
        check_refused(&many, ExemplarRejected::LabelsTooLong);
    }

    #[test]
    fn labels_that_are_none_are_refused() {
        check_refused(&[("", "x")], ExemplarRejected::BadLabels);
        check_refused(&[("a", "1"), ("b", "2"), ("a", "3")], ExemplarRejected::BadLabels);
        let mut labels = ExemplarLabels::default();
        assert_eq!(labels.push(b"a", b"\xff"), Err(ExemplarRejected::BadLabels));
    }

    #[test]
    fn exemplars_are_ordered_by_time_value_and_labels() {
        let one = |timestamp_ms, value, labels| Exemplar { timestamp_ms, value, labels: LabelBlock(labels) };
        let ascending = [
            one(1, 9.0, b"z"),
            one(2, -1.0, b"z"),
            one(2, 3.0, b"a"),
            one(2, 3.0, b"b"),
            one(2, f64::NAN, b""),
        ];
        for two in ascending.windows(2) {
            assert_eq!(two[0].order(&two[1]), Ordering::Less, "{two:?}");
            assert_eq!(two[0].order(&two[0]), Ordering::Equal);
        }
    }
}
