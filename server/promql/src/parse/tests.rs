//! Expressions and errors as Prometheus has them, and texts that are made to take long.

use std::time::Instant;

use crate::{ParseOptions, Query};

fn parse(text: &str) -> Result<Query, String> {
    Query::parse(text, ParseOptions::default()).map_err(|error| error.to_string())
}

/// The expression is printed so.
fn check(text: &str, printed: &str) {
    let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(query.to_string(), printed);
    // What is printed is the same expression.
    assert_eq!(parse(printed).map(|query| query.to_string()).as_deref(), Ok(printed));
    assert!(query.tree_json().starts_with('{') && query.tree_json().ends_with('}'));
}

#[test]
fn expressions_are_printed_as_prometheus_prints_them() {
    for (text, printed) in [
        ("1", "1"),
        ("-1", "-1"),
        ("+Inf", "+Inf"),
        ("0x1F + 010", "31 + 8"),
        ("5m", "5m"),
        ("1 + 2 * 3 ^ 2", "1 + 2 * 3 ^ 2"),
        ("-2^2", "-2 ^ 2"),
        ("(1)", "(1)"),
        ("'a\\'b'", "\"a'b\""),
        ("foo", "foo"),
        ("foo{}", "foo"),
        ("{ 'my.name' , a!~'x' }", "{__name__=\"my.name\",a!~\"x\"}"),
        ("foo{b='1',a=~\"x|y\",}", "foo{a=~\"x|y\",b=\"1\"}"),
        ("foo{\"a label\"='1'}", "foo{\"a label\"=\"1\"}"),
        ("foo offset 5m", "foo offset 5m"),
        ("foo offset -1w", "foo offset -1w"),
        ("foo @ 1.5", "foo @ 1.500"),
        ("foo[90s] @ start() offset 1h", "foo[1m30s] @ start() offset 1h"),
        ("rate(foo[5m:])", "rate(foo[5m:])"),
        ("max_over_time((a + b)[1h:5m] offset 1m)", "max_over_time((a + b)[1h:5m] offset 1m)"),
        ("sum by(a,b)(foo)", "sum by (a, b) (foo)"),
        ("sum(foo)without(\"a b\",)", "sum without (\"a b\") (foo)"),
        ("SUM(foo)", "sum(foo)"),
        ("topk(5,foo)", "topk(5, foo)"),
        ("count_values('v',foo)", "count_values(\"v\", foo)"),
        ("a / on(x) group_left(y) b", "a / on (x) group_left (y) b"),
        ("a == bool b", "a == bool b"),
        ("a and ignoring(x) b or c unless d", "a and ignoring (x) b or c unless d"),
        ("a # a comment\n + b", "a + b"),
        ("time()", "time()"),
        ("round(a, 5)", "round(a, 5)"),
        ("sum{a='b'}", "sum{a=\"b\"}"),
        ("offset + by", "offset + by"),
        ("start", "start"),
    ] {
        check(text, printed);
    }
}

