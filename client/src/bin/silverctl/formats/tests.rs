//! Lines as tables: what is read, and what is refused.

use super::*;

fn check(parser: &mut Parser, line: &str, labels: &str, samples: &[(Option<i64>, f64)]) {
    let entry = parser.parse(line.as_bytes());
    let entry = entry.unwrap_or_else(|fault| panic!("{line}: {fault}")).unwrap_or_else(|| panic!("{line}"));
    let bits = |samples: &[(Option<i64>, f64)]| -> Vec<_> {
        samples.iter().map(|(timestamp_ms, value)| (*timestamp_ms, value.to_bits())).collect()
    };
    assert_eq!(entry.labels.to_string(), labels, "{line}");
    assert_eq!(bits(&entry.samples), bits(samples), "{line}");
}

fn check_none(parser: &mut Parser, line: &str) {
    assert_eq!(parser.parse(line.as_bytes()).unwrap(), None, "{line}");
}

fn check_fault(parser: &mut Parser, line: &[u8], words: &str) {
    let fault = parser.parse(line).expect_err(&String::from_utf8_lossy(line)).to_string();
    assert!(fault.contains(words), "{}: {fault}", String::from_utf8_lossy(line));
}

fn openmetrics() -> Parser {
    Parser::new(Format::Openmetrics)
}

#[test]
fn openmetrics_counts_seconds_and_the_older_format_milliseconds() {
    let check_time = |parser: &mut Parser, text: &str, expect_ms| {
        check(parser, &format!("a 1 {text}"), "a", &[(Some(expect_ms), 1.0)]);
    };
    check_time(&mut openmetrics(), "1700000000", 1_700_000_000_000);
    check_time(&mut openmetrics(), "1700000000.123", 1_700_000_000_123);
    check_time(&mut openmetrics(), "1.7e9", 1_700_000_000_000);
    check_time(&mut Parser::new(Format::Prometheus), "1700000000123", 1_700_000_000_123);
    check_time(&mut Parser::new(Format::Prometheus), "-5", -5);
    let mut guessed = Parser::guess(b"a 1");
    check_time(&mut guessed, "1700000000", 1_700_000_000_000);
    check_time(&mut guessed, "1700000000.5", 1_700_000_000_500);
    check_time(&mut guessed, "1700000000123", 1_700_000_000_123);
}

