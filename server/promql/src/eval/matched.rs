//! Series of both sides of an operator that match each other: what each pair gives, at all steps.

use std::cell::OnceCell;
use std::rc::Rc;

use hashbrown::HashMap;
use silverback_model::Labels;

use super::Evaluator;
use super::binary::{BinaryOutcome, Operand, changes_meaning};
use super::labels::{Chosen, METRIC_NAME, kept, set, shown, without_name};
use super::series::{EvalSeries, Merged, SeriesColumn, Sink};
use crate::ast::{Card, Matching};
use crate::error::QueryError;
use crate::plan::{Combining, Times};

/// Series of both sides. At a step at most one of the "one" side has a value.
pub(super) struct Match<'a> {
    pub(super) evaluator: &'a Evaluator<'a>,
    pub(super) binary: &'a Combining,
    pub(super) times: Times,
    /// All of the "many" side: those that match nothing, too.
    pub(super) all_many: &'a [EvalSeries],
    /// Once they were asked for: see [`Self::matched_steps`].
    pub(super) matched_steps: &'a OnceCell<Vec<bool>>,
    pub(super) many: Vec<&'a EvalSeries>,
    pub(super) one: Vec<&'a EvalSeries>,
    /// The "one" side is the left.
    pub(super) is_swapped: bool,
}

/// Which results came at which steps.
struct Came {
    /// At all.
    steps: Vec<bool>,
    results: Vec<Vec<bool>>,
    /// Of results, by their labels.
    places: HashMap<Rc<Labels>, usize>,
}

/// A result that grows step by step.
struct Growing {
    /// The "one" side's series that it is made with; none: what fills it.
    of: Option<usize>,
    /// Its place in [`Came::results`].
    result: usize,
    series: EvalSeries,
}

impl Came {
    /// The place of a result's labels.
    fn place(&mut self, labels: &Rc<Labels>) -> usize {
        *self.places.entry(Rc::clone(labels)).or_insert_with(|| {
            self.results.push(vec![false; self.steps.len()]);
            self.results.len() - 1
        })
    }

    /// That a result comes once at a step.
    fn note(&mut self, result: usize, step: usize, card: Card) -> Result<(), QueryError> {
        let had_any = std::mem::replace(&mut self.steps[step], true);
        let had_this = std::mem::replace(&mut self.results[result][step], true);
        match card {
            Card::OneToOne if had_any => Err(QueryError::execution(
                "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)",
            )),
            Card::ManyToOne | Card::OneToMany if had_this => Err(QueryError::execution(
                "multiple matches for labels: grouping labels must ensure unique matches",
            )),
            Card::OneToOne | Card::ManyToOne | Card::OneToMany | Card::ManyToMany => Ok(()),
        }
    }
}