#[test]
fn errors_are_those_of_prometheus_with_their_places() {
    let mut wrong = Vec::new();
    for (text, error) in [
        ("", "unknown position: parse error: no expression found in input"),
        ("# x", "1:1: parse error: no expression found in input"),
        ("1 +", "1:4: parse error: unexpected end of input"),
        ("a b", "1:3: parse error: unexpected identifier \"b\""),
        ("(a", "1:3: parse error: unclosed left parenthesis"),
        ("a)", "1:3: parse error: unexpected right parenthesis ')'"),
        ("foo[5m", "1:7: parse error: unclosed left bracket"),
        ("foo{", "1:5: parse error: unexpected end of input inside braces"),
        ("foo{a}", "1:6: parse error: unexpected \"}\" in label matching, expected label matching operator"),
        ("foo{a=b}", "1:7: parse error: unexpected identifier \"b\" in label matching, expected string"),
        (
            "foo{a='1' b='2'}",
            "1:11: parse error: unexpected identifier \"b\" in label matching, expected \",\" or \"}\"",
        ),
        ("{}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ("{a=~'.*'}", "1:1: parse error: vector selector must contain at least one non-empty matcher"),
        ("foo{__name__='bar'}", "1:1: parse error: metric name must not be set twice: \"foo\" or \"bar\""),
        ("nope(a)", "1:1: parse error: unknown function with name \"nope\""),
        (
            "rate(a)",
            "1:6: parse error: expected type range vector in call to function \"rate\", got instant vector",
        ),
        ("rate()", "1:1: parse error: expected 1 argument(s) in call to \"rate\", got 0"),
        ("round(a,1,2)", "1:1: parse error: expected at most 2 argument(s) in call to \"round\", got 3"),
        ("abs(a,)", "1:6: parse error: trailing commas not allowed in function call args"),
        ("sum()", "1:1: parse error: no arguments for aggregate expression provided"),
        (
            "topk(a)",
            "1:1: parse error: wrong number of arguments for aggregate expression provided, expected 2, got 1",
        ),
        ("sum(1)", "1:5: parse error: expected type instant vector in aggregation expression, got scalar"),
        ("sum by a (b)", "1:8: parse error: unexpected identifier \"a\" in grouping opts, expected \"(\""),
        (
            "limitk(1, a)",
            "1:1: parse error: limitk() is experimental and must be enabled with --enable-feature=promql-experimental-functions",
        ),
        ("1 == 2", "1:3: parse error: comparisons between scalars must use BOOL modifier"),
        ("a + bool b", "1:3: parse error: bool modifier can only be used on comparison operators"),
        ("a and 1", "1:1: parse error: set operator \"and\" not allowed in binary scalar expression"),
        ("a and group_left b", "1:7: parse error: unexpected <group_left>"),
        ("a and on(x) group_left b", "1:1: parse error: no grouping allowed for \"and\" operation"),
        (
            "a[5m] + 1",
            "1:1: parse error: binary expression must contain only scalar and instant vector types",
        ),
        ("(a + b)[5m]", "1:8: parse error: ranges only allowed for vector selectors"),
        ("a[5m:1m:]", "1:8: parse error: unexpected colon ':'"),
        ("a[0]", "1:3: parse error: duration must be greater than 0"),
        ("a offset 1m offset 2m", "1:1: parse error: offset may not be set multiple times"),
        ("a @ 1 @ 2", "1:1: parse error: @ <timestamp> may not be set multiple times"),
        (
            "1 offset 1m",
            "1:1: parse error: offset modifier must be preceded by an instant vector selector or range vector selector or a subquery",
        ),
        ("a\n+\n+", "3:2: parse error: unexpected end of input"),
        ("a =~ b", "1:3: parse error: unexpected character after '=': '~'"),
        ("'a", "1:1: parse error: unterminated quoted string"),
        ("a[1 + 1]", "1:3: parse error: experimental duration expression is not enabled"),
    ] {
        let found = parse(text).map(|query| query.to_string());
        if found != Err(error.to_owned()) {
            wrong.push(format!("{text}: {found:?}, wanted {error:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn texts_that_are_made_to_take_long_end_at_once() {
    let begun = Instant::now();
    let long = [
        "(".repeat(80 << 10),
        "-".repeat(80 << 10),
        vec!["a"; 16_000].join(" + "),
        vec!["a"; 16_000].join(" ^ "),
        format!("{}a{}", "abs(".repeat(5_000), ")".repeat(5_000)),
        format!("a{}", "[1m:]".repeat(5_000)),
        format!("a[{}1]", "1 + ".repeat(16_000)),
        format!("a[{}1]", "(".repeat(16_000)),
        format!("sum by ({}) (a)", "x,".repeat(40_000)),
        format!("{{{}}}", "a=~\"[a-z]{500}\",".repeat(1_000)),
        format!("a{}", " offset 0s".repeat(10_000)),
        "\"".repeat(80 << 10),
        "a".repeat((1 << 18) + 1),
    ];
    for text in long {
        let options = ParseOptions::with_experiments();
        match Query::parse(&text, options) {
            Ok(query) => assert!(query.to_string().len() <= 2 * text.len() + 64),
            Err(error) => assert!(error.to_string().len() < 1000, "{}", error.to_string().len()),
        }
    }
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[test]
fn what_nests_too_deep_is_told_so() {
    for text in [vec!["a"; 250].join(" ^ "), format!("{}a{}", "(".repeat(250), ")".repeat(250))] {
        let error = parse(&text).map(|_| ());
        assert!(error.is_err_and(|error| error.contains("levels deep")), "{text}");
    }
    assert!(parse(&vec!["a"; 190].join(" ^ ")).is_ok());
}

#[test]
fn a_chain_of_operators_nests_no_deeper_for_being_long() {
    let check = |terms: usize| {
        let text = vec!["a * 2"; terms].join(" + ");
        let query = parse(&text).unwrap_or_else(|error| panic!("{terms}: {error}"));
        assert_eq!(query.to_string(), text);
        assert_eq!(query.clone().kind(), crate::Type::Vector);
        let tree = query.tree_json();
        assert_eq!(
            (tree.matches("binaryExpr").count(), tree.matches('{').count()),
            (2 * terms - 1, tree.matches('}').count())
        );
    };
    check(250);
    check(3_000);
    let error = parse(&vec!["a"; 16_000].join(" + ")).map(|_| ());
    assert!(error.is_err_and(|error| error.contains("more than 16384 parts")));
    // In a chain's sides depth counts as elsewhere.
    let deep = format!("a + {}a{} + a", "(".repeat(199), ")".repeat(199));
    assert!(parse(&deep).is_err_and(|error| error.contains("levels deep")));
    let laid_out = |terms: usize| parse(&vec!["a"; terms].join(" + ")).ok().and_then(|query| query.pretty());
    assert!(laid_out(500).is_some_and(|text| text.len() > 500 * 500));
    assert_eq!(laid_out(4_000), None);
}

#[test]
fn long_expressions_are_laid_out_on_lines() {
    let long = format!("sum by (job) (rate({}[5m])) / 2", "x".repeat(100));
    let query = parse(&long).expect("an expression");
    let x = "x".repeat(100);
    let expect = format!("  sum by (job) (\n    rate(\n      {x}[5m]\n    )\n  )\n/\n  2");
    assert_eq!(query.pretty(), Some(expect));
    assert_eq!(parse("a+b").expect("an expression").pretty().as_deref(), Some("a + b"));
    // 26 of them are 101 characters: what fits a line is one, indented as the left side of the last.
    let chain = |terms: usize| vec!["a"; terms].join(" + ");
    let expect = format!("  {}\n+\n  a", chain(25));
    assert_eq!(parse(&chain(26)).expect("an expression").pretty(), Some(expect));
}