#[test]
fn labels_may_have_spaces_escapes_and_any_name() {
    let mut parser = openmetrics();
    check(&mut parser, "up 1", "up", &[(None, 1.0)]);
    check(&mut parser, "up{} 1", "up", &[(None, 1.0)]);
    check(&mut parser, "up\t{ b = \"2\" , a=\"1\", }\t1", r#"up{a="1", b="2"}"#, &[(None, 1.0)]);
    check(&mut parser, r#"up{a="q\"\\\nz,} \d"} 1"#, r#"up{a="q\"\\\nz,} \\d"}"#, &[(None, 1.0)]);
    check(&mut parser, r#"{"my.name","a b"="c"} 1"#, r#"{"my.name", "a b"="c"}"#, &[(None, 1.0)]);
    check(&mut parser, r#"up{empty=""} 1"#, "up", &[(None, 1.0)]);
}

#[test]
fn values_are_those_of_go() {
    let check_value = |text: &str, expect: f64| {
        check(&mut openmetrics(), &format!("a {text}"), "a", &[(None, expect)]);
    };
    check_value("-1.5e3", -1500.0);
    check_value("+Inf", f64::INFINITY);
    check_value("-Inf", f64::NEG_INFINITY);
    check_value("NaN", NORMAL_NAN);
    check_value("StaleNaN", STALE_NAN);
}

#[test]
fn comments_and_exemplars_are_passed_over() {
    for comment in ["# EOF", "# HELP up Whether it is up.", "# TYPE up gauge", "#", "", "   "] {
        check_none(&mut openmetrics(), comment);
    }
    let line = r##"b_bucket{le="1"} 5 1700000000 # {trace="a # b"} 0.7 1700000000"##;
    check(&mut openmetrics(), line, r#"b_bucket{le="1"}"#, &[(Some(1_700_000_000_000), 5.0)]);
    check(&mut openmetrics(), "b 5 # {} 0.7", "b", &[(None, 5.0)]);
}

#[test]
fn an_exposition_line_that_is_wrong_is_told() {
    let mut parser = openmetrics();
    check_fault(&mut parser, b"up", "expected a value, found the end");
    check_fault(&mut parser, b"up x", "expected a value, found \"x\"");
    check_fault(&mut parser, b"up 1 x", "expected a timestamp");
    check_fault(&mut parser, b"up 1 NaN", "expected a timestamp");
    check_fault(&mut parser, b"up 1 2 3", "the line's end");
    check_fault(&mut parser, b"up{a=\"1\" 1", "a comma or }");
    check_fault(&mut parser, b"up{a=1} 1", "a quoted value");
    check_fault(&mut parser, b"up{a} 1", "expected =");
    check_fault(&mut parser, b"up{a=\"1} 1", "a closing quote");
    check_fault(&mut parser, b"up{a=\"\\", "a closing quote");
    check_fault(&mut parser, b"up{a=\"1\",a=\"2\"} 1", "occurs twice");
    check_fault(&mut parser, b"{a=\"1\"} 1", "name is missing");
    check_fault(&mut parser, b"up{a=\"\xff\"} 1", "not UTF-8");
    check_fault(&mut Parser::new(Format::Prometheus), b"up 1 1.5", "expected a timestamp");
}

#[test]
fn json_lines_hold_a_series_or_a_sample() {
    let mut parser = Parser::new(Format::Json);
    let line = r#"{"metric":{"__name__":"up","job":"a"},"values":[1,"NaN",null,"+Inf","StaleNaN"],"timestamps":[1,2,3,4,5]}"#;
    let samples = [
        (Some(1), 1.0),
        (Some(2), NORMAL_NAN),
        (Some(3), NORMAL_NAN),
        (Some(4), f64::INFINITY),
        (Some(5), STALE_NAN),
    ];
    check(&mut parser, line, r#"up{job="a"}"#, &samples);
    let line = r#"{"name":"up","labels":{"job":"a"},"timestamp":7,"value":-1.5}"#;
    check(&mut parser, line, r#"up{job="a"}"#, &[(Some(7), -1.5)]);
    let line = r#"{"name":"up","value":2,"timestamp":"1970-01-01T00:00:01Z"}"#;
    check(&mut parser, line, "up", &[(Some(1000), 2.0)]);
    check(&mut parser, r#"{"labels":{"__name__":"up"},"value":2}"#, "up", &[(None, 2.0)]);
}

#[test]
fn a_json_line_that_is_wrong_is_told() {
    let mut parser = Parser::new(Format::Json);
    check_fault(&mut parser, b"{", "EOF");
    check_fault(&mut parser, b"{}", "neither");
    check_fault(&mut parser, br#"{"name":"up","value":"x"}"#, "\"x\"");
    check_fault(&mut parser, br#"{"value":1}"#, "name is missing");
    let uneven = br#"{"metric":{"__name__":"up"},"values":[1],"timestamps":[]}"#;
    check_fault(&mut parser, uneven, "same number");
}

#[test]
fn csv_columns_are_named_by_the_header() {
    let mut parser = Parser::new(Format::Csv);
    check_none(&mut parser, "timestamp,value,name,job,instance");
    check(&mut parser, "7,1.5,up,a,", r#"up{job="a"}"#, &[(Some(7), 1.5)]);
    check(&mut parser, ",1,up,\"a,\"\"b\"\"\",x", r#"up{instance="x", job="a,\"b\""}"#, &[(None, 1.0)]);
    check(&mut parser, "1970-01-01T00:00:01Z,NaN,up,,", "up", &[(Some(1000), NORMAL_NAN)]);
    check_fault(&mut parser, b"7,1,up", "3 fields, where the header has 5");
    check_fault(&mut parser, b"x,1,up,,", "expected a timestamp");
    check_fault(&mut parser, b"7,x,up,,", "expected a value");
    check_fault(&mut parser, b"7,1,,,", "name is missing");
    let mut parser = Parser::new(Format::Csv);
    check_none(&mut parser, "name,__name__,value");
    check(&mut parser, "n,up,1", r#"up{name="n"}"#, &[(None, 1.0)]);
}

#[test]
fn csv_without_a_header_ends_the_reading() {
    let mut parser = Parser::new(Format::Csv);
    let fault = parser.parse(b"7,1,up").unwrap_err();
    assert!(fault.ends_all());
    assert_eq!(fault.to_string(), "the header names no column \"value\"");
}

#[test]
fn the_format_is_guessed_from_the_first_line() {
    let is_exposition = |line: &[u8]| matches!(Parser::guess(line), Parser::Exposition(_));
    assert!(is_exposition(b"# TYPE up gauge"));
    assert!(is_exposition(b"up{name=\"value\",value=\"name\"} 1"));
    assert!(is_exposition(b"{\"my.name\"} 1"));
    assert!(matches!(Parser::guess(b"{\"metric\":{}}"), Parser::JsonLines));
    assert!(matches!(Parser::guess(b"value,name"), Parser::Csv(_)));
    assert!(matches!(Parser::guess(b"name, timestamp, value"), Parser::Csv(_)));
}

proptest::proptest! {
    #[test]
    fn no_line_makes_a_parser_panic(line: Vec<u8>, text in r#"[a{}="\\,# 0-9n\t]{0,40}"#) {
        for line in [line.as_slice(), text.as_bytes()] {
            let mut csv = Parser::new(Format::Csv);
            csv.parse(b"timestamp,value,name,a").unwrap();
            for mut parser in [Parser::guess(line), openmetrics(), Parser::new(Format::Json), csv] {
                // Whether it is taken or refused is all the same here.
                drop(parser.parse(line));
            }
        }
    }
}
