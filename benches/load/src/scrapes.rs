//! One connection's scrapes of a fleet, request by request: which target is scraped when, which one a
//! new one takes the place of, and what its series say then. It knows no encoding; the same fleet
//! gives the same samples.

use std::ops::Range;
use std::sync::Arc;

use crate::catalogue::Label;
use crate::encode::{MetricType, Sample};
use crate::fleet::{Fleet, FleetError, target_labels};
use crate::random::SplitMix;
use crate::values::ValueStream;

/// Learns of each series before the first sample of it.
pub trait DefineSeries {
    /// From now on `slot` stands for this series. Slots count up from 0; a slot that comes up again
    /// stands for another series. `labels` are sorted.
    fn define(&mut self, slot: usize, labels: &[Label], metric_type: MetricType, help: &str);
}

/// One connection's share of a fleet.
#[derive(Debug)]
pub struct Scrapes {
    fleet: Arc<Fleet>,
    /// In the order of their offsets, as they are scraped one after another.
    targets: Vec<Target>,
    values: Vec<ValueStream>,
    round: u32,
    /// The target whose turn it is, and its next series once its scrape has begun.
    turn: usize,
    place: Option<usize>,
}

/// One target, or a part of it.
#[derive(Debug)]
struct Target {
    place: usize,
    generation: usize,
    /// Of the fleet's templates.
    templates: Range<usize>,
    first_slot: usize,
    offset_ms: i64,
    /// Scraped once it reaches 1.
    due: f64,
    /// Replaced once it reaches 1.
    age: f64,
    is_defined: bool,
}

/// Why no more samples were put in.
enum Filled {
    /// A batch is whole.
    Batch,
    /// Each target had its turn.
    Round,
}

impl Scrapes {
    /// The share of `connection`, of so many.
    pub fn new(fleet: Arc<Fleet>, connection: usize, connections: usize) -> Result<Self, FleetError> {
        let targets = targets(&fleet, fleet.share(connection, connections)?);
        Ok(Self::of(fleet, targets))
    }

    /// The share of `connection` where targets are dealt out one by one.
    pub fn dealt(fleet: Arc<Fleet>, connection: usize, connections: usize) -> Result<Self, FleetError> {
        let whole = 0..fleet.options().series_per_target;
        let places = fleet.dealt(connection, connections)?;
        let targets = places.map(|place| Target::new(&fleet, place, whole.clone())).collect();
        Ok(Self::of(fleet, targets))
    }

    fn of(fleet: Arc<Fleet>, mut targets: Vec<Target>) -> Self {
        targets.sort_by_key(|target| target.offset_ms);
        let mut slots = 0;
        for target in &mut targets {
            target.first_slot = slots;
            slots += target.templates.len();
        }
        Self { fleet, targets, values: Vec::with_capacity(slots), round: 0, turn: 0, place: None }
    }

    /// Samples that a round has on average.
    pub fn samples_per_round(&self) -> f64 {
        self.targets
            .iter()
            .map(|target| target.templates.len() as f64 * self.fleet.weight(target.place))
            .sum()
    }

    /// When the round in flight begins, ms since 1970.
    pub fn round_ms(&self) -> i64 {
        let options = self.fleet.options();
        options.start_ms + i64::from(self.round) * i64::from(options.interval_ms)
    }

    /// Puts the next request's samples into `samples` and tells their newest round: `batch` of them,
    /// or what a round has where that is less, as a sender's deadline would make it. `None` once all
    /// rounds are over.
    pub fn next_batch(
        &mut self,
        batch: usize,
        samples: &mut Vec<Sample>,
        series: &mut impl DefineSeries,
    ) -> Option<u32> {
        samples.clear();
        let rounds = self.fleet.options().rounds;
        while self.round < rounds {
            let round = self.round;
            match self.fill(batch, samples, series) {
                Filled::Batch => return Some(round),
                Filled::Round => {
                    let is_last = self.round == rounds || self.slots() <= batch;
                    if is_last && !samples.is_empty() {
                        return Some(round);
                    }
                }
            }
        }
        None
    }

    /// Defines once more what was defined.
    pub fn define_again(&self, series: &mut impl DefineSeries) {
        for target in self.targets.iter().filter(|target| target.is_defined) {
            self.define(target, series);
        }
    }

    fn slots(&self) -> usize {
        self.targets.last().map_or(0, |target| target.first_slot + target.templates.len())
    }

