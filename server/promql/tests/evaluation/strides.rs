//! Functions over ranges of floats, which go through all steps at once, give what they give where each step is looked at
//! by itself: of a series that has a histogram somewhere.

use std::rc::Rc;

use futures::executor::block_on;
use proptest::prelude::*;
use silverback_model::{Labels, Sample};
use silverback_promql::histogram::Histogram;
use silverback_promql::{
    Budget, Fetched, NoPace, ParseOptions, Plan, PlanOptions, Query, QueryTimes, Run, Value,
};

const FUNCTIONS: [&str; 17] = [
    "rate(x[$])",
    "increase(x[$])",
    "delta(x[$])",
    "irate(x[$])",
    "idelta(x[$])",
    "count_over_time(x[$])",
    "present_over_time(x[$])",
    "first_over_time(x[$])",
    "last_over_time(x[$])",
    "sum_over_time(x[$])",
    "avg_over_time(x[$])",
    "min_over_time(x[$])",
    "max_over_time(x[$])",
    "changes(x[$])",
    "resets(x[$])",
    "quantile_over_time(0.3, x[$])",
    "x",
];

/// Steps begin here.
const START_MS: i64 = 10_000_000;

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (0..50).prop_map(f64::from),
        4 => -1e3..1e3_f64,
        1 => Just(-0.0),
        1 => Just(f64::INFINITY),
        1 => Just(1e300),
    ]
}

/// A value that now and then isn't any.
fn value_or_nan() -> impl Strategy<Value = f64> {
    prop_oneof![20 => value(), 1 => Just(f64::NAN), 1 => Just(f64::from_bits(silverback_model::STALE_NAN_BITS))]
}

fn values() -> impl Strategy<Value = Vec<f64>> {
    let many = 0..200_usize;
    prop_oneof![
        prop::collection::vec((0..9000).prop_map(f64::from), many.clone()),
        prop::collection::vec(value(), many.clone()),
        prop::collection::vec(value_or_nan(), many),
    ]
}

fn evaluated(text: &str, step_ms: i64, steps: i64, series: &Fetched) -> Vec<(i64, u64)> {
    let query = Query::parse(text, ParseOptions::default()).unwrap();
    let times = QueryTimes::Range { start_ms: START_MS, end_ms: START_MS + (steps - 1) * step_ms, step_ms };
    let plan = Plan::new(query, times, PlanOptions::default()).unwrap();
    let fetched: Vec<_> = plan.selects().iter().map(|_| vec![series.clone()]).collect();
    let answer = block_on(plan.evaluate(&fetched, &Budget::new(1 << 20, 1 << 30), &NoPace)).unwrap();
    let Value::Matrix(matrix) = answer.value else { panic!("{text} gives no matrix") };
    let floats = matrix.iter().flat_map(|series| &series.floats);
    floats.filter(|(at_ms, _)| *at_ms > START_MS).map(|(at_ms, value)| (*at_ms, value.to_bits())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn all_steps_at_once_give_what_each_step_gives(
        values in values(),
        gaps in prop::collection::vec(prop_oneof![9 => Just(15_000_i64), 3 => 1_i64..40_000, 1 => 1_i64..400_000], 200),
        range_s in prop_oneof![Just(60_i64), Just(300), 1_i64..2000],
        step_ms in prop_oneof![Just(15_000_i64), Just(60_000), 301_000_i64..900_000],
        steps in 1_i64..70,
        begins_ms in -300_000_i64..300_000,
    ) {
        let mut at_ms = START_MS + begins_ms;
        let samples: Vec<_> = values
            .iter()
            .zip(&gaps)
            .map(|(value, gap)| {
                at_ms += gap;
                Sample::new(at_ms, *value)
            })
            .collect();
        let floats = Run::Floats(samples);
        let labels = Rc::new(Labels::from_pairs([("__name__", "x")]));
        let alone = Fetched { labels: Rc::clone(&labels), runs: vec![floats.clone()] };
        for function in FUNCTIONS {
            let text = function.replace('$', &format!("{range_s}s"));
            // In the first step's range alone.
            let range_ms = if function == "x" { 300_000 } else { range_s * 1000 };
            let histogram = (START_MS - range_ms + 1, Rc::new(Histogram::default()));
            let histograms = Run::Histograms(vec![histogram]);
            let beside = Fetched { labels: Rc::clone(&labels), runs: vec![histograms, floats.clone()] };
            prop_assert_eq!(
                evaluated(&text, step_ms, steps, &alone),
                evaluated(&text, step_ms, steps, &beside),
                "{}", text
            );
        }
    }
}
