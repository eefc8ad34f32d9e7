//! The labels that the series of a data point share: its attributes, and what its resource says.

use silverback_proto::otlp::common::v1::KeyValue;

use super::attributes;
use super::naming::{LabelNameError, label_name};
use crate::api::ingest::label_sets::LabelSets;
use silverback_model::RefusedReason;
use silverback_model::limits::LABELS_MAX;

/// Begins a data point: its attributes and, over them, `fixed`. Attributes whose names fall together
/// are joined, as Prometheus does it.
pub(crate) fn begin(
    sets: &mut LabelSets,
    attributes: &[KeyValue],
    fixed: &[(&str, &str)],
) -> Result<(), RefusedReason> {
    sets.begin();
    // What is checked in the end, too: before much is made of it.
    if attributes.len() > 2 * LABELS_MAX {
        return Err(RefusedReason::TooManyLabels);
    }
    let mut ordered: Vec<&KeyValue> = attributes.iter().collect();
    ordered.sort_by(|a, b| a.key.cmp(&b.key));
    let mut labels: Vec<(String, String)> = Vec::with_capacity(ordered.len());
    for attribute in ordered {
        let name = label_name(&attribute.key).map_err(|bad| match bad {
            LabelNameError::Empty => RefusedReason::EmptyLabelName,
            LabelNameError::NothingLeft => RefusedReason::BadName,
        })?;
        let value = attributes::text(attribute.value.as_ref());
        match labels.iter_mut().find(|(earlier, _)| *earlier == name) {
            Some((_, values)) => *values = format!("{values};{value}"),
            None => labels.push((name, value)),
        }
    }
    labels.retain(|(name, _)| fixed.iter().all(|(other, _)| name != other));
    for (name, value) in labels.iter().map(|(n, v)| (&**n, &**v)).chain(fixed.iter().copied()) {
        sets.share(name.as_bytes(), value.as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use silverback_proto::otlp::common::v1::{AnyValue, any_value::Value};

    use super::*;
    use crate::api::ingest::label_sets::LabelsRejected;
    use silverback_model::{Labels, SeriesIdHasher};
    use silverback_storage::message::Definitions;

    fn attributes(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
        let value = |text: &str| Some(AnyValue { value: Some(Value::StringValue(text.into())) });
        pairs.iter().map(|(key, text)| KeyValue { key: key.to_string(), value: value(text) }).collect()
    }

    /// The label set of `metric` with these attributes, of a service `s`, as PromQL writes it.
    fn make(
        metric: &str,
        pairs: &[(&str, &str)],
        label: Option<(&str, &str)>,
    ) -> Result<String, LabelsRejected> {
        let hasher = SeriesIdHasher::new(1, "");
        let mut sets = LabelSets::default();
        begin(&mut sets, &attributes(pairs), &[("job", "s")])?;
        let own = label.as_ref().map(|(name, value)| (*name, [value.as_bytes()]));
        let own = own.as_ref().map(|(name, value)| (*name, &value[..]));
        let metric = ("__name__", &[metric.as_bytes()][..]);
        let labels = [Some(metric), own].into_iter().flatten().collect::<Vec<_>>();
        let (id, number) = sets.make(&labels, &hasher)?;
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
        assert_eq!(make("m", pairs, None), Err(LabelsRejected::Refused(expect)));
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
