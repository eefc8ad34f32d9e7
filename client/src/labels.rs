//! Label sets as series have them: names ascending, each once, no empty value.

use silverback_proto::v1;

/// The name of the label that holds the metric's name.
pub(crate) const METRIC_NAME: &str = "__name__";

/// What the labels of one series may take together, in bytes of names and values. A node may allow
/// less, and refuses the series then.
pub const LABEL_BYTES_MAX: usize = 64 << 10;

/// A series' labels, the metric's name as `__name__` among them; names ascending.
pub type Labels = Vec<(String, String)>;

/// Why labels don't make a series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// There is no `__name__`, or it is empty.
    #[error("the metric name is missing")]
    MissingName,
    /// A label's name is empty.
    #[error("a label name is empty")]
    EmptyName,
    /// A label occurs twice.
    #[error("the label {0:?} occurs twice")]
    Duplicate(String),
    /// More than [`LABEL_BYTES_MAX`].
    #[error("the labels take {0} bytes, which is more than {LABEL_BYTES_MAX}")]
    TooLong(usize),
}

/// The labels in their order, those with an empty value left out: these are the same as no label.
pub(crate) fn canonical(mut labels: Labels) -> Result<Labels, LabelError> {
    if labels.iter().any(|(name, _)| name.is_empty()) {
        return Err(LabelError::EmptyName);
    }
    labels.sort_unstable();
    if let Some(twice) = labels.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(LabelError::Duplicate(twice[0].0.clone()));
    }
    labels.retain(|(_, value)| !value.is_empty());
    if labels.binary_search_by(|(name, _)| name.as_str().cmp(METRIC_NAME)).is_err() {
        return Err(LabelError::MissingName);
    }
    let bytes = byte_count(&labels);
    if bytes > LABEL_BYTES_MAX { Err(LabelError::TooLong(bytes)) } else { Ok(labels) }
}

/// The bytes of all names and values.
pub(crate) fn byte_count(labels: &[(String, String)]) -> usize {
    labels.iter().map(|(name, value)| name.len() + value.len()).sum()
}

pub(crate) fn to_messages<'a>(labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<v1::Label> {
    let label = |(name, value): (&String, &String)| v1::Label { name: name.clone(), value: value.clone() };
    labels.into_iter().map(label).collect()
}

pub(crate) fn from_messages(labels: Vec<v1::Label>) -> Labels {
    labels.into_iter().map(|label| (label.name, label.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(labels: &[(&str, &str)], expect: Result<&[(&str, &str)], LabelError>) {
        let owned = |labels: &[(&str, &str)]| -> Labels {
            labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
        };
        assert_eq!(canonical(owned(labels)), expect.map(owned), "{labels:?}");
    }

    #[test]
    fn labels_are_ordered_and_empty_values_left_out() {
        let expect = [("__name__", "up"), ("a", "1"), ("b", "2")];
        check(&[("b", "2"), ("__name__", "up"), ("c", ""), ("a", "1")], Ok(&expect));
    }

    #[test]
    fn what_no_series_has_is_told() {
        check(&[("a", "1")], Err(LabelError::MissingName));
        check(&[("__name__", "")], Err(LabelError::MissingName));
        check(&[("__name__", "up"), ("", "1")], Err(LabelError::EmptyName));
        let twice = [("__name__", "up"), ("a", "1"), ("a", "2")];
        check(&twice, Err(LabelError::Duplicate("a".to_owned())));
        let long = "v".repeat(LABEL_BYTES_MAX);
        check(&[("__name__", &long)], Err(LabelError::TooLong(LABEL_BYTES_MAX + 8)));
    }
}
