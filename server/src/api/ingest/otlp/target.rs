//! What a resource says of its series: `job` and `instance` on each of them, and all the rest once,
//! on `target_info`.

use silverback_proto::otlp::common::v1::KeyValue;

use super::attributes::text;

const SERVICE_NAMESPACE: &str = "service.namespace";
const SERVICE_NAME: &str = "service.name";
const SERVICE_INSTANCE: &str = "service.instance.id";

/// Whose metrics they are.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OtlpTarget {
    labels: Vec<(&'static str, String)>,
    /// The attributes that don't tell which one it is.
    pub(crate) described_by: Vec<KeyValue>,
}

impl OtlpTarget {
    /// The target of a resource's attributes.
    pub(crate) fn of(mut attributes: Vec<KeyValue>) -> Self {
        let value = |key| {
            let found = attributes.iter().rfind(|attribute| attribute.key == key);
            found.map(|attribute| text(attribute.value.as_ref()))
        };
        let job = match (value(SERVICE_NAMESPACE), value(SERVICE_NAME)) {
            (Some(namespace), Some(name)) if !namespace.is_empty() => Some(format!("{namespace}/{name}")),
            (Some(_) | None, name) => name,
        };
        let instance = value(SERVICE_INSTANCE);
        let labels = [("job", job), ("instance", instance)];
        let labels = labels.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let identifies = |key: &str| [SERVICE_NAMESPACE, SERVICE_NAME, SERVICE_INSTANCE].contains(&key);
        attributes.retain(|attribute| !identifies(&attribute.key));
        Self { labels, described_by: attributes }
    }

    /// The labels that its series have.
    pub(crate) fn labels(&self) -> Vec<(&'static str, &str)> {
        self.labels.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }

    /// Whether `target_info` has something to say, and of somebody.
    pub(crate) fn has_info(&self) -> bool {
        !self.labels.is_empty() && !self.described_by.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use silverback_proto::otlp::common::v1::{AnyValue, any_value::Value};

    use super::*;

    fn check(attributes: &[(&str, &str)], labels: &[(&str, &str)], described_by: &[&str]) {
        let value = |text: &str| Some(AnyValue { value: Some(Value::StringValue(text.into())) });
        let attributes =
            attributes.iter().map(|(key, text)| KeyValue { key: key.to_string(), value: value(text) });
        let target = OtlpTarget::of(attributes.collect());
        assert_eq!(target.labels(), labels);
        assert_eq!(target.described_by.iter().map(|a| &*a.key).collect::<Vec<_>>(), described_by);
        assert_eq!(target.has_info(), !labels.is_empty() && !described_by.is_empty());
    }

    #[test]
    fn job_and_instance_name_the_service() {
        check(&[("service.name", "shop")], &[("job", "shop")], &[]);
        check(
            &[("service.instance.id", "7"), ("service.name", "shop"), ("service.namespace", "eu")],
            &[("job", "eu/shop"), ("instance", "7")],
            &[],
        );
        check(&[("service.namespace", "eu"), ("host.name", "h")], &[], &["host.name"]);
        check(&[("service.name", "shop"), ("host.name", "h")], &[("job", "shop")], &["host.name"]);
        check(&[], &[], &[]);
    }
}
