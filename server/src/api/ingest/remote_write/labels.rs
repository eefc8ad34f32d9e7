//! The labels of one series that didn't come in canonical form, or whose form isn't known yet:
//! collected as places in the body, checked, sorted, written out.

use std::borrow::Cow;
use std::ops::Range;

use silverback_model::printable::{LabelName, Quoted};

use silverback_model::{
    RefusedReason,
    label::encode_label,
    limits::{LABEL_NAME_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX},
};

/// How much of a refused label set a sender is shown.
const DESCRIPTION_BYTES_MAX: usize = 256;

/// One label as two places in the body.
#[derive(Debug, Clone, Copy)]
struct LabelPlace {
    name: (u32, u32),
    value: (u32, u32),
}

/// The labels of one series. Kept between series for its memory.
#[derive(Debug, Default)]
pub struct CollectedLabels {
    places: Vec<LabelPlace>,
    too_many: bool,
}

/// How a label set that passed the checks came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelArrangement {
    /// Names ascending, every label with a value.
    InOrder,
    /// It had to be sorted, or labels without a value were dropped.
    Rearranged,
}

impl LabelPlace {
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.name)
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        slice(bytes, self.value)
    }

    fn check(&self, bytes: &[u8]) -> Result<(), RefusedReason> {
        let (name, value) = (self.name(bytes), self.value(bytes));
        if name.is_empty() {
            return Err(RefusedReason::EmptyLabelName);
        }
        if name.len() > LABEL_NAME_BYTES_MAX || value.len() > LABEL_VALUE_BYTES_MAX {
            return Err(RefusedReason::LabelTooLong);
        }
        if std::str::from_utf8(name).is_err() || std::str::from_utf8(value).is_err() {
            return Err(RefusedReason::InvalidUtf8);
        }
        Ok(())
    }
}

fn slice(bytes: &[u8], (offset, len): (u32, u32)) -> &[u8] {
    &bytes[offset as usize..][..len as usize]
}

fn place(span: Range<usize>) -> (u32, u32) {
    (span.start as u32, span.len() as u32)
}

impl CollectedLabels {
    /// Forgets the former series.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.too_many = false;
    }

    /// Where the metric's name is.
    pub(crate) fn metric_name(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let label = self.places.iter().find(|label| label.name(bytes) == b"__name__")?;
        let (offset, len) = label.value;
        Some(offset as usize..(offset + len) as usize)
    }

    /// Adds a label. Of a series that has more than it may have no more is kept than needed.
    pub(crate) fn push(&mut self, name: Range<usize>, value: Range<usize>) {
        // Labels without a value don't count in the end, so there is room for as many of them.
        if self.places.len() < 2 * LABELS_MAX {
            self.places.push(LabelPlace { name: place(name), value: place(value) });
        } else {
            self.too_many = true;
        }
    }

    /// Checks the labels, drops those without a value, and sorts.
    pub(crate) fn check(&mut self, bytes: &[u8]) -> Result<LabelArrangement, RefusedReason> {
        for label in &self.places {
            label.check(bytes)?;
        }
        let collected = self.places.len();
        self.places.retain(|label| label.value.1 > 0);
        if self.too_many || self.places.len() > LABELS_MAX {
            return Err(RefusedReason::TooManyLabels);
        }
        let in_order =
            collected == self.places.len() && self.places.is_sorted_by(|a, b| a.name(bytes) < b.name(bytes));
        if !in_order {
            self.sort(bytes)?;
        }
        if !self.places.iter().any(|label| label.name(bytes) == b"__name__") {
            return Err(RefusedReason::MissingName);
        }
        Ok(if in_order { LabelArrangement::InOrder } else { LabelArrangement::Rearranged })
    }

    fn sort(&mut self, bytes: &[u8]) -> Result<(), RefusedReason> {
        self.places.sort_unstable_by(|a, b| a.name(bytes).cmp(b.name(bytes)));
        let twice = self.places.windows(2).any(|pair| pair[0].name(bytes) == pair[1].name(bytes));
        if twice { Err(RefusedReason::DuplicateLabel) } else { Ok(()) }
    }

    /// Bytes that the canonical block takes at most.
    pub(crate) fn canonical_bytes_max(&self) -> usize {
        const FRAMING: usize = 1 + 3 + 1 + 2 + 1 + 3;
        self.places.iter().map(|l| FRAMING + l.name.1 as usize + l.value.1 as usize).sum()
    }

    /// Appends the canonical block of labels that were checked.
    pub(crate) fn write_canonical(&self, bytes: &[u8], out: &mut Vec<u8>) {
        for label in &self.places {
            encode_label(out, label.name(bytes), label.value(bytes));
        }
    }

    /// The value of the label `job`; empty where there is none.
    pub(crate) fn job<'a>(&self, bytes: &'a [u8]) -> Cow<'a, str> {
        let job = self.places.iter().find(|label| label.name(bytes) == b"job");
        job.map_or(Cow::Borrowed(""), |job| String::from_utf8_lossy(job.value(bytes)))
    }

    /// The label set in words, as far as it is worth showing.
    pub(crate) fn describe(&self, bytes: &[u8]) -> String {
        let mut out = String::from("{");
        for (i, label) in self.places.iter().enumerate() {
            if out.len() > DESCRIPTION_BYTES_MAX {
                out.push_str(", …");
                break;
            }
            let comma = if i == 0 { "" } else { ", " };
            let (name, value) = (excerpt(label.name(bytes)), excerpt(label.value(bytes)));
            out.push_str(&format!("{comma}{}={}", LabelName(&name), Quoted(&value)));
        }
        out.push('}');
        out
    }
}

fn excerpt(text: &[u8]) -> String {
    const EXCERPT_BYTES: usize = 64;
    if text.len() <= EXCERPT_BYTES {
        return String::from_utf8_lossy(text).into_owned();
    }
    format!("{}…", String::from_utf8_lossy(&text[..EXCERPT_BYTES]))
}
