//! Functions over ranges of native histograms.

use std::rc::Rc;

use super::window::{Context, Given, View};
use crate::histogram::{Combined, Hints, Histogram, Incompatible, Tally};
use crate::notes::{HistogramOperation, Note};

/// `sum_over_time`
pub(super) fn sum(context: &Context<'_>, view: &View<'_>) -> Given {
    tally(context, view.histograms, Tally::add, Tally::sum)
}

/// `avg_over_time`
pub(super) fn avg(context: &Context<'_>, view: &View<'_>) -> Given {
    tally(context, view.histograms, Tally::add_to_mean, Tally::mean)
}

fn tally(
    context: &Context<'_>,
    histograms: &[Rc<Histogram>],
    add: impl Fn(&mut Tally, &Histogram) -> Result<Combined, Incompatible>,
    finish: impl Fn(Tally) -> Histogram,
) -> Given {
    let mut tally = Tally::first(&histograms[0]);
    let mut hints = Hints::default();
    hints.see(&histograms[0]);
    let mut is_reconciled = false;
    for histogram in &histograms[1..] {
        hints.see(histogram);
        match add(&mut tally, histogram) {
            Ok(added) => is_reconciled |= added.is_reconciled,
            Err(Incompatible) => {
                context.note(Note::MixedExponentialCustom(context.metric()));
                return Given::Nothing;
            }
        }
    }
    let note = |note| context.evaluator.notes.add(note, context.window.first_span);
    if hints.collide() {
        note(Note::ResetCollision(HistogramOperation::Aggregation));
    }
    if is_reconciled {
        note(Note::MismatchedCustomBuckets(HistogramOperation::Aggregation));
    }
    Given::Histogram(Rc::new(finish(tally)))
}
