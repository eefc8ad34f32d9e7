//! Any text as an expression: parsed, printed, read again, and evaluated over a few series, it never panics, and
//! what is printed is the same expression.
#![no_main]

use std::rc::Rc;

use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use silverback_model::{Labels, Sample};
use silverback_promql::{Budget, Fetched, NoPace, ParseOptions, Plan, PlanOptions, Query, QueryTimes, Run};

fuzz_target!(|text: &str| {
    let Ok(query) = Query::parse(text, ParseOptions::with_experiments()) else { return };
    let printed = query.to_string();
    let again = Query::parse(&printed, ParseOptions::with_experiments());
    let again = again.unwrap_or_else(|error| panic!("{printed}: {error}"));
    assert_eq!(again.to_string(), printed);
    assert!(query.pretty().is_none_or(|text| !text.is_empty()) && !query.tree_json().is_empty());
    for times in [
        QueryTimes::Instant { at_ms: 600_000 },
        QueryTimes::Range { start_ms: 0, end_ms: 900_000, step_ms: 60_000 },
    ] {
        evaluate(query.clone(), times);
    }
});

fn evaluate(query: Query, times: QueryTimes) {
    let Ok(plan) = Plan::new(query, times, PlanOptions::default()) else { return };
    let fetched: Vec<_> = plan.selects().iter().map(|_| series()).collect();
    let budget = Budget::new(200_000, 16 << 20);
    if let Ok(answer) = block_on(plan.evaluate(&fetched, &budget, &NoPace)) {
        assert!(!answer.value.to_json().is_empty());
    }
}

fn series() -> Vec<Fetched> {
    let one = |le: &str, factor: f64| {
        let samples = (0..15).map(|i| Sample::new(i * 60_000, factor * (i % 7) as f64)).collect();
        let labels = Labels::from_pairs([("__name__", "x_bucket"), ("job", "a"), ("le", le)]);
        Fetched { labels: Rc::new(labels), runs: vec![Run::Floats(samples)] }
    };
    vec![one("1", 1.0), one("2", f64::NAN), one("+Inf", 3.0)]
}
