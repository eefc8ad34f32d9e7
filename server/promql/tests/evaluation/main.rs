//! What the scripts don't show: names that go at once, as by default; chunks; giving way, stopping, and bounds.

mod parts;
mod strides;

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use futures::executor::block_on;
use silverback_model::{Labels, Sample};
use silverback_promql::histogram::{FloatHistogram, ResetHint};
use silverback_promql::{
    Answer, Budget, Fetched, Folded, Interruption, MatrixSeries, NextSeries, NoPace, Pace, ParseOptions,
    Plan, PlanOptions, Query, QueryError, QueryTimes, QueryableSamples, Room, Run, SampleCounting,
    SampleValue, Share, Source, Value,
};

use parts::Halves;

/// Eleven samples, a minute apart, that grow by a factor a minute.
fn series(name: &str, job: &str, factor: f64) -> Fetched {
    let samples = (0..=10).map(|i| Sample::new(i * 60_000, factor * i as f64)).collect();
    let labels = Labels::from_pairs([("__name__", name), ("job", job)]);
    Fetched { labels: Rc::new(labels), runs: vec![Run::Floats(samples)] }
}

fn all() -> Vec<Fetched> {
    vec![series("a_total", "x", 1.0), series("a_total", "y", 2.0), series("b_total", "x", 4.0)]
}