    fn fill(&mut self, batch: usize, samples: &mut Vec<Sample>, series: &mut impl DefineSeries) -> Filled {
        while self.turn < self.targets.len() {
            if self.place.is_none() && !self.begin_turn(series) {
                self.turn += 1;
                continue;
            }
            let place = self.place.unwrap_or(0);
            let target = &self.targets[self.turn];
            let timestamp_ms = self.round_ms() + target.offset_ms;
            let end = target.templates.len().min(place + batch - samples.len());
            for series in target.first_slot + place..target.first_slot + end {
                samples.push(Sample { series, timestamp_ms, value: self.values[series].advance() });
            }
            if end == target.templates.len() {
                self.turn += 1;
                self.place = None;
            } else {
                self.place = Some(end);
            }
            if samples.len() == batch {
                return Filled::Batch;
            }
        }
        self.round += 1;
        self.turn = 0;
        Filled::Round
    }

    /// Whether the target whose turn it is is scraped in this round. A new one is defined.
    fn begin_turn(&mut self, series: &mut impl DefineSeries) -> bool {
        let (churn, round) = (self.fleet.churn_per_round(), self.round);
        let target = &mut self.targets[self.turn];
        if round > 0 {
            target.age += churn;
        }
        if target.age >= 1.0 {
            target.age -= 1.0;
            target.generation += 1;
            target.is_defined = false;
        }
        let is_due = target.due >= 1.0;
        target.due += self.fleet.weight(target.place) - if is_due { 1.0 } else { 0.0 };
        if is_due && !target.is_defined {
            target.is_defined = true;
            self.start_values();
            self.define(&self.targets[self.turn], series);
        }
        is_due
    }

    /// New values for the target whose turn it is.
    fn start_values(&mut self) {
        let (fleet, target) = (&self.fleet, &self.targets[self.turn]);
        let number = fleet.number(target.place, target.generation);
        for (slot, place) in (target.first_slot..).zip(target.templates.clone()) {
            let template = &fleet.templates()[place];
            let stream = number * fleet.options().series_per_target + place;
            let random = SplitMix::new(fleet.options().seed, stream as u64);
            let values = ValueStream::new(template.kind, template.base, random);
            // Targets are defined in the order of their slots, so a slot is either there or the next.
            match self.values.get_mut(slot) {
                Some(old) => *old = values,
                None => self.values.push(values),
            }
        }
    }

    fn define(&self, target: &Target, series: &mut impl DefineSeries) {
        let labels = target_labels(self.fleet.number(target.place, target.generation));
        for (slot, template) in (target.first_slot..).zip(&self.fleet.templates()[target.templates.clone()]) {
            let metric_type = if template.is_counter() { MetricType::Counter } else { MetricType::Gauge };
            let help = format!("The metric {} as the exporter collects it.", template.metric);
            series.define(slot, &self.fleet.series_labels(template, &labels), metric_type, &help);
        }
    }
}

/// The targets, or parts of them, that these series make up.
fn targets(fleet: &Fleet, mut series: Range<usize>) -> Vec<Target> {
    let per_target = fleet.options().series_per_target;
    let mut targets = Vec::new();
    while !series.is_empty() {
        let place = series.start / per_target;
        let end = series.end.min((place + 1) * per_target);
        let templates = series.start % per_target..end - place * per_target;
        targets.push(Target::new(fleet, place, templates));
        series.start = end;
    }
    targets
}

