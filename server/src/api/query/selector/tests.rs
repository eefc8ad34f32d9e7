//! Selectors as tables: what is read, and what is refused where.

use super::*;

/// As a read does it.
fn parse(text: &str, breadth: Breadth) -> Result<Vec<Matcher>, SelectorError> {
    let compile = |ParsedMatcher { matcher, at }| {
        matcher.compile_within(1 << 20).map_err(|problem| SelectorError::at(text, at, problem))
    };
    let matchers: Vec<_> = parse_selector(text, 8)?.into_iter().map(compile).collect::<Result<_, _>>()?;
    breadth.check(&matchers).map_err(|problem| SelectorError::at(text, 0, problem))?;
    Ok(matchers)
}

fn check(text: &str, expect: &[(&str, &str, &str)]) {
    let matchers = parse(text, Breadth::Any).unwrap_or_else(|error| panic!("{text}: {error}"));
    let shown = |m: &Matcher| (m.name.to_string(), m.op.operator(), m.value.to_string());
    let expect: Vec<_> = expect.iter().map(|(n, op, v)| (n.to_string(), *op, v.to_string())).collect();
    assert_eq!(matchers.iter().map(shown).collect::<Vec<_>>(), expect, "{text}");
}

fn check_refused(text: &str, position: usize, words: &str) {
    let error = parse(text, Breadth::Narrowed).expect_err(text);
    assert!(error.problem.contains(words), "{text}: {error}");
    assert_eq!(error.position, position, "{text}: {error}");
}

#[test]
fn names_and_the_four_kinds_of_matchers_are_read() {
    check("up", &[("__name__", "=", "up")]);
    check("job:up:sum", &[("__name__", "=", "job:up:sum")]);
    check("up{}", &[("__name__", "=", "up")]);
    check(" up { job = \"x\" , } ", &[("__name__", "=", "up"), ("job", "=", "x")]);
    check(
        r#"{a="1",b!="2",c=~"3|4",d!~"5.*"}"#,
        &[("a", "=", "1"), ("b", "!=", "2"), ("c", "=~", "3|4"), ("d", "!~", "5.*")],
    );
    check(r#"{__name__=~"node_.+"}"#, &[("__name__", "=~", "node_.+")]);
    check("{}", &[]);
}

#[test]
fn names_in_quotes_may_hold_anything() {
    check(r#"{"my.name", a="b"}"#, &[("__name__", "=", "my.name"), ("a", "=", "b")]);
    check(r#"{'höhe'}"#, &[("__name__", "=", "höhe")]);
    check(r#"up{"a label"!="b"}"#, &[("__name__", "=", "up"), ("a label", "!=", "b")]);
}

#[test]
fn strings_are_unescaped_as_go_does() {
    check(r#"{a="\"\n\t\\"}"#, &[("a", "=", "\"\n\t\\")]);
    check(r#"{a='\'"'}"#, &[("a", "=", "'\"")]);
    check(r"{a=`\n{}`}", &[("a", "=", r"\n{}")]);
    check(r#"{a="\x41\101é\U0001F600"}"#, &[("a", "=", "AAé😀")]);
    check(r#"{a="\xc3\xa9"}"#, &[("a", "=", "é")]);
    check(r#"{a="}",b=","}"#, &[("a", "=", "}"), ("b", "=", ",")]);
}

#[test]
fn what_is_no_selector_is_refused_at_its_place() {
    check_refused("", 1, "expected a metric name or {, found the end");
    check_refused("up[5m]", 3, "expected the selector's end, found '['");
    check_refused("up offset 5m", 4, "the selector's end");
    check_refused("5xx", 1, "a metric name or {");
    check_refused("up{", 4, "a label name");
    check_refused("up{job}", 7, "=, !=, =~ or !~");
    check_refused("up{job=x}", 8, "a quoted value");
    check_refused("up{a:b=\"x\"}", 5, "=, !=");
    check_refused("up{job=\"x\" b=\"y\"}", 12, ", or }");
    check_refused("up{,}", 4, "a label name");
    check_refused("up{job=\"x}", 8, "the string has no end");
    check_refused("up{job=\"x\ny\"}", 10, "a line ends");
    check_refused("up{job=\"\\q\"}", 9, "unknown escape");
    check_refused("up{job='\\\"'}", 9, "unknown escape");
    check_refused("up{job=\"\\x4\"}", 9, "not a digit");
    check_refused("up{job=\"\\400\"}", 9, "above 255");
    check_refused("up{job=\"\\ud800\"}", 9, "no character");
    check_refused("up{job=\"\\xff\"}", 8, "UTF-8");
    check_refused("{é=\"(\",a=~\"(\"}", 2, "a label name");
    check_refused("{\"é\"=\"(\",a=~\"(\"}", 13, "matcher expression");
    check_refused("up{__name__=\"x\"}", 4, "is before the braces");
    check_refused("up{\"x\"}", 4, "is before the braces");
}

#[test]
fn a_selector_of_everything_is_refused_where_prometheus_does() {
    for text in ["{}", "{a=\"\"}", "{a=~\".*\"}", "{a!=\"x\"}", "{a!~\"x\"}"] {
        check_refused(text, 1, "at least one matcher");
        assert!(parse(text, Breadth::Any).is_ok(), "{text}");
    }
    assert!(parse("{a=~\".+\"}", Breadth::Narrowed).is_ok());
}

#[test]
fn matchers_are_counted() {
    let of = |count: usize| format!("{{{}}}", "a=\"b\",".repeat(count));
    assert!(parse(&of(8), Breadth::Any).is_ok());
    check_refused(&of(9), 6 * 8 + 4, "more matchers");
}

#[test]
fn no_cut_or_changed_text_panics() {
    let good = r#"up{job="x", "é"=~'a|b\u00e9', c!=`d`}"#;
    for (cut, _) in good.char_indices() {
        assert!(parse(&good[..cut], Breadth::Any).is_err() || cut == 2 || cut == 1);
        for other in ['{', '}', '"', '\\', 'é', ',', '='] {
            let changed = format!("{}{other}{}", &good[..cut], &good[cut..]);
            drop(parse(&changed, Breadth::Any));
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in r#"\PC*|(up|[a-z{}"'`\\=~!, \n]|é){0,20}"#) {
        if let Err(error) = parse(&text, Breadth::Any) {
            proptest::prop_assert!(error.position <= text.chars().count() + 1);
        }
    }
}
