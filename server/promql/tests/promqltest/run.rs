//! Runs a script's commands in turn.

use futures::executor::block_on;
use silverback_promql::{Answer, Budget, NoPace, ParseOptions, Plan, PlanOptions, Query, QueryTimes};

use crate::compare::{compare, compare_middle};
use crate::script::{Command, Eval, Wanted, parse};
use crate::store::Store;

#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub evals: usize,
    pub failed: Vec<String>,
}

pub(crate) fn run(script: &str) -> Failures {
    let mut failures = Failures::default();
    let mut store = Store::default();
    for command in parse(script) {
        match command {
            Command::Clear => store = Store::default(),
            Command::Load { step_ms, series, with_custom } => {
                if with_custom {
                    store.load_custom(&series, step_ms);
                }
                for (labels, items) in series {
                    store.load(labels, &items, step_ms);
                }
            }
            Command::Eval(eval) => {
                failures.evals += 1;
                if let Err(problem) = check(&eval, &store) {
                    failures.failed.push(format!("line {}: {}: {problem}", eval.line, eval.text));
                }
            }
        }
    }
    failures
}

fn check(eval: &Eval, store: &Store) -> Result<(), String> {
    if let Some(problem) = &eval.problem {
        return Err(format!("script: {problem}"));
    }
    let times = match eval.is_range {
        true => QueryTimes::Range { start_ms: eval.start_ms, end_ms: eval.end_ms, step_ms: eval.step_ms },
        false => QueryTimes::Instant { at_ms: eval.start_ms },
    };
    let answer = match (query(&eval.text, times, store), &eval.fails) {
        (Err(error), Some(wanted)) if wanted.is_met_by(&error) => return Ok(()),
        (Err(error), Some(wanted)) => return Err(format!("failed with {error:?}, wanted {wanted:?}")),
        (Err(error), None) => return Err(format!("failed: {error}")),
        (Ok(_), Some(wanted)) => return Err(format!("was evaluated, wanted {wanted:?}")),
        (Ok(answer), None) => answer,
    };
    notes("warning", &answer.warnings, &eval.warnings, eval.no_warnings)?;
    notes("info", &answer.infos, &eval.infos, eval.no_infos)?;
    compare(eval, &answer.value)?;
    in_range_mode(eval, store)
}

/// An instant query gives the same as a step of a range query.
fn in_range_mode(eval: &Eval, store: &Store) -> Result<(), String> {
    let has_own_times =
        ["range()", "step()", "start()", "end()"].iter().any(|function| eval.text.contains(function));
    if eval.is_range
        || eval.range_vector.is_some()
        || eval.string.is_some()
        || eval.is_ordered
        || has_own_times
    {
        return Ok(());
    }
    let at_ms = eval.start_ms;
    let times = QueryTimes::Range { start_ms: at_ms - 60_000, end_ms: at_ms + 60_000, step_ms: 60_000 };
    let answer = query(&eval.text, times, store).map_err(|error| format!("range mode failed: {error}"))?;
    compare_middle(eval, &answer.value).map_err(|problem| format!("range mode: {problem}"))
}

fn query(text: &str, times: QueryTimes, store: &Store) -> Result<Answer, String> {
    let query = Query::parse(text, ParseOptions::with_experiments()).map_err(|error| error.to_string())?;
    let options = PlanOptions { delayed_name_removal: true, ..PlanOptions::default() };
    let plan = Plan::new(query, times, options).map_err(|error| error.to_string())?;
    let fetched: Vec<_> = plan.selects().iter().map(|select| store.fetch(select)).collect();
    let budget = Budget::new(10_000_000, 1 << 30);
    block_on(plan.evaluate(&fetched, &budget, &NoPace)).map_err(|error| error.to_string())
}

fn notes(kind: &str, found: &[String], wanted: &[Wanted], none: bool) -> Result<(), String> {
    if none && !found.is_empty() {
        return Err(format!("{kind} annotations {found:?}, wanted none"));
    }
    if let Some(missing) = wanted.iter().find(|wanted| !found.iter().any(|text| wanted.is_met_by(text))) {
        return Err(format!("{kind} annotations {found:?}, wanted {missing:?}"));
    }
    let is_unwanted = |text: &&String| !wanted.iter().any(|wanted| wanted.is_met_by(text));
    match found.iter().find(is_unwanted) {
        Some(unwanted) if !wanted.is_empty() => Err(format!("{kind} annotation {unwanted:?} isn't wanted")),
        _ => Ok(()),
    }
}
