//! Functions over ranges of floats, which go through all steps at once, give what they give where each step is looked at
//! by itself: of a series that has a histogram somewhere.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use futures::executor::block_on;
use proptest::prelude::*;
use silverback_model::{Labels, Sample};
use silverback_promql::histogram::FloatHistogram;
use silverback_promql::{
    Budget, Fetched, Interruption, NoPace, Pace, ParseOptions, Plan, PlanOptions, Query, QueryTimes, Run,
    Value,
};

const FUNCTIONS: [&str; 22] = [
    "rate(#)",
    "increase(#)",
    "delta(#)",
    "irate(#)",
    "idelta(#)",
    "count_over_time(#)",
    "present_over_time(#)",
    "absent_over_time(#)",
    "first_over_time(#)",
    "last_over_time(#)",
    "sum_over_time(#)",
    "avg_over_time(#)",
    "min_over_time(#)",
    "max_over_time(#)",
    "changes(#)",
    "resets(#)",
    "quantile_over_time(0.3, #)",
    "stddev_over_time(#)",
    "stdvar_over_time(#)",
    "deriv(#)",
    PREDICTION,
    "#",
];

/// It counts from each step's own time: so with `@` steps differ.
const PREDICTION: &str = "predict_linear(#, 600)";

/// Steps begin here.
const START_MS: i64 = 10_000_000;

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => (0..50).prop_map(f64::from),
        4 => -1e3..1e3_f64,
        1 => Just(-0.0),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
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

/// Of these a NaN may be another one, for which of two gets on depends on the order of instructions.
const NAN_IS_ANY: [&str; 4] = ["stddev_over_time", "stdvar_over_time", "deriv", "predict_linear"];

/// What all steps of a query give, their floats as bits.
fn steps_of(text: &str, start_ms: i64, step_ms: i64, steps: i64, series: &Fetched) -> Vec<(i64, u64)> {
    let query = Query::parse(text, ParseOptions::default()).unwrap();
    let times = QueryTimes::Range { start_ms, end_ms: start_ms + (steps - 1) * step_ms, step_ms };
    let plan = Plan::new(query, times, PlanOptions::default()).unwrap();
    let fetched: Vec<_> = plan.selects().iter().map(|_| vec![series.clone()]).collect();
    let answer = block_on(plan.evaluate(&fetched, &Budget::new(1 << 20, 1 << 30), &NoPace)).unwrap();
    let Value::Matrix(matrix) = answer.value else { panic!("{text} gives no matrix") };
    let floats = matrix.iter().flat_map(|series| &series.floats);
    let nan_is_any = NAN_IS_ANY.iter().any(|name| text.starts_with(name));
    let bits = |value: f64| if nan_is_any && value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
    floats.map(|(at_ms, value)| (*at_ms, bits(*value))).collect()
}

/// The same without the first step.
fn evaluated(text: &str, step_ms: i64, steps: i64, series: &Fetched) -> Vec<(i64, u64)> {
    let all = steps_of(text, START_MS, step_ms, steps, series);
    all.into_iter().filter(|(at_ms, _)| *at_ms > START_MS).collect()
}

fn of_floats(samples: Vec<Sample>) -> Fetched {
    let labels = Rc::new(Labels::from_pairs([("__name__", "x")]));
    Fetched { labels, runs: vec![Run::Floats(samples)] }
}

/// The same with a histogram.
fn beside_histogram(series: &Fetched, at_ms: i64) -> Fetched {
    let histograms = Run::Histograms(vec![(at_ms, Rc::new(FloatHistogram::default()))]);
    Fetched { labels: Rc::clone(&series.labels), runs: [&[histograms], &series.runs[..]].concat() }
}

/// What a function is of: a range, or the selector as it is.
fn over(function: &str, range: &str) -> String {
    if function == "#" { "x".to_owned() } else { format!("x[{range}]") }
}

