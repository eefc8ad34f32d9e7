//! The label sets of a request's series: collected as text, checked as remote write's are, and
//! written out in canonical form.

use std::ops::Range;

use silverback_proto::otlp::common::v1::KeyValue;

use super::attributes;
use super::naming::{BadKey, label_name};
use crate::api::remote_write::CollectedLabels;
use crate::limits::{EXPANDED_LABEL_BYTES_MAX, LABELS_MAX};
use crate::message::DefinitionBlock;
use crate::model::{RefusedReason, SeriesId, SeriesIdHasher};

/// A label as two places in the text.
type Place = (Range<usize>, Range<usize>);

/// The label sets of one request.
#[derive(Debug, Default)]
pub struct LabelSets {
    /// Names and values of the present data point and its present series.
    text: Vec<u8>,
    /// Those that all series of the data point have.
    common: Vec<Place>,
    /// Where their text ends.
    common_end: usize,
    collected: CollectedLabels,
    /// The label sets that were made.
    pub made: DefinitionBlock,
}

/// Why there is no label set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMade {
    /// It is not one that is stored.
    Refused(RefusedReason),
    /// All of the request's together take too much.
    TooMuch,
}

impl From<RefusedReason> for NotMade {
    fn from(reason: RefusedReason) -> Self {
        Self::Refused(reason)
    }
}

impl LabelSets {
    /// Begins a data point: its attributes and, over them, `fixed`. Attributes whose names fall
    /// together are joined, as Prometheus does it.
    pub fn begin(&mut self, attributes: &[KeyValue], fixed: &[(&str, &str)]) -> Result<(), RefusedReason> {
        self.text.clear();
        self.common.clear();
        self.collected.clear();
        // What is checked in the end, too: before much is made of it.
        if attributes.len() > 2 * LABELS_MAX {
            return Err(RefusedReason::TooManyLabels);
        }
        let mut ordered: Vec<&KeyValue> = attributes.iter().collect();
        ordered.sort_by(|a, b| a.key.cmp(&b.key));
        let mut labels: Vec<(String, String)> = Vec::with_capacity(ordered.len());
        for attribute in ordered {
            let name = label_name(&attribute.key).map_err(|bad| match bad {
                BadKey::Empty => RefusedReason::EmptyLabelName,
                BadKey::NothingLeft => RefusedReason::BadName,
            })?;
            let value = attributes::text(attribute.value.as_ref());
            match labels.iter_mut().find(|(earlier, _)| *earlier == name) {
                Some((_, values)) => *values = format!("{values};{value}"),
                None => labels.push((name, value)),
            }
        }
        labels.retain(|(name, _)| fixed.iter().all(|(other, _)| name != other));
        for (name, value) in labels.iter().map(|(n, v)| (&**n, &**v)).chain(fixed.iter().copied()) {
            let place = self.put(name, &[value]);
            self.common.push(place);
        }
        self.common_end = self.text.len();
        Ok(())
    }

    /// Makes the label set of one of the data point's series. Its id, and its number among those
    /// that were made.
    pub fn make(
        &mut self,
        metric: &[&str; 2],
        label: Option<(&str, &str)>,
        hasher: &SeriesIdHasher,
    ) -> Result<(SeriesId, u32), NotMade> {
        self.text.truncate(self.common_end);
        self.collected.clear();
        let own = [Some(("__name__", "")), label];
        let is_own = |name: &[u8]| own.iter().flatten().any(|(own, _)| own.as_bytes() == name);
        for (name, value) in &self.common {
            if !is_own(&self.text[name.clone()]) {
                self.collected.push(name.clone(), value.clone());
            }
        }
        let metric = self.put("__name__", metric);
        let label = label.map(|(name, value)| self.put(name, &[value]));
        for (name, value) in [Some(metric), label].into_iter().flatten() {
            self.collected.push(name, value);
        }
        self.collected.check(&self.text)?;
        if self.made.bytes() + self.collected.canonical_bytes_max() > EXPANDED_LABEL_BYTES_MAX {
            return Err(NotMade::TooMuch);
        }
        let number = self.made.len() as u32;
        let (text, collected) = (&self.text, &self.collected);
        let ((), canonical) = self.made.push(|out| collected.write_canonical(text, out));
        Ok((hasher.hash_canonical(canonical), number))
    }

