//! External labels: what every series of the node has besides its own for those that read it beside others.
//!
//! Knows labels and matchers. No series is stored with them: they are added to answers that are meant for such readers.

use std::collections::BTreeMap;

use crate::api::host_name::host_name;
use crate::api::query::Reader;
use crate::api::query::read_rejected::ReadRejected;
use crate::config::Config;
use silverback_model::{Labels, Matcher};

/// Those of a node.
#[derive(Debug)]
pub(crate) struct External {
    labels: Labels,
}

/// What an external label of a name decides about a selection.
#[derive(Debug)]
pub(crate) enum Narrowed {
    /// One doesn't match: no series does.
    None,
    /// These matchers are left, which are about series' own labels.
    To(Vec<Matcher>),
}

impl External {
    /// Those that are configured, on this host.
    pub(crate) fn of(config: &Config) -> Self {
        Self::new(config, &host_name())
    }

    /// Those that are configured, and of a node that is called so.
    fn new(config: &Config, host: &str) -> Self {
        let own = config.external_labels.labels().0.iter().map(|(name, value)| (&**name, &**value));
        // No label has an empty value.
        let replica = config.replica_label.as_deref().filter(|_| !host.is_empty()).map(|name| (name, host));
        let tenant = (&*config.tenant_label_name, &*config.tenant);
        Self { labels: Labels::from_pairs(own.chain(replica).chain([tenant])) }
    }

    /// The same as names and values, for blocks that leave the node.
    pub(crate) fn pairs(&self) -> BTreeMap<String, String> {
        self.labels.0.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// The labels, ascending.
    pub(crate) fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Lets the external labels decide about matchers of their names: what is left is about series' own.
    pub(crate) async fn narrow(
        &self,
        reader: &Reader,
        matchers: Vec<Matcher>,
    ) -> Result<Narrowed, ReadRejected> {
        let mut left = Vec::with_capacity(matchers.len());
        for matcher in matchers {
            match self.labels.get(&matcher.name) {
                None => left.push(matcher),
                Some(value) if is_match(reader, &matcher, value).await? => {}
                Some(_) => return Ok(Narrowed::None),
            }
        }
        Ok(Narrowed::To(left))
    }
}

/// Whether a value matches, in as many slices as it takes.
async fn is_match(reader: &Reader, matcher: &Matcher, value: &str) -> Result<bool, ReadRejected> {
    let mut room = reader.read_bytes.begin();
    room.grow(matcher.search_bytes()).map_err(|_| ReadRejected::BudgetExceeded)?;
    let (mut searching, mut slice) = (matcher.searching(), reader.slicer.begin().await);
    loop {
        if let Some(is_match) = searching.matches(value, || slice.is_spent()) {
            return Ok(is_match);
        }
        slice.yield_if_needed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_labels_that_are_given_its_name_and_its_tenant() {
        let labels = |config: &Config, host: &str| External::new(config, host).labels().to_string();
        let mut config = Config::default();
        assert_eq!(labels(&config, "pod-0"), r#"{tenant_id="default-tenant"}"#);
        config.replica_label = Some("replica".to_owned());
        config.tenant_label_name = "owner".to_owned();
        config.tenant = "team-a".to_owned();
        assert_eq!(labels(&config, "pod-0"), r#"{owner="team-a", replica="pod-0"}"#);
        assert_eq!(labels(&config, ""), r#"{owner="team-a"}"#);
    }
}
