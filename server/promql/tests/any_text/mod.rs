//! What must hold of any text as an expression: it never panics, and what is printed of it is the same expression.
//! Where texts come from is not known here.

use std::rc::Rc;

use futures::executor::block_on;
use silverback_model::{Labels, Sample};
use silverback_promql::{Budget, Fetched, NoPace, ParseOptions, Plan, PlanOptions, Query, QueryTimes, Run};

/// Parses a text, prints it, reads that again, and evaluates it over a few series at a time and over a range.
/// Returns how many of these had an answer; nothing where it doesn't parse.
pub(crate) fn check(text: &str) -> Option<usize> {
    let query = Query::parse(text, ParseOptions::with_experiments()).ok()?;
    let printed = query.to_string();
    let again = Query::parse(&printed, ParseOptions::with_experiments());
    let again = again.unwrap_or_else(|error| panic!("{text}: {printed}: {error}"));
    assert_eq!(again.to_string(), printed, "{text}");
    assert!(query.pretty().is_none_or(|text| !text.is_empty()) && !query.tree_json().is_empty(), "{text}");
    let times = [
        QueryTimes::Instant { at_ms: 600_000 },
        QueryTimes::Range { start_ms: 0, end_ms: 900_000, step_ms: 60_000 },
    ];
    Some(times.into_iter().filter(|times| has_answer(query.clone(), *times)).count())
}

fn has_answer(query: Query, times: QueryTimes) -> bool {
    let Ok(plan) = Plan::new(query, times, PlanOptions::default()) else { return false };
    let fetched: Vec<_> = plan.selects().iter().map(|_| series()).collect();
    let budget = Budget::new(200_000, 16 << 20);
    match block_on(plan.evaluate(&fetched, &budget, &NoPace)) {
        Ok(answer) => {
            assert!(!answer.value.to_json().is_empty());
            true
        }
        Err(_refused_or_beyond_its_budget) => false,
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