    /// A label's text, the value in pieces.
    fn put(&mut self, name: &str, value: &[&str]) -> Place {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        let value_start = self.text.len();
        value.iter().for_each(|piece| self.text.extend_from_slice(piece.as_bytes()));
        (start..value_start, value_start..self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use silverback_proto::otlp::common::v1::{AnyValue, any_value::Value};

    use super::*;
    use crate::message::Definitions;
    use crate::model::Labels;

    fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
        let value = |text: &str| Some(AnyValue { value: Some(Value::StringValue(text.into())) });
        pairs.iter().map(|(key, text)| KeyValue { key: key.to_string(), value: value(text) }).collect()
    }

    /// The label set of `metric` with these attributes, of a service `s`, as PromQL writes it.
    fn make(metric: &str, pairs: &[(&str, &str)], label: Option<(&str, &str)>) -> Result<String, NotMade> {
        let hasher = SeriesIdHasher::new(1, "");
        let mut sets = LabelSets::default();
        sets.begin(&attributes(pairs), &[("job", "s")])?;
        let (id, number) = sets.make(&[metric, ""], label, &hasher)?;
        let mut definitions = Definitions::default();
        definitions.push(sets.made);
        let block = definitions.labels(number);
        assert_eq!(id, hasher.hash_canonical(block.0));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(Labels(block.iter().map(|(n, v)| (text(n).into(), text(v).into())).collect()).to_string())
    }

    fn check(pairs: &[(&str, &str)], label: Option<(&str, &str)>, expect: &str) {
        assert_eq!(make("m", pairs, label).unwrap(), expect, "{pairs:?}");
    }

    #[test]
    fn attributes_become_labels_in_order() {
        check(&[("z.z", "1"), ("a", "x\"y")], None, r#"{__name__="m", a="x\"y", job="s", z_z="1"}"#);
        check(&[("empty", "")], None, r#"{__name__="m", job="s"}"#);
    }

    #[test]
    fn attributes_whose_names_fall_together_are_joined_in_the_order_of_their_keys() {
        check(&[("a_b", "3"), ("a.b", "2"), ("a-b", "1")], None, r#"{__name__="m", a_b="1;2;3", job="s"}"#);
    }

    #[test]
    fn what_the_series_needs_goes_over_attributes_of_the_same_name() {
        let pairs = [("__name__", "x"), ("job", "x"), ("le", "x")];
        check(&pairs, Some(("le", "5")), r#"{__name__="m", job="s", le="5"}"#);
        check(&pairs, None, r#"{__name__="m", job="s", le="x"}"#);
    }

    fn check_refused(pairs: &[(&str, &str)], expect: RefusedReason) {
        assert_eq!(make("m", pairs, None), Err(NotMade::Refused(expect)));
    }

    #[test]
    fn the_limits_are_remote_writes() {
        let names: Vec<String> = (0..LABELS_MAX).map(|i| format!("l{i}")).collect();
        let many: Vec<_> = names.iter().map(|name| (&**name, "x")).collect();
        check_refused(&many, RefusedReason::TooManyLabels);
        assert!(make("m", &many[2..], None).is_ok());
        check_refused(&[("a", &"x".repeat(9000))], RefusedReason::LabelTooLong);
        check_refused(&[("", "x")], RefusedReason::EmptyLabelName);
        check_refused(&[("..", "x")], RefusedReason::BadName);
        check_refused(&vec![("a", "x"); 300], RefusedReason::TooManyLabels);
    }
}