/// When the first of what a function's first step looks at is.
fn first_ms(function: &str, range_s: i64) -> i64 {
    START_MS + 1 - if function == "#" { 300_000 } else { range_s * 1000 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn all_steps_at_once_give_what_each_step_gives(
        values in values(),
        gaps in prop::collection::vec(prop_oneof![9 => Just(15_000_i64), 3 => 1_i64..40_000, 1 => 1_i64..400_000], 200),
        range_s in prop_oneof![Just(60_i64), Just(300), 1_i64..2000],
        step_ms in prop_oneof![Just(15_000_i64), Just(60_000), 301_000_i64..900_000],
        steps in 2_i64..70,
        begins_ms in -300_000_i64..300_000,
        offset_s in prop_oneof![Just(0_i64), -600_i64..600],
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
        let alone = of_floats(samples);
        for function in FUNCTIONS {
            let over = over(function, &format!("{range_s}s"));
            let offset = if offset_s == 0 { String::new() } else { format!(" offset {offset_s}s") };
            let text = function.replace('#', &format!("{over}{offset}"));
            // In the first step's range alone.
            let beside = beside_histogram(&alone, first_ms(function, range_s) - 1000 * offset_s);
            let expect = evaluated(&text, step_ms, steps, &beside);
            prop_assert_eq!(&evaluated(&text, step_ms, steps, &alone), &expect, "{}", text);
            if function == PREDICTION {
                continue;
            }
            // The second step's range, at all steps.
            let second_ms = START_MS + step_ms;
            let at = format!("{over} @ {}.{:03}{offset}", second_ms / 1000, second_ms % 1000);
            let pinned = evaluated(&function.replace('#', &at), step_ms, steps, &alone);
            let second = expect.iter().find(|(at_ms, _)| *at_ms == second_ms).map(|(_, value)| *value);
            let all = (1..steps).filter_map(|step| Some((START_MS + step * step_ms, second?)));
            prop_assert_eq!(pinned, all.collect::<Vec<_>>(), "{}", at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_subquery_gives_what_its_values_give_as_samples(
        values in values(),
        range_s in prop_oneof![Just(300_i64), 60_i64..2000],
        step_ms in prop_oneof![Just(15_000_i64), 301_000_i64..900_000],
        steps in 2_i64..40,
    ) {
        let samples = values.iter().zip(0..).map(|(value, at)| Sample::new(START_MS + 15_000 * at, *value));
        let floats = of_floats(samples.collect());
        let first_inner_ms = (START_MS / 60_000 - 40) * 60_000;
        let inner = steps_of("x", first_inner_ms, 60_000, 40 + steps * step_ms / 60_000 + 2, &floats);
        let as_samples =
            of_floats(inner.iter().map(|(at_ms, bits)| Sample::new(*at_ms, f64::from_bits(*bits))).collect());
        for function in &FUNCTIONS[..FUNCTIONS.len() - 1] {
            let of = |range: &str| function.replace('#', &over(function, range));
            let text = of(&format!("{range_s}s:60s"));
            let beside = beside_histogram(&as_samples, first_ms(function, range_s));
            prop_assert_eq!(
                evaluated(&text, step_ms, steps, &floats),
                evaluated(&of(&format!("{range_s}s")), step_ms, steps, &beside),
                "{}", text
            );
        }
    }
}

/// A number that looks like chance.
fn mixed(at: u64) -> u64 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

#[test]
fn few_steps_over_large_ranges_give_what_each_step_gives() {
    let value = |at: u64| match mixed(at) % 50 {
        0 => -0.0,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3..20 => 0.0,
        other => other as f64 / 8.0,
    };
    let samples = |value: &dyn Fn(u64) -> f64| -> Vec<_> {
        (0..6000).map(|at| Sample::new(START_MS - 30_000_000 + 15_000 * at as i64, value(at))).collect()
    };
    // Values of which sums are exact, too; and a series that begins in the first range, so that ranges grow.
    let mut young = samples(&value);
    young.drain(..1960);
    let exact = samples(&|at| (mixed(at) % 90) as f64);
    for alone in [samples(&value), exact, young].map(of_floats) {
        for (step_s, function) in [75, 600, 3000, 9000].into_iter().flat_map(|s| FUNCTIONS.map(|f| (s, f))) {
            let text = function.replace('#', &over(function, "30000s"));
            let beside = beside_histogram(&alone, first_ms(function, 30_000));
            assert_eq!(
                evaluated(&text, 1000 * step_s, 6, &alone),
                evaluated(&text, 1000 * step_s, 6, &beside),
                "{text}, {step_s} s"
            );
        }
    }
}

/// Counts how often it is asked.
#[derive(Default)]
struct Asked(Cell<usize>);

impl Pace for Asked {
    fn is_due(&self) -> bool {
        self.0.set(self.0.get() + 1);
        false
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Of a function over all of a long series whose values fall every other time: how often the pace is asked, and the most
/// bytes that are held.
fn asked_and_held(function: &str, count: usize) -> (usize, usize) {
    let samples = (0..count).map(|at| Sample::new(START_MS + at as i64, (at % 2) as f64)).collect();
    let query = Query::parse(&function.replace('#', "x[1h]"), ParseOptions::default()).unwrap();
    let times = QueryTimes::Instant { at_ms: START_MS + count as i64 };
    let plan = Plan::new(query, times, PlanOptions::default()).unwrap();
    let (asked, budget) = (Asked::default(), Budget::new(usize::MAX, usize::MAX));
    block_on(plan.evaluate(&[vec![of_floats(samples)]], &budget, &asked)).unwrap();
    (asked.0.get(), budget.bytes_peak())
}

#[test]
fn a_long_series_is_gone_through_in_pieces() {
    const PIECES: usize = 4;
    let asked = |function: &str| asked_and_held(function, PIECES << 16).0;
    let without = asked("last_over_time(#)");
    // Staleness markers are looked for in pieces, too.
    assert!(without >= PIECES, "{without}");
    for name in ["rate", "increase", "sum_over_time", "avg_over_time", "min_over_time", "changes", "resets"] {
        let with = asked(&format!("{name}(#)"));
        assert!(with >= without + PIECES, "{name}: {with}, {without} without a pass of its own");
    }
}

#[test]
fn resets_are_held() {
    let held = |function: &str| asked_and_held(function, 10_000).1;
    let (of_delta, of_rate) = (held("delta(#)"), held("rate(#)"));
    assert!(of_rate >= of_delta + 4900 * 8, "{of_rate} and {of_delta}");
}
