//! What is evaluated in parts, as shards do it, beside the same evaluated as one.

use super::*;

/// Series in two halves, of which each is folded by its own.
pub(crate) struct Halves<'a> {
    plan: &'a Plan,
    /// All series of each select, by labels; what was given.
    whole: Vec<(Vec<Fetched>, Cell<usize>)>,
    /// How many shares were folded apart.
    shares: Cell<usize>,
    pace: &'a dyn Pace,
}

/// The series of one half.
struct Half<'a> {
    of: &'a Halves<'a>,
    half: usize,
    given: Vec<Cell<usize>>,
}

impl<'a> Halves<'a> {
    pub(crate) fn new(plan: &'a Plan, all: Vec<Vec<Fetched>>, pace: &'a dyn Pace) -> Self {
        let sorted = |mut series: Vec<Fetched>| {
            series.sort_by(|left, right| left.labels.cmp(&right.labels));
            (series, Cell::new(0))
        };
        Self { plan, whole: all.into_iter().map(sorted).collect(), shares: Cell::new(0), pace }
    }
}

impl Source for Halves<'_> {
    fn next(&self, select: usize) -> NextSeries<'_> {
        let (series, given) = &self.whole[select];
        let next = series.get(given.get()).cloned();
        given.set(if next.is_some() { given.get() + 1 } else { 0 });
        Box::pin(std::future::ready(Ok(next)))
    }

    fn folded(&self, share: Share) -> Folded<'_> {
        self.shares.set(self.shares.get() + 1);
        Box::pin(async move {
            let mut all = Vec::new();
            for half in 0..2 {
                let given = self.whole.iter().map(|_| Cell::new(half)).collect();
                let half = Half { of: self, half, given };
                let budget = Budget::new(100_000, 1 << 24);
                all.push(self.plan.fold(share, &half, &budget, self.pace).await?);
            }
            Ok(Some(all))
        })
    }
}

impl Source for Half<'_> {
    fn next(&self, select: usize) -> NextSeries<'_> {
        let given = &self.given[select];
        let next = self.of.whole[select].0.get(given.get()).cloned();
        given.set(if next.is_some() { given.get() + 2 } else { self.half });
        Box::pin(std::future::ready(Ok(next)))
    }
}