fn plan(text: &str, times: QueryTimes) -> Plan {
    let query = Query::parse(text, ParseOptions::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let options = PlanOptions { counting: SampleCounting::Total, ..PlanOptions::default() };
    Plan::new(query, times, options).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What matches by name, for each selector.
fn fetched(plan: &Plan) -> Vec<Vec<Fetched>> {
    let matches = |labels: &Labels, select: &silverback_promql::Select| {
        select.matchers.iter().all(|matcher| {
            let value = labels.get(&matcher.name).unwrap_or_default();
            matcher.searching().matches(value, || false) == Some(true)
        })
    };
    let of = |select| all().into_iter().filter(|series| matches(&series.labels, select)).collect();
    plan.selects().iter().map(of).collect()
}

fn evaluate(plan: &Plan, budget: &Budget, pace: &dyn Pace) -> Result<Answer, QueryError> {
    block_on(plan.evaluate(&fetched(plan), budget, pace))
}

const AT_10M: QueryTimes = QueryTimes::Instant { at_ms: 600_000 };
const RANGE: QueryTimes = QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 1000 };

fn check(text: &str, expect: &str) {
    let answer = evaluate(&plan(text, AT_10M), &Budget::new(100_000, 1 << 20), &NoPace);
    let found = answer.map_or_else(|error| error.to_string(), |answer| answer.value.to_json());
    assert_eq!(found, expect, "{text}");
}

#[test]
fn series_lose_their_names_at_once() {
    let one = |labels: &str, value: &str| {
        format!(
            "{{\"resultType\":\"vector\",\"result\":[{{\"metric\":{labels},\"value\":[600,\"{value}\"]}}]}}"
        )
    };
    check("abs(a_total{job=\"x\"})", &one("{\"job\":\"x\"}", "10"));
    check("-a_total{job=\"x\"}", &one("{\"job\":\"x\"}", "-10"));
    check("a_total{job=\"x\"} > 5", &one("{\"__name__\":\"a_total\",\"job\":\"x\"}", "10"));
    check("a_total{job=\"x\"} > bool 5", &one("{\"job\":\"x\"}", "1"));
    check("last_over_time(a_total{job=\"x\"}[5m])", &one("{\"__name__\":\"a_total\",\"job\":\"x\"}", "10"));
    check("max_over_time(a_total{job=\"x\"}[5m])", &one("{\"job\":\"x\"}", "10"));
    check("sum(rate({job=\"y\"}[5m])) * 60", &one("{}", "2"));
    check("a_total{job=\"x\"} + on (job) b_total", &one("{\"job\":\"x\"}", "50"));
    let same = "vector cannot contain metrics with the same labelset";
    for text in [
        "rate({job=\"x\"}[5m])",
        "abs({job=\"x\"})",
        "-{job=\"x\"}",
        "{job=\"x\"} * 2",
        "sum(abs({job=\"x\"}))",
    ] {
        check(text, same);
    }
}

#[test]
fn chunks_are_read_as_samples_are() {
    // Two samples of an XOR chunk: 1 at 0, and the same a second later.
    let mut stream = vec![0_u8, 2, 0];
    stream.extend_from_slice(&1.0_f64.to_bits().to_be_bytes());
    stream.extend_from_slice(&[0xe8, 0x07, 0]);
    let chunk = Fetched { labels: Rc::default(), runs: vec![Run::Xor(Bytes::from(stream))] };
    let plan = plan("count_over_time({job=\"x\"}[1m])", QueryTimes::Instant { at_ms: 1000 });
    let answer = block_on(plan.evaluate(&[vec![chunk]], &Budget::new(10, 1 << 20), &NoPace));
    let json = answer.map(|answer| answer.value.to_json());
    let expect = "{\"resultType\":\"vector\",\"result\":[{\"metric\":{},\"value\":[1,\"2\"]}]}";
    assert_eq!(json.as_deref(), Ok(expect));
}

/// Is due each time that it is asked, and stops a query after so many times.
struct Counting {
    ways: Cell<usize>,
    stops_at: usize,
}

impl Pace for Counting {
    fn is_due(&self) -> bool {
        true
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
        self.ways.set(self.ways.get() + 1);
        let stops = self.ways.get() >= self.stops_at;
        Box::pin(std::future::ready(if stops { Err(Interruption::Timeout) } else { Ok(()) }))
    }
}

#[test]
fn every_kind_of_expression_gives_way_and_can_be_stopped() {
    let texts = [
        "a_total",
        "rate(a_total[5m])",
        "max_over_time(a_total[5m:1s])",
        "abs(a_total)",
        "sum by (job) (a_total)",
        "topk(1, a_total)",
        "quantile(0.5, a_total)",
        "count_values(\"v\", a_total)",
        "a_total + on (job) b_total",
        "a_total + on (job) group_left () b_total",
        "a_total and b_total",
        "a_total or b_total",
        "a_total unless b_total",
        "histogram_quantile(0.5, a_total)",
        "label_replace(a_total, \"x\", \"$1\", \"job\", \"(.*)\")",
        "vector(1) + time()",
    ];
    for text in texts {
        // 15,001 steps: each series alone is more work than goes on at once.
        let times = QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 40 };
        let plan = plan(text, times);
        let pace = Counting { ways: Cell::new(0), stops_at: usize::MAX };
        let budget = Budget::new(100_000_000, 1 << 30);
        let answer = evaluate(&plan, &budget, &pace);
        assert!(answer.is_ok(), "{text}: {answer:?}");
        assert!(pace.ways.get() >= 1, "{text}");
        let pace = Counting { ways: Cell::new(0), stops_at: pace.ways.get() };
        let stopped = evaluate(&plan, &budget, &pace).map(|_| ());
        assert_eq!(stopped, Err(QueryError::Timeout), "{text}");
        // What was held came back.
        assert_eq!(evaluate(&plan, &budget, &NoPace).map(|_| ()), Ok(()), "{text}");
    }
}

#[test]
fn a_query_is_refused_what_it_may_not_hold() {
    let too_many = QueryError::TooManySamples;
    let told = "query processing would load too many samples into memory in query execution";
    assert_eq!(too_many.to_string(), told);
    let plan_of = |text: &str| plan(text, RANGE);
    let samples = |text: &str, samples_max| {
        evaluate(&plan_of(text), &Budget::new(samples_max, 1 << 30), &NoPace).map(|_| ())
    };
    assert_eq!(samples("a_total", 1202), Ok(()));
    assert_eq!(samples("a_total", 1201), Err(too_many));
    let bytes = evaluate(&plan_of("a_total"), &Budget::new(1 << 20, 5000), &NoPace).map(|_| ());
    assert_eq!(bytes, Err(QueryError::TooMuchMemory { bytes_max: 5000 }));
}

