//! Chains of operators that lean to the left, as dashboards generate them: from the first operand on, without a call
//! inside a call for each operator. Series go through operators with a scalar one by one, as long as their names allow it;
//! what two vectors give is held.

use super::Evaluator;
use super::binary::changes_meaning;
use super::series::{Collected, EvalSeries, Merged, Sink, Through};
use crate::ast::Type;
use crate::budget::{Budget, Held};
use crate::error::QueryError;
use crate::plan::{Combining, Node, Times};

/// Values that a series goes through in stages before others have their turn.
const STAGED_VALUES_MAX: usize = 1 << 15;

/// A part of a chain of operators: series, and the operators with a scalar that each of them goes through one after the
/// other.
struct Staged<'f, 'b> {
    from: Feed<'f, 'b>,
    stages: Vec<Stage<'f>>,
    /// No two of the series could become the same by losing their names.
    are_nameless: bool,
    held: Held<'b>,
}

enum Feed<'f, 'b> {
    Node(&'f Node),
    Series(Collected<'b>),
}

struct Stage<'f> {
    link: &'f Combining,
    scalar: Scalar,
    scalar_is_left: bool,
}

/// A scalar at all steps.
enum Scalar {
    Same(f64),
    Each(Vec<f64>),
}

impl Scalar {
    #[inline]
    fn at(&self, step: usize) -> f64 {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values[step],
        }
    }
}

impl<'f, 'b> Staged<'f, 'b> {
    fn new(from: Feed<'f, 'b>, budget: &'b Budget) -> Self {
        Self { from, stages: Vec::new(), are_nameless: false, held: budget.hold() }
    }

    fn push(&mut self, link: &'f Combining, scalar: Scalar, scalar_is_left: bool) -> Result<(), QueryError> {
        if let Scalar::Each(values) = &scalar {
            self.held.add(0, values.len() * size_of::<f64>())?;
        }
        self.stages.push(Stage { link, scalar, scalar_is_left });
        // What had one name, or none, has none then, and each is another's still.
        self.are_nameless |= link.renames() && link.has_one_name;
        Ok(())
    }
}

impl Combining {
    fn are_scalars(&self) -> bool {
        self.left_type == Type::Scalar && self.right_type == Type::Scalar
    }

    /// Whether its results lose their names.
    fn renames(&self) -> bool {
        changes_meaning(self.operator) || self.returns_bool
    }
}

impl Evaluator<'_> {
    /// A chain of operators, from its first operand on.
    pub(super) async fn binary(
        &self,
        binary: &Combining,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let (first, links) = binary.chain();
        let scalars = links.iter().take_while(|link| link.are_scalars()).count();
        let mut staged = Staged::new(Feed::Node(first), self.budget);
        for (at, link) in links.iter().enumerate().skip(scalars) {
            match (link.left_type, link.right_type) {
                (Type::Vector, Type::Vector) => {
                    let left = self.gathered(staged, times).await?;
                    if at + 1 == links.len() {
                        return self.pair(link, left, times, sink).await;
                    }
                    let mut pairs = Collected::new(self.budget);
                    self.pair(link, left, times, &mut pairs).await?;
                    staged = Staged::new(Feed::Series(pairs), self.budget);
                    // A label that is taken over may be the name.
                    staged.are_nameless = changes_meaning(link.operator) && link.matching.include.is_empty();
                    continue;
                }
                (Type::Vector, _) => {
                    let scalar = self.stage_scalar(&link.right, times).await?;
                    staged.push(link, scalar, false)?;
                }
                (_, _) => {
                    let scalar = match scalars {
                        0 => self.stage_scalar(first, times).await?,
                        _some => Scalar::Each(self.scalars(first, &links[..scalars], times).await?),
                    };
                    staged = Staged::new(Feed::Node(&link.right), self.budget);
                    staged.push(link, scalar, true)?;
                }
            }
            if self.merges(&staged, link) {
                let mut merged = Merged::new(self.budget);
                self.staged(staged, times, &mut merged).await?;
                staged = Staged::new(Feed::Series(merged.into_series()), self.budget);
                staged.are_nameless = true;
            } else if staged.stages.len().saturating_mul(times.count) >= STAGED_VALUES_MAX {
                let are_nameless = staged.are_nameless;
                staged = Staged::new(Feed::Series(self.gathered(staged, times).await?), self.budget);
                staged.are_nameless = are_nameless;
            }
        }
        self.staged(staged, times, sink).await
    }

    /// Whether series may have become the same by losing their names.
    fn merges(&self, staged: &Staged<'_, '_>, link: &Combining) -> bool {
        !self.is_delayed() && link.renames() && !link.has_one_name && !staged.are_nameless
    }

    /// All series of what is staged.
    async fn gathered<'b>(
        &'b self,
        staged: Staged<'_, 'b>,
        times: Times,
    ) -> Result<Collected<'b>, QueryError> {
        match staged {
            Staged { from: Feed::Series(series), stages, .. } if stages.is_empty() => Ok(series),
            staged => {
                let mut collected = Collected::new(self.budget);
                self.staged(staged, times, &mut collected).await?;
                Ok(collected)
            }
        }
    }

    /// Gives each series through all stages to a sink.
    async fn staged(
        &self,
        staged: Staged<'_, '_>,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let Staged { from, stages, held: _held, .. } = staged;
        let is_delayed = self.is_delayed();
        let change = |mut series: EvalSeries| {
            for Stage { link, scalar, scalar_is_left } in &stages {
                for step in 0..times.count {
                    self.scalar_step(link, &mut series.values, step, scalar.at(step), *scalar_is_left);
                }
                if link.renames() {
                    series.lose_name(is_delayed);
                }
            }
            (stages.is_empty() || !series.values.is_empty()).then_some(series)
        };
        let mut take = Through::new(sink, change);
        match from {
            Feed::Node(node) => self.produce(node, times, &mut take).await,
            Feed::Series(series) => self.pour(series, &mut take).await,
        }
    }

    async fn stage_scalar(&self, node: &Node, times: Times) -> Result<Scalar, QueryError> {
        Ok(match node {
            Node::Number(value) => Scalar::Same(*value),
            node => Scalar::Each(self.scalar(node, times).await?),
        })
    }

    /// Two vectors, the left of which is there already.
    async fn pair(
        &self,
        binary: &Combining,
        left: Collected<'_>,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        match binary.operator.is_set() {
            true => self.sets(binary, left, times, sink).await,
            false => self.vectors(binary, left, times, sink).await,
        }
    }
}