/// A value's samples to ten digits: an order of additions may change the last.
fn rounded(value: &Value) -> Vec<String> {
    let sample = |labels: &Labels, at_ms: i64, value: f64| format!("{labels:?} {at_ms} {value:.9e}");
    match value {
        Value::Vector(samples) => {
            let float = |value: &SampleValue| match value {
                SampleValue::Float(value) => *value,
                SampleValue::Histogram(_) => panic!("there are no histograms"),
            };
            samples.iter().map(|of| sample(&of.labels, of.at_ms, float(&of.value))).collect()
        }
        Value::Matrix(series) => {
            let samples = |of: &MatrixSeries| {
                of.floats.iter().map(|(at_ms, value)| sample(&of.labels, *at_ms, *value)).collect::<Vec<_>>()
            };
            series.iter().flat_map(samples).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_folded_in_parts_is_what_is_folded_in_one() {
    let check = |text: &str, times: QueryTimes, shares: usize| {
        let plan = plan(text, times);
        let budget = || Budget::new(100_000, 1 << 20);
        let whole = evaluate(&plan, &budget(), &NoPace);
        let halves = Halves::new(&plan, fetched(&plan), &NoPace);
        let (parted_budget, whole_budget) = (budget(), budget());
        let parted = block_on(plan.evaluate_from(&halves, &parted_budget, &NoPace));
        let told = |answer: Result<Answer, QueryError>| {
            answer.map(|answer| (rounded(&answer.value), answer.warnings, answer.infos, answer.samples))
        };
        assert_eq!(told(parted), told(whole), "{text}");
        assert_eq!(halves.shares.get(), shares, "{text}");
        let again = block_on(plan.evaluate(&fetched(&plan), &whole_budget, &NoPace));
        assert!(again.is_err() || parted_budget.samples_read() == whole_budget.samples_read(), "{text}");
    };
    let plain = ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"].map(|of| (of, ""));
    let with_parameters =
        [("quantile", "0.3, "), ("quantile", "time() / 700, "), ("count_values", "\"job\", ")];
    for (aggregator, parameter) in plain.into_iter().chain(with_parameters) {
        for inner in [
            "a_total",
            "{job!=\"\"}",
            "rate(a_total[5m])",
            "a_total * 2",
            "-a_total",
            "3 - a_total",
            "abs(a_total)",
            "ceil(rate(a_total[1m]))",
            "quantile_over_time(0.5, a_total[3m])",
            "a_total @ 60 offset 1m",
            "(a_total > 5)",
        ] {
            for by in ["", " by (job)", " without (job)", " by (__name__)"] {
                check(&format!("{aggregator}{by} ({parameter}{inner})"), AT_10M, 1);
                check(&format!("{aggregator}{by} ({parameter}{inner})"), RANGE, 1);
            }
        }
    }
    // Each of several, within operators, functions and subqueries.
    check("sum(a_total) / count(a_total) + avg(rate(b_total[1m]))", RANGE, 3);
    check("max_over_time(sum(rate(a_total[1m]))[5m:1m])", RANGE, 1);
    check("sum(sum by (job) (a_total))", AT_10M, 1);
    // One has to see all series: for what is made of several, and to notice that two have become the same.
    for text in [
        "sum(rate({job!=\"\"}[5m]))",
        "sum({job=\"x\"} * 2)",
        "sum(label_replace(a_total, \"job\", \"z\", \"\", \"\"))",
        "sum(a_total * scalar(b_total))",
        "sum(absent(c_total))",
        "sum(absent_over_time(c_total[1m]))",
        "sum(a_total + on (job) a_total)",
        "topk(scalar(a_total), a_total)",
        "topk(1, abs({job=\"x\"}))",
        "quantile(0.5, a_total + on (job) a_total)",
    ] {
        check(text, AT_10M, 0);
    }
    // What is noticed in a part is reported; what fails in one fails.
    check("sum(quantile_over_time(2, a_total[1m]))", AT_10M, 1);
}

const TIED: usize = 24;

/// A float of a series at a minute that many others have too; `None`: there is none.
fn often(instance: usize, minute: usize) -> Option<f64> {
    const VALUES: [f64; 8] = [1.0, f64::NAN, 2.0, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY, 2.0];
    let at = instance * 5 + minute * 3;
    (!at.is_multiple_of(11)).then(|| VALUES[at % 8])
}

/// Series of four jobs, with ties, gaps by staleness markers, what isn't a number, and a native histogram in each job.
fn tied() -> Vec<Fetched> {
    let stale = f64::from_bits(silverback_model::STALE_NAN_BITS);
    let labels = |instance: usize| {
        let (job, instance) = (format!("job-{}", instance % 4), format!("{instance:02}"));
        Rc::new(Labels::from_pairs([("__name__", "m"), ("job", &*job), ("instance", &*instance)]))
    };
    let of = |instance: usize| {
        let value = |minute: usize| often(instance, minute).unwrap_or(stale);
        let samples = (0..=10).map(|minute| Sample::new(minute as i64 * 60_000, value(minute))).collect();
        Fetched { labels: labels(instance), runs: vec![Run::Floats(samples)] }
    };
    let histogram = Rc::new(FloatHistogram {
        reset_hint: ResetHint::Gauge,
        schema: 0,
        zero_threshold: 0.001,
        zero_count: 1.0,
        count: 3.0,
        sum: 5.0,
        positive: vec![(1, 2.0)],
        negative: Vec::new(),
        custom_bounds: Vec::new(),
    });
    let histograms = |instance: usize| {
        let samples = (0..=10).map(|minute| (minute * 60_000, Rc::clone(&histogram))).collect();
        Fetched { labels: labels(instance), runs: vec![Run::Histograms(samples)] }
    };
    (0..TIED).map(of).chain((TIED..TIED + 4).map(histograms)).collect()
}

#[test]
fn what_is_chosen_in_parts_is_what_is_chosen_of_all() {
    let options = ParseOptions { experimental_functions: true, ..ParseOptions::default() };
    let check = |text: &str, times: QueryTimes| {
        let query = Query::parse(text, options).unwrap_or_else(|error| panic!("{text}: {error}"));
        let plan = Plan::new(query, times, PlanOptions::default()).unwrap();
        let told = |answer: Result<Answer, QueryError>| {
            answer.map(|answer| (answer.value.to_json(), answer.warnings, answer.infos))
        };
        let budget = || Budget::new(1 << 20, 1 << 26);
        let all = vec![tied(); plan.selects().len()];
        let halves = Halves::new(&plan, all.clone(), &NoPace);
        let parted = told(block_on(plan.evaluate_from(&halves, &budget(), &NoPace)));
        assert_eq!(parted, told(block_on(plan.evaluate(&all, &budget(), &NoPace))), "{text}");
        (halves.shares.get(), parted)
    };
    let range = QueryTimes::Range { start_ms: 0, end_ms: 900_000, step_ms: 60_000 };
    let counts =
        ["0", "-3", "1", "2.9", "5", "1000000", "9e18", "(time() / 60) % 7", "9.3e18", "NaN", "-Inf"];
    for (aggregator, count) in
        ["topk", "bottomk", "limitk"].into_iter().flat_map(|of| counts.map(|count| (of, count)))
    {
        for by in ["", " by (job)", " without (instance)", " by (instance)"] {
            for inner in ["m", "-m", "m > 0", "m @ 120"] {
                for times in [AT_10M, range] {
                    let text = format!("{aggregator}{by} ({count}, {inner})");
                    let (shares, answer) = check(&text, times);
                    let (is_error, are_few) = (
                        ["9.3e18", "NaN"].contains(&count),
                        ["0", "-3", "1", "2.9", "5", "-Inf"].contains(&count),
                    );
                    assert_eq!((shares > 0, answer.is_err()), (are_few, is_error), "{text}: {answer:?}");
                }
            }
        }
    }
    for ratio in ["0.3", "-0.7", "0", "2", "time() / 600"] {
        assert_eq!(check(&format!("limit_ratio by (job) ({ratio}, m)"), range).0, 0);
    }
    let (_, told) = check("topk(1, m)", AT_10M);
    assert_eq!(told.unwrap().2.len(), 1);
    assert_eq!(check("sum by (job) (topk by (job) (2, m)) + count(bottomk(3, m))", range).0, 2);
}

#[test]
fn of_series_that_have_the_same_value_those_are_chosen_that_come_first() {
    let chosen = |text: &str| {
        let (plan, budget) = (plan(text, AT_10M), Budget::new(1 << 20, 1 << 24));
        let halves = Halves::new(&plan, vec![tied()], &NoPace);
        match block_on(plan.evaluate_from(&halves, &budget, &NoPace)).unwrap().value {
            Value::Vector(samples) => {
                let instance = |labels: &Labels| labels.get("instance").unwrap().parse::<usize>().unwrap();
                samples.iter().map(|sample| instance(&sample.labels)).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        }
    };
    let mut ranked: Vec<(usize, f64)> =
        (0..TIED).filter_map(|instance| Some((instance, often(instance, 10)?))).collect();
    let compare = |left: f64, right: f64| left.is_nan().cmp(&right.is_nan()).then(right.total_cmp(&left));
    ranked.sort_by(|left, right| compare(left.1, right.1));
    for count in 1..=ranked.len() + 1 {
        let expect: Vec<usize> = ranked.iter().take(count).map(|(instance, _)| *instance).collect();
        assert_eq!(chosen(&format!("topk({count}, m)")), expect);
    }
    let by_job: Vec<usize> = (0..4)
        .flat_map(|job| ranked.iter().filter(move |(instance, _)| instance % 4 == job).take(2))
        .map(|(instance, _)| *instance)
        .collect();
    assert_eq!(chosen("topk by (job) (2, m)"), by_job);
}

#[test]
fn groups_of_parts_give_way_as_they_are_made_and_as_they_are_merged() {
    let plan = plan("count by (job) (a_total)", AT_10M);
    let series = |i: usize| series("a_total", &format!("job-{i:05}"), 1.0);
    let ways = |stops_at: usize| {
        let pace = Counting { ways: Cell::new(0), stops_at };
        let halves = Halves::new(&plan, vec![(0..4_000).map(series).collect()], &pace);
        let answer = block_on(plan.evaluate_from(&halves, &Budget::new(100_000, 1 << 24), &pace));
        (pace.ways.get(), answer)
    };
    let (all, answer) = ways(usize::MAX);
    assert!(answer.is_ok(), "{answer:?}");
    // Of two thousand values, or as much work: what is read takes 20; rows, their order and the merge take the rest.
    assert!(all >= 20 + 31 + 31, "{all}");
    for stops_at in 1..=all {
        let (ways, answer) = ways(stops_at);
        assert_eq!((ways, answer.map(|_| ())), (stops_at, Err(QueryError::Timeout)));
    }
}

/// Series of native histograms: of several schemas and widths of the zero bucket, with bounds of their own, both in one
/// job, with hints that collide, beside floats, and so large that their sum would be infinite.
fn histograms() -> Vec<Fetched> {
    // No bucket lies in the zero bucket; those of others do.
    let exponential = |i: usize| {
        let schema = [3, 0, 1][i % 3];
        let (zero_threshold, first) = if i % 4 == 3 { (2.0, (1 << schema) + 1) } else { (0.001, -3) };
        let buckets = (first..12).filter(|at| (at + i as i32) % 4 != 0);
        FloatHistogram {
            schema,
            zero_threshold,
            zero_count: 2.0,
            count: 40.0 + i as f64,
            sum: 5.5 * i as f64,
            positive: buckets.map(|at| (at, f64::from(at + 5))).collect(),
            negative: vec![(first, 3.0), (10 + i as i32, 1.0)],
            ..FloatHistogram::default()
        }
    };
    let custom = |i: usize| FloatHistogram {
        schema: silverback_promql::histogram::CUSTOM_BUCKETS_SCHEMA,
        count: 9.0,
        sum: 30.0,
        positive: vec![(0, 2.0), (1, 3.0), (2 + i as i32 % 2, 4.0)],
        custom_bounds: if i.is_multiple_of(2) { vec![1.0, 5.0, 10.0] } else { vec![1.0, 2.5, 10.0] },
        ..FloatHistogram::default()
    };
    let hinted = |i: usize| FloatHistogram {
        reset_hint: if i.is_multiple_of(2) { ResetHint::Reset } else { ResetHint::NotReset },
        ..exponential(i)
    };
    let huge = |_: usize| FloatHistogram {
        count: 2_f64.powi(1023),
        sum: 2_f64.powi(1022),
        positive: vec![(1, 2_f64.powi(1023))],
        ..FloatHistogram::default()
    };
    let mixed = |i: usize| if i < 3 { exponential(i) } else { custom(i) };
    let kinds: [(&str, &dyn Fn(usize) -> FloatHistogram); 5] = [
        ("exponential", &exponential),
        ("custom", &custom),
        ("hinted", &hinted),
        ("huge", &huge),
        ("mixed", &mixed),
    ];
    let labels = |job: &str, i: usize| {
        Rc::new(Labels::from_pairs([("__name__", "m"), ("job", job), ("instance", &*i.to_string())]))
    };
    let mut all = Vec::new();
    for (job, histogram) in kinds {
        for i in 0..if job == "huge" { 4 } else { 7 } {
            // Some have none at some steps.
            let minutes = (0..=10).filter(|minute| (minute + i) % 6 != 5);
            let samples = minutes.map(|minute| (minute as i64 * 60_000, Rc::new(histogram(i)))).collect();
            all.push(Fetched { labels: labels(job, i), runs: vec![Run::Histograms(samples)] });
        }
    }
    for i in 7..9 {
        let samples = (0..4).map(|minute| Sample::new(minute * 60_000, 1.5)).collect();
        all.push(Fetched { labels: labels("exponential", i), runs: vec![Run::Floats(samples)] });
    }
    all
}

#[test]
fn histograms_that_are_combined_in_parts_are_what_is_combined_in_one() {
    let range = QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 60_000 };
    for text in [
        "sum by (job) (m)",
        "avg by (job) (m)",
        "sum(m{job!=\"mixed\"})",
        "sum without (job) (m)",
        "avg without (instance) (m * 0.5)",
        "histogram_quantile(0.9, sum by (job) (rate(m[3m])))",
        "count by (job) (m)",
        "quantile by (job) (0.5, m)",
        "count_values by (job) (\"v\", m)",
    ] {
        for times in [AT_10M, range] {
            let plan = plan(text, times);
            let told = |answer: Result<Answer, QueryError>| {
                let answer = answer.unwrap();
                (answer.value.to_json().to_string(), answer.warnings, answer.infos)
            };
            let budget = || Budget::new(1 << 20, 1 << 26);
            let halves = Halves::new(&plan, vec![histograms()], &NoPace);
            let parted = told(block_on(plan.evaluate_from(&halves, &budget(), &NoPace)));
            let whole = told(block_on(plan.evaluate(&[histograms()], &budget(), &NoPace)));
            assert_eq!(parted, whole, "{text}");
            assert_eq!(halves.shares.get(), 1, "{text}");
        }
    }
    // Both kinds of warnings, and the infinite sum's mean.
    let plan = plan("avg by (job) (m)", range);
    let halves = Halves::new(&plan, vec![histograms()], &NoPace);
    let answer = block_on(plan.evaluate_from(&halves, &Budget::new(1 << 20, 1 << 26), &NoPace)).unwrap();
    assert!(answer.warnings.len() >= 3, "{:?}", answer.warnings);
    let json = answer.value.to_json().to_string();
    let (_, huge) = json.split_once("huge").unwrap();
    assert!(!huge.contains("Inf"), "{huge}");
}

/// So many series of one histogram each at each minute, of one group.
fn each(histograms: impl Iterator<Item = FloatHistogram>) -> Vec<Fetched> {
    let one = |(i, histogram): (usize, FloatHistogram)| {
        let histogram = Rc::new(histogram);
        let samples = (0..=10).map(|minute| (minute * 60_000, Rc::clone(&histogram))).collect();
        let labels = Labels::from_pairs([("__name__", "m"), ("instance", &*i.to_string())]);
        Fetched { labels: Rc::new(labels), runs: vec![Run::Histograms(samples)] }
    };
    histograms.enumerate().map(one).collect()
}

#[test]
fn a_zero_bucket_without_a_width_comes_to_an_end() {
    let widths = [0.001, f64::NAN, 0.5, f64::NAN, f64::INFINITY, -1.0];
    let histograms =
        |width: f64| FloatHistogram { zero_threshold: width, count: 1.0, ..FloatHistogram::default() };
    for text in
        ["sum(m)", "avg(m)", "histogram_quantile(0.9, sum(rate(m[5m])))", "m + on () group_left () sum(m)"]
    {
        let plan = plan(text, AT_10M);
        let all = vec![each(widths.into_iter().map(histograms)); plan.selects().len()];
        let halves = Halves::new(&plan, all, &NoPace);
        let answer = block_on(plan.evaluate_from(&halves, &Budget::new(1 << 20, 1 << 24), &NoPace));
        assert!(answer.is_ok(), "{text}: {answer:?}");
    }
}

#[test]
fn buckets_that_a_sum_comes_to_have_are_counted() {
    // None of two has a bucket of the other.
    let wide = |i: i32| FloatHistogram {
        count: 100.0,
        positive: (0..100).map(|at| (at * 200 + i, 1.0)).collect(),
        ..FloatHistogram::default()
    };
    let plan = plan("sum(m)", AT_10M);
    let bytes = |series: i32| {
        let (halves, budget) =
            (Halves::new(&plan, vec![each((0..series).map(wide))], &NoPace), Budget::new(1 << 20, 1 << 24));
        block_on(plan.evaluate_from(&halves, &budget, &NoPace)).unwrap();
        budget.bytes_peak()
    };
    // An index and a sum of 16 bytes each.
    assert!(bytes(100) - bytes(50) >= 50 * 100 * 24, "{} {}", bytes(100), bytes(50));
}

#[test]
fn wide_histograms_give_way_as_they_are_folded_and_counted() {
    let wide = |i: i32| FloatHistogram {
        count: 4096.0,
        positive: (0..4096).map(|at| (at, f64::from(1 + at + i))).collect(),
        ..FloatHistogram::default()
    };
    for text in ["sum(m)", "avg(m)", "count_values(\"v\", m)"] {
        let plan = plan(text, QueryTimes::Range { start_ms: 0, end_ms: 600_000, step_ms: 60_000 });
        let pace = Counting { ways: Cell::new(0), stops_at: usize::MAX };
        let halves = Halves::new(&plan, vec![each((0..8).map(wide))], &pace);
        block_on(plan.evaluate_from(&halves, &Budget::new(1 << 20, 1 << 27), &pace)).unwrap();
        // At every second step of each series.
        assert!(pace.ways.get() >= 8 * 11 / 2, "{text}: {}", pace.ways.get());
    }
}