#[derive(Debug)]
struct Shared(Rc<Cell<usize>>);

impl Room for Shared {
    fn take(&self, bytes: usize) -> Result<(), QueryError> {
        self.0.set(self.0.get().checked_sub(bytes).ok_or(QueryError::BudgetExceeded)?);
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        self.0.set(self.0.get() + bytes);
    }
}

#[test]
fn memory_that_others_have_too_is_taken_and_given_back() {
    let left = Rc::new(Cell::new(100_000));
    let budget = || Budget::new(1 << 20, usize::MAX).within(Box::new(Shared(Rc::clone(&left))));
    let answer = evaluate(&plan("a_total + a_total", RANGE), &budget(), &NoPace).unwrap();
    // The answer's own part stays taken until its caller has sent it.
    assert!(answer.bytes > 2 * 601 * 16 && left.get() == 100_000 - answer.bytes, "{}", answer.bytes);
    left.set(5000);
    let refused = evaluate(&plan("a_total + a_total", RANGE), &budget(), &NoPace).map(|_| ());
    assert_eq!(refused, Err(QueryError::BudgetExceeded));
    assert_eq!(left.get(), 5000);
}

#[test]
fn an_answer_is_counted_as_it_grows_and_refused_before_it_is_whole() {
    // Each series' samples are decoded one after the other: what is left is not enough for both as an answer.
    for text in ["a_total[10m]", "a_total[10m:1s]"] {
        let whole = evaluate(&plan(text, AT_10M), &Budget::new(1 << 20, 1 << 20), &NoPace).unwrap();
        let budget = Budget::new(1 << 20, whole.bytes - 1);
        let refused = evaluate(&plan(text, AT_10M), &budget, &NoPace).map(|_| ());
        assert_eq!(refused, Err(QueryError::TooMuchMemory { bytes_max: whole.bytes - 1 }), "{text}");
    }
    let range = plan("a_total", RANGE);
    let whole = evaluate(&range, &Budget::new(1 << 20, 1 << 20), &NoPace).unwrap();
    let refused = evaluate(&range, &Budget::new(1 << 20, whole.bytes - 1), &NoPace).map(|_| ());
    assert!(matches!(refused, Err(QueryError::TooMuchMemory { .. })));
}

/// Series that are made when they are asked for; counts those that were.
struct Made {
    count: usize,
    given: Cell<usize>,
}

impl Source for Made {
    fn next(&self, _select: usize) -> NextSeries<'_> {
        let at = self.given.replace(self.given.get() + 1);
        let labels = Labels::from_pairs([("__name__", "a_total"), ("instance", &format!("{at:07}"))]);
        let runs = vec![Run::Floats(vec![Sample::new(540_000, 1.0), Sample::new(600_000, 2.0)])];
        let next = (at < self.count).then(|| Fetched { labels: Rc::new(labels), runs });
        Box::pin(std::future::ready(Ok(next)))
    }
}

#[test]
fn what_is_folded_as_it_comes_takes_no_more_for_many_series_than_for_few() {
    let peak = |text: &str, count: usize| {
        let (source, budget) = (Made { count, given: Cell::new(0) }, Budget::new(1000, 1 << 20));
        let answer = block_on(plan(text, AT_10M).evaluate_from(&source, &budget, &NoPace));
        assert!(answer.is_ok(), "{text}: {answer:?}");
        assert_eq!(source.given.get(), count + 1);
        budget.bytes_peak()
    };
    for text in
        ["sum(a_total)", "count(a_total * 2 > 1)", "avg(rate(a_total[5m]))", "max by (x) (abs(a_total))"]
    {
        assert_eq!(peak(text, 20_000), peak(text, 2), "{text}");
    }
    assert_eq!(peak("topk(2, a_total)", 20_000), peak("topk(2, a_total)", 4));
    // Of series of which any may lose its name and be another's then, a few bytes are kept.
    assert!(peak("sum(rate({instance!=\"\"}[5m]))", 20_000) < 20_000 * 40);
}

