//! Functions over ranges of native histograms.

use std::rc::Rc;

use super::window::{FunctionContext, StepValue, StepView};
use crate::histogram::{Combined, FloatHistogram, Hints, HistogramAccumulator, Incompatible};
use crate::notes::{HistogramOperation, Note};

/// `sum_over_time`
pub(super) fn sum(context: &FunctionContext<'_>, view: &StepView<'_>) -> StepValue {
    tally(context, view.histograms, HistogramAccumulator::add, HistogramAccumulator::sum)
}

/// `avg_over_time`
pub(super) fn avg(context: &FunctionContext<'_>, view: &StepView<'_>) -> StepValue {
    tally(context, view.histograms, HistogramAccumulator::add_to_mean, HistogramAccumulator::mean)
}

fn tally(
    context: &FunctionContext<'_>,
    histograms: &[Rc<FloatHistogram>],
    add: impl Fn(&mut HistogramAccumulator, &FloatHistogram) -> Result<Combined, Incompatible>,
    finish: impl Fn(HistogramAccumulator) -> FloatHistogram,
) -> StepValue {
    let mut tally = HistogramAccumulator::first(&histograms[0]);
    let mut hints = Hints::default();
    hints.see(&histograms[0]);
    let mut is_reconciled = false;
    for histogram in &histograms[1..] {
        hints.see(histogram);
        match add(&mut tally, histogram) {
            Ok(added) => is_reconciled |= added.is_reconciled,
            Err(Incompatible) => {
                context.note(Note::MixedExponentialCustom(context.metric()));
                return StepValue::Nothing;
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
    StepValue::Histogram(Rc::new(finish(tally)))
}