impl Match<'_> {
    fn matching(&self) -> &Matching {
        &self.binary.matching
    }

    pub(super) async fn evaluate(&self, merged: &mut Merged<'_>) -> Result<(), QueryError> {
        // Sides are swapped for group_right, what fills them isn't: as Prometheus has it.
        let (fill_many, fill_one) = (self.matching().fill_left, self.matching().fill_right);
        let steps = self.times.count;
        let ones = self.ones().await?;
        let mut came = Came { steps: vec![false; steps], results: Vec::new(), places: HashMap::new() };
        for many in &self.many {
            let mut growing: Option<Growing> = None;
            for (step, one) in ones.iter().enumerate() {
                let Some(many_value) = Operand::at(&many.values, step) else { continue };
                let one_value = match one {
                    Some(at) => Operand::at(&self.one[*at].values, step),
                    None => fill_one.map(Operand::Float),
                };
                let Some(one_value) = one_value else { continue };
                let Some((value, keeps)) = self.value(many_value, one_value) else { continue };
                if growing.as_ref().is_none_or(|growing| growing.of != *one) {
                    let next = self.begin(many, *one, &mut came);
                    if let Some(grown) = growing.replace(next) {
                        self.add(grown, merged)?;
                    }
                }
                let Some(growing) = &mut growing else { continue };
                came.note(growing.result, step, self.matching().card)?;
                if keeps {
                    value.put(&mut growing.series.values, step);
                }
            }
            if let Some(grown) = growing {
                self.add(grown, merged)?;
            }
            self.evaluator.pacing.spent(steps).await?;
        }
        match fill_many {
            Some(fill) => self.unmatched(fill, &came, merged).await,
            None => Ok(()),
        }
    }

    fn begin(&self, many: &EvalSeries, of: Option<usize>, came: &mut Came) -> Growing {
        let labels = match of {
            Some(at) => self.labels(&many.labels, &self.one[at].labels),
            None => self.labels(&many.labels, &self.filled(&many.labels)),
        };
        let result = came.place(&labels);
        let values = SeriesColumn::absent(self.times.count);
        Growing { of, result, series: EvalSeries { labels, drop_name: self.binary.returns_bool, values } }
    }

    fn add(&self, grown: Growing, merged: &mut Merged<'_>) -> Result<(), QueryError> {
        match grown.series.values.is_empty() {
            true => Ok(()),
            false => merged.push(grown.series),
        }
    }

    /// The "one" side's series that has a value at each step.
    async fn ones(&self) -> Result<Vec<Option<usize>>, QueryError> {
        let mut ones: Vec<Option<usize>> = vec![None; self.times.count];
        for (at, one) in self.one.iter().enumerate() {
            for (step, found) in ones.iter_mut().enumerate() {
                if !one.values.is_present(step) {
                    continue;
                }
                if let Some(other) = *found
                    && self.matched_steps().await?[step]
                {
                    return Err(self.duplicates(&one.labels, &self.one[other].labels));
                }
                *found = Some(at);
            }
            self.evaluator.pacing.spent(self.times.count).await?;
        }
        Ok(ones)
    }

    /// The steps at which both sides are matched at all: where one of them is empty nothing could come of it, unless it
    /// is filled, and Prometheus doesn't look whether the other has duplicates.
    async fn matched_steps(&self) -> Result<&[bool], QueryError> {
        if let Some(known) = self.matched_steps.get() {
            return Ok(known);
        }
        let is_filled = self.matching().fill_left.is_some() || self.matching().fill_right.is_some();
        let found = match is_filled {
            true => vec![true; self.times.count],
            false => self.evaluator.present(self.all_many.iter(), self.times).await?,
        };
        Ok(self.matched_steps.get_or_init(|| found))
    }

    fn duplicates(&self, one: &Labels, other: &Labels) -> QueryError {
        let side = if self.is_swapped { "left" } else { "right" };
        let matching = self.matching();
        let group = kept(one, |name| {
            let is_named = matching.labels.iter().any(|label| &**label == name);
            if matching.on { is_named } else { !is_named && name != METRIC_NAME }
        });
        let (mut first, mut second) = (shown(one), shown(other));
        if first > second {
            std::mem::swap(&mut first, &mut second);
        }
        QueryError::execution(format!(
            "found duplicate series for the match group {} on the {side} hand-side of the operation: [{first}, \
             {second}];many-to-many matching not allowed: matching labels must be unique on one side",
            shown(&group)
        ))
    }

    /// The result for a value of each side, and whether it is shown.
    fn value(&self, many: Operand, one: Operand) -> Option<(Operand, bool)> {
        let (left, right) = if self.is_swapped { (one, many) } else { (many, one) };
        match self.evaluator.operate(self.binary, left, right) {
            BinaryOutcome::None => None,
            BinaryOutcome::Value(_, keeps) if self.binary.returns_bool => {
                Some((Operand::Float(f64::from(u8::from(keeps))), true))
            }
            BinaryOutcome::Value(value, keeps) => Some((value, keeps)),
        }
    }

    /// Values of the "one" side that nothing of the other matched.
    async fn unmatched(&self, fill: f64, came: &Came, merged: &mut Merged<'_>) -> Result<(), QueryError> {
        for one in &self.one {
            let labels = self.labels(&self.filled(&one.labels), &one.labels);
            let mut values = SeriesColumn::absent(self.times.count);
            for step in (0..self.times.count).filter(|step| !came.steps[*step]) {
                let Some(value) = Operand::at(&one.values, step) else { continue };
                if let Some((value, true)) = self.value(Operand::Float(fill), value) {
                    value.put(&mut values, step);
                }
            }
            if !values.is_empty() {
                merged.push(EvalSeries { labels, drop_name: self.binary.returns_bool, values })?;
            }
            self.evaluator.pacing.spent(self.times.count).await?;
        }
        Ok(())
    }

    /// The labels of a series that isn't there: those that match.
    fn filled(&self, labels: &Labels) -> Rc<Labels> {
        let matching = self.matching();
        Rc::new(Chosen::new(&matching.labels, matching.on).labels(labels))
    }

    /// The result's labels.
    fn labels(&self, many: &Rc<Labels>, one: &Labels) -> Rc<Labels> {
        let matching = self.matching();
        let loses_name = changes_meaning(self.binary.operator)
            || (self.binary.returns_bool && !self.evaluator.is_delayed());
        let mut labels = if loses_name { without_name(many) } else { Rc::clone(many) };
        if matching.card == Card::OneToOne {
            let is_named = |name: &str| matching.labels.iter().any(|label| &**label == name);
            let wants = |name: &str| is_named(name) == matching.on;
            if labels.0.iter().any(|(name, _)| !wants(name)) {
                labels = Rc::new(kept(&labels, wants));
            }
        }
        if !matching.include.is_empty() {
            let mut changed = (*labels).clone();
            for name in &matching.include {
                set(&mut changed, name, one.get(name).unwrap_or_default());
            }
            labels = Rc::new(changed);
        }
        labels
    }
}