#[test]
fn a_series_of_many_steps_and_a_step_of_many_series_are_looked_into_in_pieces() {
    let ways = |text: &str, times: QueryTimes, count: usize| {
        let (source, pace) =
            (Made { count, given: Cell::new(0) }, Counting { ways: Cell::new(0), stops_at: usize::MAX });
        let budget = Budget::new(1 << 20, 1 << 26);
        let answer = block_on(plan(text, times).evaluate_from(&source, &budget, &pace));
        assert!(answer.is_ok(), "{text}: {answer:?}");
        pace.ways.get()
    };
    // Of each series 6,001 steps are read, and offered.
    let steps = QueryTimes::Range { start_ms: 300_000, end_ms: 900_000, step_ms: 100 };
    for text in
        ["topk(1, a_total)", "bottomk(1, -a_total)", "topk(1, a_total * 2)", "topk(1, rate(a_total[5m]))"]
    {
        let of_twenty = ways(text, steps, 40) - ways(text, steps, 20);
        assert!(of_twenty >= 20 * 3, "{text}: {of_twenty}");
    }
    // All values of a step are put in order.
    let (sorted, counted) =
        (ways("quantile(0.5, a_total)", AT_10M, 20_000), ways("count(a_total)", AT_10M, 20_000));
    assert!(sorted >= counted + 150, "{sorted}, {counted}");
}

#[test]
fn a_long_chain_of_operators_gives_what_its_operators_give_in_turn() {
    let chain = |first: &str, link: &str, times: usize| format!("{first}{}", link.repeat(times));
    let value = |value: &str| {
        format!(
            "{{\"resultType\":\"vector\",\"result\":[{{\"metric\":{{\"job\":\"x\"}},\"value\":[600,\"{value}\"]}}]}}"
        )
    };
    let a = "a_total{job=\"x\"}";
    check(&chain(a, " + 1", 8_000), &value("8010"));
    check(&chain(a, &format!(" + {a}"), 499), &value("5000"));
    check(&chain(&format!("1{} + {a}", " + 1".repeat(99)), " * 2 / 2 - 1", 100), &value("10"));
    check(&chain(a, " + 1 > 5 + time() - 600 or b_total", 3), &value("11"));
    check(&chain("1", " + 1", 8_000), "{\"resultType\":\"scalar\",\"result\":[600,\"8001\"]}");
    check("{job=\"x\"} * 2 + 1", "vector cannot contain metrics with the same labelset");
    // Names that are taken over are lost by what comes after.
    check("a_total{job=\"x\"} * on () group_left (__name__) b_total + 1", &value("401"));
    // Steps of a range, with parts that are the same at each.
    let range = plan(&chain("a_total @ 60 * 2", " + 1", 300), RANGE);
    let answer = evaluate(&range, &Budget::new(1 << 20, 1 << 24), &NoPace).unwrap();
    assert!(answer.value.to_json().contains("[600,\"302\"]"), "{}", answer.value.to_json());
    // A chain over all steps gives way, and takes no more for being long.
    let steps = QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 100 };
    let pace = Counting { ways: Cell::new(0), stops_at: usize::MAX };
    let budget = Budget::new(1 << 20, 1 << 20);
    assert!(evaluate(&plan(&chain("sum(a_total)", " + time()", 200), steps), &budget, &pace).is_ok());
    assert!(pace.ways.get() >= 30, "{}", pace.ways.get());
}

