//! The labels of the series before, which the next one's are compared with: they have to come later, and what is the same
//! has its number already.

use super::texts::Texts;

/// Labels, and the numbers of their texts.
#[derive(Debug, Default)]
pub(super) struct PreviousLabels {
    texts: Vec<u8>,
    labels: Vec<Label>,
}

#[derive(Debug, Clone, Copy)]
struct Label {
    /// Where its name and its value end.
    name_to: usize,
    value_to: usize,
    name: u32,
    value: u32,
}

/// Whether labels are a series': names ascending, nothing empty.
pub(super) fn is_set<'a>(labels: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> bool {
    let names = labels.clone().map(|(name, _)| name);
    let is_ascending = names.clone().zip(names.skip(1)).all(|(name, next)| name < next);
    is_ascending && labels.clone().all(|(name, value)| !name.is_empty() && !value.is_empty())
}

impl PreviousLabels {
    /// Whether others come after them: by names and values in turn.
    pub(super) fn is_before<'a>(&self, others: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let own = (0..self.labels.len()).map(|at| self.texts_of(at));
        own.cmp(others.map(|(name, value)| (name.as_bytes(), value.as_bytes()))).is_lt()
    }

    /// Those of the next series, with the numbers of their texts. `before` is the one before it, if it has its numbers of
    /// the same table.
    pub(super) fn number<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        before: Option<&Self>,
        texts: &mut Texts,
    ) {
        self.texts.clear();
        self.labels.clear();
        for (at, (name, value)) in labels.enumerate() {
            let same = before.filter(|before| at < before.labels.len());
            let same = same.map(|before| (before.texts_of(at), before.labels[at]));
            let of_name = same.filter(|((before, _), _)| *before == name.as_bytes());
            let of_value = same.filter(|((_, before), _)| *before == value.as_bytes());
            let number = of_name.map_or_else(|| texts.number_of(name), |(_, label)| label.name);
            let value_number = of_value.map_or_else(|| texts.number_of(value), |(_, label)| label.value);
            self.texts.extend_from_slice(name.as_bytes());
            let name_to = self.texts.len();
            self.texts.extend_from_slice(value.as_bytes());
            let label = Label { name_to, value_to: self.texts.len(), name: number, value: value_number };
            self.labels.push(label);
        }
    }

    /// The numbers of names and values.
    pub(super) fn numbers(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.labels.iter().map(|label| (label.name, label.value))
    }

    /// What they have room for.
    pub(super) const fn memory_bytes(&self) -> usize {
        self.texts.capacity() + self.labels.capacity() * size_of::<Label>()
    }

    fn texts_of(&self, at: usize) -> (&[u8], &[u8]) {
        let Label { name_to, value_to, .. } = self.labels[at];
        let name_from = at.checked_sub(1).map_or(0, |before| self.labels[before].value_to);
        (&self.texts[name_from..name_to], &self.texts[name_to..value_to])
    }
}
