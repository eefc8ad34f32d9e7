//! Where a load's samples begin: after the newest that the node has of the same series, because it takes a series'
//! samples in the order of their times. It only reads.

use futures::TryStreamExt;
use silverback_client::{Labels, Matcher, Reader};
use silverback_load::fleet::{Fleet, target_labels, target_number};

use super::feed::AHEAD_OF_CLOCK_MS_MAX;
use super::options::LoadPlan;
use crate::connection::ConnectionArgs;
use crate::error::Done;
use crate::time_text::{format_rfc3339, now_ms};

/// How exactly the series' end is looked for.
const EXACTNESS_MS: i64 = 1000;
/// No node takes samples that are so far ahead of its clock.
const NEWEST_AHEAD_MS_MAX: i64 = 24 * 60 * 60 * 1000;
/// The labels that tell a fleet's series from others.
const TELLING: [&str; 3] = ["env", "instance", "job"];

/// Moves the plan's start after the newest sample that the node has of the fleet's series, where that is later.
/// What there is to say about it is returned.
pub(super) async fn after_what_is_there(
    plan: &mut LoadPlan,
    connection: &ConnectionArgs,
) -> Done<Option<String>> {
    let reader = connection.connect().await?.reader();
    let series = FleetSeries::new(plan)?;
    let Some(end_ms) = series.end_ms(&reader, plan.start_ms).await? else { return Ok(None) };
    let (is_short, until) = (end_ms - plan.start_ms > AHEAD_OF_CLOCK_MS_MAX, format_rfc3339(end_ms));
    // Not even for a round.
    if end_ms + i64::from(plan.interval_ms) > now_ms() + AHEAD_OF_CLOCK_MS_MAX {
        return Err(format!(
            "the node has samples of these series until {until}, about as far ahead of the clock as it takes them: \
             wait, or send other series, with a label of their own (--label run=2)"
        )
        .into());
    }
    plan.start_ms = end_ms;
    let words = format!("the node has samples of these series until {until}: new ones begin there");
    // Of a run that was to end about now.
    let is_short = is_short.then_some(
        ", and may come up to the clock before the run is over; a label of their own (--label run=2) makes other \
         series",
    );
    Ok(Some(words + is_short.unwrap_or_default()))
}

/// The series of a fleet, as a node is asked for them.
#[derive(Debug)]
struct FleetSeries {
    fleet: Fleet,
    matchers: Vec<Matcher>,
}

impl FleetSeries {
    fn new(plan: &LoadPlan) -> Done<Self> {
        let fleet = plan.fleet()?;
        let own = &fleet.options().labels;
        let is_free = |name: &str| TELLING.contains(&name) && own.iter().all(|(own, _)| own != name);
        let of_all = target_labels(fleet.options().first_target).into_iter();
        let of_all = of_all.filter(|(name, _)| is_free(name) && name != "instance");
        let matchers = own.iter().cloned().chain(of_all);
        let matchers = matchers.map(|(name, value)| Matcher::equal(name, value)).collect();
        Ok(Self { fleet, matchers })
    }

    /// A time after all samples that the node has from `from_ms` on, by a second at most. None if there are none.
    async fn end_ms(&self, reader: &Reader, from_ms: i64) -> Done<Option<i64>> {
        if !self.reach(reader, from_ms).await? {
            return Ok(None);
        }
        let (mut reached_ms, mut end_ms) = (from_ms, (now_ms() + NEWEST_AHEAD_MS_MAX).max(from_ms));
        while end_ms - reached_ms > EXACTNESS_MS {
            let middle_ms = reached_ms + (end_ms - reached_ms) / 2;
            if self.reach(reader, middle_ms).await? {
                reached_ms = middle_ms;
            } else {
                end_ms = middle_ms;
            }
        }
        Ok(Some(end_ms))
    }

    /// Whether any of them has a sample at that time or later. Not more is read than that takes.
    async fn reach(&self, reader: &Reader, at_ms: i64) -> Done<bool> {
        let mut found = reader.series(&self.matchers, Some(at_ms..=i64::MAX)).await?;
        while let Some(labels) = found.try_next().await? {
            if self.has(&labels) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a series that matches is one of the fleet's, now or after targets were replaced.
    fn has(&self, labels: &Labels) -> bool {
        let options = self.fleet.options();
        if options.labels.iter().any(|(name, _)| name == "instance") {
            return true;
        }
        let instance = labels.iter().find(|(name, _)| name == "instance");
        let Some(number) = instance.and_then(|(_, instance)| target_number(instance)) else { return false };
        let last = options.first_target + options.targets;
        number >= options.first_target && (number < last || options.churn_per_minute > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::plan;
    use super::*;

    fn check(words: &[&str], target: usize, expect: bool) {
        let series = FleetSeries::new(&plan(words).expect("a plan")).expect("a fleet");
        assert_eq!(series.has(&target_labels(target)), expect, "{words:?}: {target}");
    }

    #[test]
    fn series_are_the_fleet_s_by_their_target() {
        let words = ["--targets", "10", "--first-target", "300"];
        for (target, expect) in [(299, false), (300, true), (309, true), (310, false), (70_000, false)] {
            check(&words, target, expect);
        }
        check(&["--targets", "10", "--churn", "10%"], 70_000, true);
        check(&["--targets", "10", "--label", "instance=mine"], 70_000, true);
    }

    #[test]
    fn a_node_is_asked_for_labels_that_all_targets_have() {
        let words = ["--label", "run=2", "--label", "job=mine"];
        let series = FleetSeries::new(&plan(&words).expect("a plan")).expect("a fleet");
        let matchers: Vec<_> = series.matchers.iter().map(ToString::to_string).collect();
        assert_eq!(matchers, [r#"run="2""#, r#"job="mine""#, r#"env="production""#]);
    }
}
