//! The fleet: how many targets it has, what they are called, and which of their series a connection
//! sends. It knows no values and no time of a scrape.

use std::ops::Range;

use crate::catalogue::{self, Label, SeriesTemplate};

/// What a fleet looks like and how it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetOptions {
    /// Targets at a time.
    pub targets: usize,
    /// Series that each target exposes.
    pub series_per_target: usize,
    /// Number of the first target: another number makes other series.
    pub first_target: usize,
    /// Scrapes of each target.
    pub rounds: u32,
    /// Time between two scrapes of a target.
    pub interval_ms: u32,
    /// When the first round begins, ms since 1970.
    pub start_ms: i64,
    /// Seed of all values, offsets and replacements.
    pub seed: u64,
    /// The part of the targets that new ones take the place of, in a minute of the samples' time.
    pub churn_per_minute: f64,
    /// Zipf's exponent: the n-th target is scraped in one of n^skew rounds. 0: all alike.
    pub skew: f64,
    /// Labels that each series has besides; they win over others of their name.
    pub labels: Vec<Label>,
}

/// Why there is no such fleet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FleetError {
    /// More series than the catalogue has.
    #[error("a target has at most {most} series; take more targets instead")]
    SeriesPerTarget {
        /// What it has.
        most: usize,
    },
    /// A count is zero.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// Some connection would have nothing to send.
    #[error("{connections} connections for {series} series")]
    IdleConnections {
        /// Wanted connections.
        connections: usize,
        /// Series of all targets.
        series: usize,
    },
    /// Some connection would have no target where they are dealt out whole.
    #[error("{connections} connections for {targets} targets, which are dealt out whole")]
    FewTargets {
        /// Wanted connections.
        connections: usize,
        /// Targets at a time.
        targets: usize,
    },
    /// A target would be replaced more often than it is scraped.
    #[error("a churn of {churn} a minute replaces targets more often than one every scrape")]
    Churn {
        /// What was wanted.
        churn: f64,
    },
    /// Not an exponent that Zipf's law has.
    #[error("a skew of {skew} is not between 0 and {SKEW_MAX}")]
    Skew {
        /// What was wanted.
        skew: f64,
    },
}

/// Beyond this, nearly all samples are the first target's.
const SKEW_MAX: f64 = 4.0;
/// Even the last target is scraped in one of so many rounds.
const ROUNDS_BETWEEN_SCRAPES_MAX: f64 = 1000.0;

/// A fleet that can be scraped.
#[derive(Debug, Clone)]
pub struct Fleet {
    options: FleetOptions,
    templates: Vec<SeriesTemplate>,
}

impl Fleet {
    /// The fleet of these options.
    pub fn new(options: FleetOptions) -> Result<Self, FleetError> {
        let counts = [
            ("targets", options.targets),
            ("series", options.series_per_target),
            ("rounds", options.rounds as usize),
            ("interval", options.interval_ms as usize),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(FleetError::Zero(name));
        }
        if !(0.0..=SKEW_MAX).contains(&options.skew) {
            return Err(FleetError::Skew { skew: options.skew });
        }
        let most = catalogue::all_templates().len();
        let templates = catalogue::templates(options.series_per_target);
        let fleet = Self { templates: templates.ok_or(FleetError::SeriesPerTarget { most })?, options };
        if !(0.0..=1.0).contains(&fleet.churn_per_round()) {
            return Err(FleetError::Churn { churn: fleet.options.churn_per_minute });
        }
        Ok(fleet)
    }

    /// What it was made from.
    pub fn options(&self) -> &FleetOptions {
        &self.options
    }

    /// What each target exposes.
    pub fn templates(&self) -> &[SeriesTemplate] {
        &self.templates
    }

    /// Series of all targets at a time.
    pub fn total_series(&self) -> usize {
        self.options.targets * self.options.series_per_target
    }

    /// The series of one connection: whole targets, or a part of one where there are more
    /// connections than targets. So a series' samples stay in order.
    pub fn share(&self, connection: usize, connections: usize) -> Result<Range<usize>, FleetError> {
        let series = self.total_series();
        if connections == 0 {
            return Err(FleetError::Zero("connections"));
        }
        if connections > series {
            return Err(FleetError::IdleConnections { connections, series });
        }
        let (count, unit) = if self.options.targets >= connections {
            (self.options.targets, self.options.series_per_target)
        } else {
            (series, 1)
        };
        let bound = |connection| count * connection / connections * unit;
        Ok(bound(connection)..bound(connection + 1))
    }

    /// The targets of one connection where they are dealt out one by one, so that each has some of those that are
    /// scraped often.
    pub fn dealt(
        &self,
        connection: usize,
        connections: usize,
    ) -> Result<impl Iterator<Item = usize> + use<>, FleetError> {
        let targets = self.options.targets;
        match connections {
            0 => Err(FleetError::Zero("connections")),
            _ if connections > targets => Err(FleetError::FewTargets { connections, targets }),
            _ => Ok((connection..targets).step_by(connections)),
        }
    }

    /// In which part of the rounds the target at this place is scraped.
    pub fn weight(&self, place: usize) -> f64 {
        ((place + 1) as f64).powf(-self.options.skew).max(1.0 / ROUNDS_BETWEEN_SCRAPES_MAX)
    }

    /// The part of the targets that is replaced from one round to the next.
    pub fn churn_per_round(&self) -> f64 {
        self.options.churn_per_minute * f64::from(self.options.interval_ms) / 60_000.0
    }