/// At minutes 0, 5 and 10.
fn plan_with_steps(text: &str, counting: SampleCounting) -> Plan {
    let query = Query::parse(text, ParseOptions::default()).unwrap();
    let times = QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 300_000 };
    let options = PlanOptions { counting, ..PlanOptions::default() };
    Plan::new(query, times, options).unwrap()
}

#[test]
fn samples_are_counted_at_each_step_that_sees_them_whoever_folds_them() {
    let check = |text: &str, per_step: [u64; 3]| {
        let plan = plan_with_steps(text, SampleCounting::PerStep);
        let budget = Budget::new(100_000, 1 << 20);
        let whole = evaluate(&plan, &budget, &NoPace).unwrap();
        assert_eq!(
            (whole.samples.total, &whole.samples.per_step[..]),
            (per_step.iter().sum(), &per_step[..]),
            "{text}"
        );
        let parted_budget = Budget::new(100_000, 1 << 20);
        let halves = Halves::new(&plan, fetched(&plan), &NoPace);
        let parted = block_on(plan.evaluate_from(&halves, &parted_budget, &NoPace)).unwrap();
        assert_eq!(parted.samples, whole.samples, "{text}");
        assert!(parted_budget.samples_peak() >= 1 || whole.samples.total == 0, "{text}");
        // What the list of steps takes is the answer's, too, and nobody's without it.
        let without = evaluate(
            &self::plan(text, QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 300_000 }),
            &Budget::new(100_000, 1 << 20),
            &NoPace,
        )
        .unwrap();
        assert_eq!(
            (without.samples.per_step.len(), without.samples.total),
            (0, whole.samples.total),
            "{text}"
        );
        assert_eq!(whole.bytes - without.bytes, 3 * size_of::<u64>(), "{text}");
        let off = plan_with_steps(text, SampleCounting::Off);
        let unasked = evaluate(&off, &Budget::new(100_000, 1 << 20), &NoPace).unwrap();
        assert_eq!(unasked.samples, QueryableSamples::default(), "{text}");
        assert_eq!(unasked.value.to_json(), whole.value.to_json(), "{text}");
    };
    let count = |text: &str, step_ms: i64| {
        let at = plan(text, QueryTimes::Instant { at_ms: step_ms });
        evaluate(&at, &Budget::new(100_000, 1 << 20), &NoPace).unwrap().samples.total
    };
    for text in [
        "a_total",
        "sum(a_total)",
        "sum by (job) (rate(a_total[5m]))",
        "rate(a_total[5m]) / on (job) group_left () b_total",
        "topk(1, a_total)",
        "quantile_over_time(0.5, a_total[3m])",
        "sum(a_total @ 60)",
        "sum(a_total) + a_total @ 60",
        "max_over_time(rate(a_total[2m])[5m:1m])",
        "sum(max_over_time(a_total[5m:1m] @ 600))",
        "absent_over_time(a_total[1m])",
        "scalar(b_total @ 60) * time()",
        "-a_total",
        "timestamp(a_total)",
        "1",
    ] {
        // Each step as if it were asked alone.
        check(text, [0, 300_000, 600_000].map(|step_ms| count(text, step_ms)));
    }
    assert_eq!(count("a_total", 600_000), 2);
    assert_eq!(count("rate(a_total[5m])", 600_000), 2 * count("count_over_time(b_total[5m])", 600_000));
    assert_eq!(count("a_total[5m]", 600_000), count("rate(a_total[5m])", 600_000));
    assert_eq!(count("max_over_time(a_total[5m:1m])", 600_000), 2 * 5);
}

#[test]
fn a_list_of_steps_beyond_the_memory_is_refused() {
    let steps = plan_with_steps("1", SampleCounting::PerStep);
    let refused = evaluate(&steps, &Budget::new(1000, 3 * size_of::<u64>() - 1), &NoPace).map(|_| ());
    assert!(matches!(refused, Err(QueryError::TooMuchMemory { .. })), "{refused:?}");
}

