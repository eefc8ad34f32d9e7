//! PromQL's expressions: what most people ask, what few do, and one that breaks off.

use crate::Seeds;

/// Texts with what an expression may have in it.
pub(crate) fn promql() -> Seeds {
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("cut", text("{\"my.name\", a=~\"b|c\", \"d e\"!~`f`}[5m")),
        ("durations", text("x[(step() + 1m) * 2:max_of(1s, range())] anchored # y")),
        (
            "labels",
            text(
                "label_replace(topk(2, count_values(\"v\", x)), \"a\", \"$1\", \"b\", \"(.*)\") + on (a) fill_left (1) vector(time())",
            ),
        ),
        (
            "quantile",
            text(
                "histogram_quantile(0.9, sum by (le) (x_bucket)) / on () group_left (job) max(x_bucket @ end())",
            ),
        ),
        ("rate", text("sum by (job) (rate(x_bucket{le!=\"1\"}[5m] offset 1m))")),
        ("subquery", text("max_over_time((x and on (job) y or -z ^ 2)[1h:5m]) > bool 2")),
    ]
}
