//! The targets of the fleet: the labels that a scrape and a sender's external labels add.

use super::catalogue::{Label, SeriesTemplate};

/// The labels that every series of target `target` carries.
pub fn target_labels(target: usize) -> Vec<Label> {
    const ZONES: [&str; 4] = ["eu-west-1a", "eu-west-1b", "us-east-2a", "ap-south-1c"];
    const ROLES: [&str; 5] = ["web", "db", "cache", "worker", "ingress"];
    let (high, middle, low) = (16 + (target >> 16), (target >> 8) & 255, target & 255);
    let label = |name: &str, value: String| (name.to_owned(), value);
    vec![
        label("cluster", format!("prod-{:02}", target % 10)),
        label("datacenter", ZONES[target % ZONES.len()].to_owned()),
        label("env", "production".to_owned()),
        label("instance", format!("10.{high}.{middle}.{low}:9100")),
        label("job", "node".to_owned()),
        label("rack", format!("r{:02}", target / 20 % 48)),
        label("role", ROLES[target % ROLES.len()].to_owned()),
    ]
}

/// One series' whole label set, sorted by name as senders must send it.
pub fn series_labels(template: &SeriesTemplate, target: &[Label]) -> Vec<Label> {
    let name = ("__name__".to_owned(), template.metric.clone());
    let mut labels: Vec<Label> =
        std::iter::once(name).chain(target.iter().cloned()).chain(template.labels.iter().cloned()).collect();
    labels.sort();
    labels
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::load::catalogue::templates;

    #[test]
    fn no_two_targets_share_their_labels() {
        let distinct: HashSet<_> = (0..100_000).map(target_labels).collect();
        assert_eq!(distinct.len(), 100_000);
    }

    #[test]
    fn label_sets_are_sorted_and_without_duplicates() {
        for template in templates(500).expect("few enough") {
            let labels = series_labels(&template, &target_labels(3));
            assert!(labels.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
        }
    }
}
