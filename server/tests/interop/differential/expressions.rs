//! Random expressions and the times at which they are asked. Most are such as people write: what matches, matches.

use silverback_test_support::random::Random;

use super::data::Data;

/// What a Prometheus knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// What 2.42 knew, its flags left alone. Its ranges have both ends in them: no sample is at one.
    Former,
    /// What is stable since 3.0.
    Current,
}

/// An expression, and when.
pub(super) struct Asked {
    pub(super) text: String,
    pub(super) times: AskedTimes,
}

/// When, in ms.
#[derive(Debug, Clone, Copy)]
pub(super) enum AskedTimes {
    At(i64),
    Range { start: i64, end: i64, step: i64 },
}

impl AskedTimes {
    /// The path of the question, with its times.
    pub(super) fn path(self) -> String {
        let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
        match self {
            Self::At(at) => format!("query?time={}", seconds(at)),
            Self::Range { start, end, step } => {
                format!("query_range?start={}&end={}&step={}", seconds(start), seconds(end), seconds(step))
            }
        }
    }
}

/// What makes much of a last digit, in which two of them may differ.
const INFIRM: [&str; 8] = ["tan(", " % ", " ^ ", "exp(", "sinh(", "cosh(", "deriv(", "resets("];

/// Functions over ranges, what is asked most standing there twice; ...
const OVER_TIME: &[&str] = &[
    "rate",
    "rate",
    "increase",
    "delta",
    "deriv",
    "stddev_over_time",
    "stdvar_over_time",
    "irate",
    "idelta",
    "changes",
    "resets",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "sum_over_time",
    "count_over_time",
    "last_over_time",
    "present_over_time",
];
/// ... and those that have given the same for long.
const OVER_TIME_SINCE_LONG: &[&str] = OVER_TIME.split_at(7).1;

/// How deep an expression nests at most.
const DEPTH: u32 = 4;

/// Makes them.
pub(super) struct Expressions<'a> {
    random: Random,
    knows: Knowledge,
    data: &'a Data,
    /// Around what is made now there is a subquery.
    is_within_subquery: bool,
}

impl<'a> Expressions<'a> {
    pub(super) fn new(random: Random, knows: Knowledge, data: &'a Data) -> Self {
        Self { random, knows, data, is_within_subquery: false }
    }

    pub(super) fn next(mut self) -> Asked {
        let times = self.times();
        let text = loop {
            let text = self.any(times);
            let is_firm = !INFIRM.iter().any(|infirm| text.contains(infirm));
            if is_firm || self.knows == Knowledge::Current {
                break text;
            }
        };
        // What others give since; and means and deviations of infinities.
        let now_otherwise =
            [("atan2", "-"), ("(rate(", "(irate("), ("stddev", "max"), ("stdvar", "min"), ("avg", "sum")];
        let text = match self.knows {
            Knowledge::Current => text,
            Knowledge::Former => {
                now_otherwise.iter().fold(text, |text, (changed, other)| text.replace(changed, other))
            }
        };
        Asked { text, times }
    }

    fn any(&mut self, times: AskedTimes) -> String {
        match self.random.below(40) {
            0 => self.scalar(DEPTH),
            1 if matches!(times, AskedTimes::At(_)) => self.range_of_samples(),
            2 => format!("sort{}({})", self.one_of(&["", "_desc"]), self.vector(DEPTH - 1)),
            _ => self.vector(DEPTH),
        }
    }