impl Target {
    fn new(fleet: &Fleet, place: usize, templates: Range<usize>) -> Self {
        let mut random = SplitMix::new(!fleet.options().seed, fleet.number(place, 0) as u64);
        let offset_ms = random.next_u64() % u64::from(fleet.options().interval_ms);
        Self {
            place,
            generation: 0,
            templates,
            first_slot: 0,
            offset_ms: offset_ms as i64,
            due: 1.0,
            // So that replacements are spread over time.
            age: random.unit(),
            is_defined: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use crate::fleet::FleetOptions;
    use crate::fleet::tests::small;

    /// What was scraped: each sample by its series' labels, and every series that was defined.
    #[derive(Debug, Default, PartialEq)]
    struct Scraped {
        slots: Vec<String>,
        defined: HashSet<String>,
        samples: Vec<(u32, String, i64, u64)>,
    }

    impl DefineSeries for Scraped {
        fn define(&mut self, slot: usize, labels: &[Label], _: MetricType, _: &str) {
            let text = format!("{labels:?}");
            match self.slots.get_mut(slot) {
                Some(old) => old.clone_from(&text),
                None => self.slots.push(text.clone()),
            }
            assert_eq!(self.slots[slot], text);
            assert!(self.defined.insert(text), "a series was defined twice");
        }
    }

    fn scrape(options: FleetOptions, connections: usize) -> Scraped {
        let fleet = Arc::new(Fleet::new(options).expect("a fleet"));
        let mut all = Scraped::default();
        for connection in 0..connections {
            let mut scrapes = Scrapes::new(Arc::clone(&fleet), connection, connections).expect("a share");
            let (mut batch, mut own) = (Vec::new(), Scraped::default());
            while let Some(round) = scrapes.next_batch(40, &mut batch, &mut own) {
                assert!(!batch.is_empty() && batch.len() <= 40);
                let named = |sample: &Sample| {
                    (round, own.slots[sample.series].clone(), sample.timestamp_ms, sample.value.to_bits())
                };
                all.samples.extend(batch.iter().map(named));
            }
            all.defined.extend(own.defined);
        }
        all
    }

    fn samples_of(scraped: &Scraped, instance: &str) -> usize {
        scraped.samples.iter().filter(|sample| sample.1.contains(instance)).count()
    }

    #[test]
    fn every_series_has_a_sample_each_round() {
        for connections in [1, 3, 6, 7, 300] {
            let scraped = scrape(small(), connections);
            assert_eq!((scraped.samples.len(), scraped.defined.len()), (6 * 50 * 3, 6 * 50));
            let mut times: BTreeMap<_, Vec<i64>> = BTreeMap::new();
            for (_, series, timestamp_ms, _) in &scraped.samples {
                times.entry(series.clone()).or_default().push(*timestamp_ms);
            }
            for times in times.values() {
                assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 15_000), "{times:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_samples_and_another_one_others() {
        let churning = || FleetOptions { churn_per_minute: 2.0, rounds: 6, skew: 0.7, ..small() };
        assert_eq!(scrape(churning(), 2), scrape(churning(), 2));
        assert_ne!(scrape(churning(), 2), scrape(FleetOptions { seed: 2, ..churning() }, 2));
        let others = scrape(FleetOptions { first_target: 6, ..small() }, 2);
        assert!(others.defined.is_disjoint(&scrape(small(), 2).defined));
    }

    #[test]
    fn churn_replaces_its_part_of_the_series_each_minute() {
        // 41 rounds are 10 minutes: 20 % a minute make twice as many new ones.
        let options = FleetOptions { churn_per_minute: 0.2, rounds: 41, targets: 50, ..small() };
        let scraped = scrape(FleetOptions { series_per_target: 4, ..options }, 3);
        let first = 50 * 4;
        let made = scraped.defined.len() - first;
        assert!(made.abs_diff(2 * first) <= first / 10, "{made} new series");
        assert_eq!(scraped.samples.len(), first * 41);
    }

    #[test]
    fn a_target_in_parts_is_replaced_as_a_whole() {
        let options = FleetOptions { churn_per_minute: 1.0, rounds: 20, targets: 2, ..small() };
        assert_eq!(scrape(options.clone(), 1).defined, scrape(options, 7).defined);
    }

    #[test]
    fn skew_scrapes_the_first_targets_more_often() {
        let scraped = scrape(FleetOptions { skew: 1.0, rounds: 120, ..small() }, 2);
        let samples: Vec<_> =
            (0..6).map(|place| samples_of(&scraped, &format!("10.16.0.{place}:9100"))).collect();
        for (place, samples) in samples.iter().enumerate() {
            let expected = 50 * 120 / (place + 1);
            assert!(samples.abs_diff(expected) <= 100, "{place}: {samples}, not {expected}");
        }
    }

    #[test]
    fn what_was_defined_can_be_defined_again() {
        let fleet = Arc::new(Fleet::new(small()).expect("a fleet"));
        let mut scrapes = Scrapes::new(fleet, 0, 1).expect("a share");
        let (mut first, mut again) = (Scraped::default(), Scraped::default());
        scrapes.next_batch(170, &mut Vec::new(), &mut first);
        scrapes.define_again(&mut again);
        assert_eq!((again.slots.len(), &again.slots), (200, &first.slots));
    }
}