    /// The number of the target at this place after `generation` replacements. No two share one.
    pub fn number(&self, place: usize, generation: usize) -> usize {
        self.options.first_target + place + generation * self.options.targets
    }

    /// The labels of a target's series, sorted by name as senders must send them.
    pub fn series_labels(&self, template: &SeriesTemplate, target: &[Label]) -> Vec<Label> {
        let name = ("__name__".to_owned(), template.metric.clone());
        let parts = [&self.options.labels, std::slice::from_ref(&name), target, &template.labels];
        let mut labels: Vec<Label> = parts.concat();
        // Stable: of two with the same name, the first stays first.
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        labels.dedup_by(|later, first| later.0 == first.0);
        labels
    }
}

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

/// The number of the target that has this `instance`: [`target_labels`] backwards.
pub fn target_number(instance: &str) -> Option<usize> {
    let address = instance.strip_prefix("10.")?.strip_suffix(":9100")?;
    let mut parts = address.split('.').map(|part| part.parse::<u32>().ok());
    let (high, middle, low) = (parts.next()??, parts.next()??, parts.next()??);
    let is_address = parts.next().is_none() && middle < 256 && low < 256;
    is_address.then(|| Some(((high.checked_sub(16)? as usize) << 16) + ((middle << 8) + low) as usize))?
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashSet;

    use super::*;

    pub(crate) fn small() -> FleetOptions {
        FleetOptions {
            targets: 6,
            series_per_target: 50,
            first_target: 0,
            rounds: 3,
            interval_ms: 15_000,
            start_ms: 1_700_000_000_000,
            seed: 1,
            churn_per_minute: 0.0,
            skew: 0.0,
            labels: vec![],
        }
    }

    #[test]
    fn no_two_targets_share_their_labels() {
        let distinct: HashSet<_> = (0..100_000).map(target_labels).collect();
        assert_eq!(distinct.len(), 100_000);
    }

    #[test]
    fn a_target_is_known_by_its_instance() {
        for number in [0, 255, 256, 65_535, 65_536, 1_000_000] {
            let labels = target_labels(number);
            let (_, instance) = labels.iter().find(|(name, _)| name == "instance").expect("it has one");
            assert_eq!(target_number(instance), Some(number));
        }
        for other in
            ["", "10.0.0.1:9100", "10.16.0.1:9009", "10.16.256.1:9100", "10.16.0.1.1:9100", "node:9100"]
        {
            assert_eq!(target_number(other), None, "{other}");
        }
    }

    #[test]
    fn label_sets_are_sorted_and_without_duplicates() {
        let fleet = Fleet::new(FleetOptions { series_per_target: 500, ..small() }).expect("few enough");
        for template in fleet.templates() {
            let labels = fleet.series_labels(template, &target_labels(3));
            assert!(labels.is_sorted_by(|a, b| a.0 < b.0), "{labels:?}");
        }
    }

    #[test]
    fn a_label_of_ones_own_wins() {
        let labels = vec![("role".to_owned(), "mine".to_owned()), ("run".to_owned(), "7".to_owned())];
        let fleet = Fleet::new(FleetOptions { labels: labels.clone(), ..small() }).expect("a fleet");
        let made = fleet.series_labels(&fleet.templates()[0], &target_labels(3));
        assert!(labels.iter().all(|label| made.contains(label)), "{made:?}");
        assert_eq!(made.iter().filter(|label| label.0 == "role").count(), 1);
    }

    #[test]
    fn every_series_is_of_one_connection() {
        let fleet = Fleet::new(small()).expect("a fleet");
        for connections in [1, 3, 6, 7, 300] {
            let shares: Vec<_> =
                (0..connections).map(|i| fleet.share(i, connections).expect("few")).collect();
            assert_eq!((shares[0].start, shares[connections - 1].end), (0, 300));
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start && !pair[1].is_empty()));
        }
        assert_eq!(fleet.share(0, 301), Err(FleetError::IdleConnections { connections: 301, series: 300 }));
    }

    #[test]
    fn every_target_is_dealt_to_one_connection_and_the_first_ones_to_all() {
        let fleet = Fleet::new(small()).expect("a fleet");
        let dealt = |connection, connections| fleet.dealt(connection, connections).map(Vec::from_iter);
        assert_eq!(
            (0..4).map(|i| dealt(i, 4).expect("few")).collect::<Vec<_>>(),
            [vec![0, 4], vec![1, 5], vec![2], vec![3]]
        );
        assert_eq!(dealt(0, 7), Err(FleetError::FewTargets { connections: 7, targets: 6 }));
        assert_eq!(dealt(0, 0), Err(FleetError::Zero("connections")));
    }

    #[test]
    fn a_fleet_that_cannot_be_is_refused() {
        let check = |options: FleetOptions, expected: FleetError| {
            assert_eq!(Fleet::new(options).map(|_| ()), Err(expected));
        };
        check(FleetOptions { targets: 0, ..small() }, FleetError::Zero("targets"));
        check(FleetOptions { skew: -1.0, ..small() }, FleetError::Skew { skew: -1.0 });
        check(FleetOptions { churn_per_minute: 5.0, ..small() }, FleetError::Churn { churn: 5.0 });
        let most = catalogue::all_templates().len();
        check(FleetOptions { series_per_target: most + 1, ..small() }, FleetError::SeriesPerTarget { most });
    }
}