    fn times(&mut self) -> AskedTimes {
        let (start, end) = (self.data.start_ms, self.data.end_ms);
        // No range of whole tens of seconds begins at a whole ten.
        let mut at = start + self.random.below((end - start) as u64 / 10_000) as i64 * 10_000 + 7_000;
        if self.knows == Knowledge::Current && self.random.once_in(3) {
            at = if self.random.once_in(2) { self.data.sample_ms } else { start + 1_800_000 };
        }
        if self.random.once_in(3) {
            return AskedTimes::At(at);
        }
        let step = [10, 30, 60, 250, 600][self.random.below(5) as usize] * 1000;
        AskedTimes::Range { start: at - 60_000, end: at + step * self.random.below(20) as i64, step }
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.random.below(texts.len() as u64) as usize]
    }

    fn duration(&mut self) -> &'static str {
        self.one_of(&["30s", "1m", "90s", "5m", "10m", "20m"])
    }

    fn number(&mut self) -> &'static str {
        self.one_of(&[
            "0", "1", "-1", "2", "0.5", "10", "100", "3.7", "-7.25", "1e3", "0x1F", "Inf", "-Inf", "NaN",
        ])
    }

    fn matchers(&mut self) -> String {
        let matcher = |own: &mut Self| {
            own.one_of(&[
                "job=\"api\"",
                "job!=\"db\"",
                "job=~\"api|web\"",
                "job!~\".*b\"",
                "instance=~\"[0-2]\"",
                "instance=\"1\"",
                "code=\"200\"",
                "code!=\"500\"",
                "code=\"\"",
                "none=\"\"",
                "job=~\".+\"",
            ])
        };
        match self.random.below(4) {
            0 | 1 => String::new(),
            2 => format!("{{{}}}", matcher(self)),
            _ => {
                let (one, other) = (matcher(self), matcher(self));
                match one.split(['=', '!']).next() == other.split(['=', '!']).next() {
                    true => format!("{{{one}}}"),
                    false => format!("{{{one}, {other}}}"),
                }
            }
        }
    }

    fn modifiers(&mut self) -> String {
        // Of a fixed time within a subquery that has one of its own, Prometheus reads another.
        let most = if self.is_within_subquery { 2 } else { 12 };
        match self.random.below(12) {
            at if at >= most => String::new(),
            0 => format!(" offset {}", self.duration()),
            1 => format!(" offset -{}", self.duration()),
            2 => format!(" @ {}", self.data.start_ms / 1000 + 907 + self.random.below(200) as i64 * 10),
            3 => format!(" @ {}()", self.one_of(&["start", "end"])),
            4 => format!(" @ end() offset {}", self.duration()),
            _none => String::new(),
        }
    }

    fn metric(&mut self) -> &'static str {
        let all = [
            "requests_total",
            "requests_total",
            "load",
            "load",
            "latency_bucket",
            "latency_count",
            "build_info",
        ];
        match self.random.below(20) {
            0 => "sparse",
            1 => "large",
            2 | 3 if self.knows == Knowledge::Current => "sizes",
            4 => "nothing_has_this_name",
            _plain => self.one_of(&all),
        }
    }

    fn selector(&mut self) -> String {
        if self.random.once_in(25) {
            return format!("{{__name__=~\"l.*\", job=~\".+\"}}{}", self.modifiers());
        }
        let (metric, matchers) = (self.metric(), self.matchers());
        format!("{metric}{matchers}{}", self.modifiers())
    }

    fn range_of_samples(&mut self) -> String {
        let (metric, matchers) = (self.metric(), self.matchers());
        format!("{metric}{matchers}[{}]{}", self.duration(), self.modifiers())
    }

    fn matrix(&mut self, depth: u32) -> String {
        // One within another begins at its first sample now and then, which a former Prometheus takes in.
        let may_nest = !self.is_within_subquery || self.knows == Knowledge::Current;
        if depth > 1 && may_nest && self.random.once_in(4) {
            let was_within = std::mem::replace(&mut self.is_within_subquery, true);
            let inner = self.vector(depth - 2);
            self.is_within_subquery = was_within;
            let range = self.one_of(&["2m", "5m", "10m"]);
            let step = self.one_of(&["30s", "50s", "1m", "2m"]);
            return format!("({inner})[{range}:{step}]{}", self.modifiers());
        }
        self.range_of_samples()
    }

    fn scalar(&mut self, depth: u32) -> String {
        match self.random.below(if depth == 0 { 3 } else { 7 }) {
            0 | 1 => self.number().to_owned(),
            2 => self.one_of(&["time()", "pi()", "1 / 3", "2 ^ 3 ^ 2", "-2 ^ 2"]).to_owned(),
            3 => format!("scalar({})", self.vector(depth - 1)),
            4 => {
                let (left, operator) = (self.scalar(depth - 1), self.one_of(&["+", "-", "*", "/", "%", "^"]));
                format!("({left} {operator} {})", self.scalar(depth - 1))
            }
            5 => {
                let (left, operator) =
                    (self.scalar(depth - 1), self.one_of(&["==", "!=", ">", "<", ">=", "<="]));
                format!("({left} {operator} bool {})", self.scalar(depth - 1))
            }
            _ => format!("-{}", self.scalar(depth - 1)),
        }
    }

    fn vector(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.selector();
        }
        match self.random.below(28) {
            0..2 => self.selector(),
            2..8 => self.over_time(depth),
            8..14 => self.aggregation(depth),
            14..17 => self.function(depth),
            17..19 => self.with_scalar(depth),
            19..23 => self.combined(depth),
            23 => self.of_buckets(depth),
            24 => self.relabelled(depth),
            25 => format!("-{}", self.vector(depth - 1)),
            26 => format!("vector({})", self.scalar(depth - 1)),
            _ => format!("absent{}", self.absent(depth)),
        }
    }

    fn absent(&mut self, depth: u32) -> String {
        match self.random.once_in(2) {
            true => format!("({})", self.vector(depth - 1)),
            false => format!("_over_time({})", self.matrix(depth)),
        }
    }

    fn over_time(&mut self, depth: u32) -> String {
        // Of a former Prometheus what gives the same since: extrapolation, for one, is done otherwise.
        let functions = match self.knows {
            Knowledge::Former => OVER_TIME_SINCE_LONG,
            Knowledge::Current => OVER_TIME,
        };
        let function = self.one_of(functions);
        if self.knows == Knowledge::Former {
            return format!("{function}({})", self.matrix(depth));
        }
        match self.random.below(12) {
            0 => format!("quantile_over_time({}, {})", self.scalar(0), self.matrix(depth)),
            1 => format!("predict_linear({}, {})", self.matrix(depth), self.scalar(0)),
            _ => format!("{function}({})", self.matrix(depth)),
        }
    }

    fn grouping(&mut self) -> &'static str {
        self.one_of(&[
            "",
            "",
            " by (job)",
            " by (job, instance)",
            " by (instance)",
            " without (instance)",
            " without (code, le)",
            " by (none)",
            " by ()",
            " by (le, job)",
            " by (__name__)",
            " by (version, job)",
        ])
    }

    fn aggregation(&mut self, depth: u32) -> String {
        let grouping = self.grouping();
        match self.random.below(14) {
            0 => {
                // Of values that are not the same twice: of those that are, any may be chosen.
                let (chooser, count) =
                    (self.one_of(&["topk", "bottomk"]), self.one_of(&["1", "2", "3", "0", "-1", "100"]));
                let inner = self.one_of(&["load", "(load * 2)", "avg_over_time(load[10m])"]);
                let inner = format!("{inner} != 0 < Inf > -Inf");
                format!("{chooser}{grouping}({count}, {inner})")
            }
            1 => format!("quantile{grouping}({}, {})", self.scalar(0), self.vector(depth - 1)),
            2 => {
                let label = self.one_of(&["\"value\"", "\"job\"", "\"instance\""]);
                let inner = self.one_of(&[
                    "build_info",
                    "sparse",
                    "round(load, 50)",
                    "requests_total",
                    "changes(load[2m])",
                ]);
                format!("count_values{grouping}({label}, {inner})")
            }
            _ => {
                let aggregator = self.one_of(&[
                    "sum", "sum", "sum", "avg", "min", "max", "count", "group", "stddev", "stdvar",
                ]);
                format!("{aggregator}{grouping}({})", self.vector(depth - 1))
            }
        }
    }

    fn function(&mut self, depth: u32) -> String {
        let inner = self.vector(depth - 1);
        let function = self.one_of(&[
            "abs",
            "ceil",
            "floor",
            "exp",
            "ln",
            "log2",
            "log10",
            "sqrt",
            "sgn",
            "round",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "deg",
            "rad",
            "timestamp",
            "minute",
            "hour",
            "day_of_week",
            "day_of_month",
            "day_of_year",
            "days_in_month",
            "month",
            "year",
        ]);
        match self.random.below(10) {
            0 => format!("clamp({inner}, {}, {})", self.scalar(0), self.scalar(0)),
            1 => format!("clamp_min({inner}, {})", self.scalar(0)),
            2 => format!("clamp_max({inner}, {})", self.scalar(0)),
            3 => format!("round({inner}, {})", self.one_of(&["0.1", "5", "0.25", "-3", "1e3"])),
            4 => format!("{}()", self.one_of(&["hour", "minute", "month", "day_of_week"])),
            5 if self.knows == Knowledge::Current => {
                let of_native = self.one_of(&[
                    "histogram_count",
                    "histogram_sum",
                    "histogram_avg",
                    "histogram_stddev",
                    "histogram_stdvar",
                ]);
                format!("{of_native}({inner})")
            }
            _ => format!("{function}({inner})"),
        }
    }

    fn arithmetic_or_comparison(&mut self) -> &'static str {
        self.one_of(&[
            "+", "-", "*", "/", "%", "^", "atan2", "==", "!=", ">", "<", ">=", "<=", "== bool", "> bool",
            "<= bool",
        ])
    }

    fn with_scalar(&mut self, depth: u32) -> String {
        let (vector, scalar) = (self.vector(depth - 1), self.scalar(1));
        let operator = self.arithmetic_or_comparison();
        match self.random.once_in(3) {
            true => format!("({scalar} {operator} {vector})"),
            false => format!("({vector} {operator} {scalar})"),
        }
    }

    fn combined(&mut self, depth: u32) -> String {
        let operator = self.arithmetic_or_comparison();
        match self.random.below(8) {
            0 => {
                let (left, operator) = (self.vector(depth - 1), self.one_of(&["and", "or", "unless"]));
                let matching =
                    self.one_of(&["", " on (job)", " ignoring (code)", " on ()", " on (job, instance)"]);
                format!("({left} {operator}{matching} {})", self.vector(depth - 1))
            }
            1 => format!("(load {operator} on (job, instance) build_info)"),
            2 => format!("(requests_total {operator} on (job, instance) group_left (version) build_info)"),
            3 => {
                let range = self.duration();
                format!("(rate(requests_total[{range}]) {operator} ignoring (code) group_left () load)")
            }
            4 => format!("(load {operator} ignoring (code) group_right () requests_total)"),
            5 => {
                let (left, right) = (self.vector(depth - 1), self.vector(depth - 1));
                format!("(sum by (job) ({left}) {operator} max by (job) ({right}))")
            }
            6 => {
                // Not what the last digit decides, which differs from one order of series to the next.
                let (one, operator) = (self.vector(depth - 1), self.one_of(&["+", "-", "*", "atan2"]));
                format!("({one} {operator} {one})")
            }
            // Mostly of things that don't match one to one: which is an error, in the same words.
            _ => {
                let left = self.vector(depth - 1);
                let matching =
                    self.one_of(&["", " on (job)", " ignoring (code, le)", " on (job) group_left ()"]);
                format!("({left} {operator}{matching} {})", self.vector(depth - 1))
            }
        }
    }

    fn of_buckets(&mut self, depth: u32) -> String {
        let quantile = self.one_of(&["0.5", "0.9", "0.99", "0", "1", "-1", "2", "NaN"]);
        let range = self.duration();
        match self.random.below(5) {
            0 if self.knows == Knowledge::Current => {
                format!(
                    "histogram_fraction({}, {}, rate(sizes[{range}]))",
                    self.one_of(&["0", "-Inf", "1"]),
                    self.one_of(&["2", "Inf", "0.3"])
                )
            }
            1 if self.knows == Knowledge::Current => {
                format!("histogram_quantile({quantile}, sum{}(rate(sizes[{range}])))", self.grouping())
            }
            2 if self.knows == Knowledge::Current => {
                format!("histogram_quantile({quantile}, {})", self.vector(depth - 1))
            }
            3 => format!("histogram_quantile({quantile}, latency_bucket{})", self.modifiers()),
            _ => format!("histogram_quantile({quantile}, sum by (job, le) (rate(latency_bucket[{range}])))"),
        }
    }

    fn relabelled(&mut self, depth: u32) -> String {
        let inner = self.vector(depth - 1);
        self.one_of(&[
            "label_replace(VECTOR, \"pair\", \"$1-$2\", \"job\", \"(.)(.*)\")",
            "label_replace(VECTOR, \"job\", \"\", \"instance\", \"1\")",
            "label_replace(VECTOR, \"host\", \"${name}\", \"instance\", \"(?P<name>[0-9]+)\")",
            "label_join(VECTOR, \"both\", \"/\", \"job\", \"instance\")",
            "label_join(VECTOR, \"none\", \"\", \"absent\")",
        ])
        .replace("VECTOR", &inner)
    }
}