#[test]
fn what_a_source_fails_with_is_its_own() {
    struct Failing;
    impl Source for Failing {
        fn next(&self, _select: usize) -> NextSeries<'_> {
            Box::pin(std::future::ready(Err(QueryError::Source)))
        }
    }
    let answer = block_on(plan("sum(a)", AT_10M).evaluate_from(&Failing, &Budget::new(1, 1 << 20), &NoPace));
    assert_eq!(answer.map(|_| ()), Err(QueryError::Source));
}

#[test]
fn a_plan_says_what_it_reads() {
    let reads = |text: &str| -> Vec<(i64, i64)> {
        let plan = plan(text, QueryTimes::Range { start_ms: 600_000, end_ms: 900_000, step_ms: 60_000 });
        plan.selects().iter().map(|select| (select.after_ms, select.until_ms)).collect()
    };
    assert_eq!(reads("a"), [(300_000, 900_000)]);
    assert_eq!(reads("rate(a[1m])"), [(540_000, 900_000)]);
    assert_eq!(reads("a offset 1m + b @ 10"), [(240_000, 840_000), (-290_000, 10_000)]);
    assert_eq!(reads("max_over_time(rate(a[1m])[2m:1m])"), [(480_000, 900_000)]);
    assert_eq!(reads("1 + time()"), []);
}

#[test]
fn a_subquery_has_a_bound_on_its_steps_though_it_reads_no_series() {
    for text in
        ["vector(1)[100y:1ms]", "sum_over_time(vector(1)[100y:1ms])", "count_over_time(a_total[365d:1ms])"]
    {
        let query = Query::parse(text, ParseOptions::default()).unwrap();
        let planned = Plan::new(query, AT_10M, PlanOptions::default());
        assert!(matches!(planned, Err(QueryError::TooManySamples)), "{text}");
    }
    check(
        "max_over_time(vector(7)[8m:1s])",
        r#"{"resultType":"vector","result":[{"metric":{},"value":[600,"7"]}]}"#,
    );
}

#[test]
fn labels_that_double_come_to_an_end() {
    let doubled = |times| {
        (0..times).fold("a_total".to_owned(), |of, _| {
            format!("label_replace({of}, \"job\", \"$1$1\", \"job\", \"(.*)\")")
        })
    };
    let answer = evaluate(&plan(&doubled(17), AT_10M), &Budget::new(1000, 1 << 20), &NoPace);
    assert!(answer.unwrap_err().to_string().contains("more than 65536 bytes"));
    // What labels take is the query's.
    let answer = evaluate(&plan(&doubled(15), AT_10M), &Budget::new(1000, 1 << 16), &NoPace);
    assert!(matches!(answer, Err(QueryError::TooMuchMemory { .. })));
    assert!(evaluate(&plan(&doubled(15), AT_10M), &Budget::new(1000, 1 << 20), &NoPace).is_ok());
}

#[test]
fn duplicates_of_one_side_are_no_fault_where_the_other_is_empty() {
    let at_10m = |text: &str| {
        let plan = plan(text, AT_10M);
        evaluate(&plan, &Budget::new(100_000, 1 << 20), &NoPace)
            .map(|answer| answer.value.to_json().to_string())
    };
    for text in ["vector(1) > 2", "a_total > 1e9"] {
        for operator in ["+ on ()", "== on () group_left ()", "> on () group_left ()"] {
            let answer = at_10m(&format!("({text}) {operator} a_total"));
            assert!(
                answer.as_ref().is_ok_and(|answer| answer.contains("[]")),
                "{text} {operator}: {answer:?}"
            );
        }
        assert!(at_10m(&format!("a_total * on () group_right () ({text})")).is_ok());
    }
    // Also where what is there matches nothing.
    let answer = at_10m("label_replace(b_total, \"part\", \"none\", \"\", \"\") + on (part) a_total");
    assert!(answer.is_err_and(|error| error.to_string().contains("duplicate")));
}
