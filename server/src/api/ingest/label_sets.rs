//! The label sets that a request's decoder makes of names and values: collected as text, checked as remote
//! write's are, and written out in canonical form.
//!
//! It knows no protocol: which labels a series has is the decoder's to say.

use std::borrow::Cow;
use std::ops::Range;

use crate::api::ingest::remote_write::CollectedLabels;
use silverback_model::limits::{EXPANDED_LABEL_BYTES_MAX, LABELS_MAX};
use silverback_model::{RefusedReason, SeriesId, SeriesIdHasher};
use silverback_storage::message::DefinitionBlock;

/// A label as two places in the text.
type LabelRanges = (Range<usize>, Range<usize>);

/// A label that one series alone has: its name, and its value in pieces.
pub(crate) type OwnLabel<'a> = (&'a str, &'a [&'a [u8]]);

/// The label sets of one request.
#[derive(Debug, Default)]
pub struct LabelSets {
    /// Names and values of the shared labels, and of the series that is made now.
    text: Vec<u8>,
    shared: Vec<LabelRanges>,
    /// Where the text of the shared labels ends.
    shared_end: usize,
    collected: CollectedLabels,
    /// The label sets that were made.
    pub made: DefinitionBlock,
}

/// Why there is no label set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelsRejected {
    /// It is not one that is stored.
    Refused(RefusedReason),
    /// All of the request's together take too much.
    TooMuch,
}

impl From<RefusedReason> for LabelsRejected {
    fn from(reason: RefusedReason) -> Self {
        Self::Refused(reason)
    }
}

impl LabelSets {
    /// Forgets the labels that were shared.
    pub(crate) fn begin(&mut self) {
        self.shared.clear();
        self.shared_end = 0;
    }

    /// Lets all series that are made from here on have a label.
    pub(crate) fn share(&mut self, name: &[u8], value: &[u8]) {
        self.share_written(|out| out.extend_from_slice(name), |out| out.extend_from_slice(value));
    }

    /// The same, its name and its value written where they are kept.
    pub(crate) fn share_written(
        &mut self,
        name: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.shared_end;
        self.text.truncate(start);
        name(&mut self.text);
        let value_start = self.text.len();
        value(&mut self.text);
        self.shared_end = self.text.len();
        self.shared.push((start..value_start, value_start..self.shared_end));
    }

    /// Takes the label back that was shared last, where its name is one of those that `is_other` knows.
    pub(crate) fn unshare_if(&mut self, is_other: impl FnOnce(&[u8]) -> bool) {
        if let Some((name, _)) = self.shared.pop_if(|(name, _)| is_other(&self.text[name.clone()])) {
            self.shared_end = name.start;
        }
    }

    /// Whether a label of this name is shared.
    pub(crate) fn shares(&self, name: &[u8]) -> bool {
        self.shared.iter().any(|(shared, _)| self.text[shared.clone()] == *name)
    }

    /// The value of a shared label; empty where there is none.
    pub(crate) fn shared_value(&self, name: &[u8]) -> Cow<'_, str> {
        let shared = self.shared.iter().find(|(shared, _)| self.text[shared.clone()] == *name);
        shared.map_or(Cow::Borrowed(""), |(_, value)| String::from_utf8_lossy(&self.text[value.clone()]))
    }

    /// Bytes that the text of the shared labels takes.
    pub(crate) fn shared_bytes(&self) -> usize {
        self.shared_end
    }

    /// Makes the label set of a series, whose own labels go over shared ones of the same names. Its id,
    /// and its number among those that were made.
    pub(crate) fn make(
        &mut self,
        own: &[OwnLabel<'_>],
        hasher: &SeriesIdHasher,
    ) -> Result<(SeriesId, u32), LabelsRejected> {
        // What is checked in the end, too: before much is made of it.
        if self.shared.len() > 2 * LABELS_MAX {
            return Err(RefusedReason::TooManyLabels.into());
        }
        self.text.truncate(self.shared_end);
        self.collected.clear();
        for (name, value) in &self.shared {
            let is_own = own.iter().any(|(own, _)| own.as_bytes() == &self.text[name.clone()]);
            if !is_own {
                self.collected.push(name.clone(), value.clone());
            }
        }
        for (name, value) in own {
            let (name, value) = self.put(name, value);
            self.collected.push(name, value);
        }
        self.collected.check(&self.text)?;
        if self.made.bytes() + self.collected.canonical_bytes_max() > EXPANDED_LABEL_BYTES_MAX {
            return Err(LabelsRejected::TooMuch);
        }
        let number = self.made.len() as u32;
        let (text, collected) = (&self.text, &self.collected);
        let ((), canonical) = self.made.push(|out| collected.write_canonical(text, out));
        Ok((hasher.hash_canonical(canonical), number))
    }

    /// A label's text, the value in pieces.
    fn put(&mut self, name: &str, value: &[&[u8]]) -> LabelRanges {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        let value_start = self.text.len();
        value.iter().for_each(|piece| self.text.extend_from_slice(piece));
        (start..value_start, value_start..self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_model::Labels;
    use silverback_storage::message::Definitions;

    fn words(sets: &LabelSets, number: u32) -> String {
        let mut definitions = Definitions::default();
        definitions.push(sets.made.clone());
        Labels::from(definitions.labels(number)).to_string()
    }

    #[test]
    fn own_labels_go_over_shared_ones_which_all_series_have() {
        let (mut sets, hasher) = (LabelSets::default(), SeriesIdHasher::new(1, ""));
        sets.share(b"job", b"a");
        sets.share(b"le", b"x");
        let (first, _) = sets.make(&[("__name__", &[b"m", b"_sum"])], &hasher).unwrap();
        let (second, _) = sets.make(&[("__name__", &[b"m"]), ("le", &[b"5"])], &hasher).unwrap();
        assert_ne!(first, second);
        assert_eq!(words(&sets, 0), r#"{__name__="m_sum", job="a", le="x"}"#);
        assert_eq!(words(&sets, 1), r#"{__name__="m", job="a", le="5"}"#);
        sets.begin();
        sets.make(&[("__name__", &[b"n"])], &hasher).unwrap();
        assert_eq!(words(&sets, 2), r#"{__name__="n"}"#);
    }

    #[test]
    fn a_shared_label_is_taken_back_by_its_name() {
        let (mut sets, hasher) = (LabelSets::default(), SeriesIdHasher::new(1, ""));
        for name in [b"a", b"b"] {
            sets.share(name, b"1");
            sets.unshare_if(|name| name == b"b");
        }
        assert!(sets.shares(b"a") && !sets.shares(b"b"));
        assert_eq!((sets.shared_value(b"a"), sets.shared_value(b"b")), ("1".into(), "".into()));
        sets.make(&[("__name__", &[b"m"])], &hasher).unwrap();
        assert_eq!(words(&sets, 0), r#"{__name__="m", a="1"}"#);
    }
}
