//! What an expression matches, as tables; and what no text may do to it.

use proptest::prelude::*;

use super::*;

/// An expression matches some texts, and doesn't others.
fn check(expression: &str, matching: &[&str], others: &[&str]) {
    let compiled = Expression::new(expression).unwrap_or_else(|error| panic!("{error}"));
    for (texts, expect) in [(matching, true), (others, false)] {
        for text in texts {
            assert_eq!(compiled.is_match(text), expect, "{expression:?} on {text:?}");
        }
    }
}

fn check_refused(expression: &str, words: &str) {
    let error = Expression::new(expression).expect_err(expression).to_string();
    let begins: String = expression.chars().take(20).collect();
    assert!(error.contains(words) && error.contains(format!("{begins:?}").trim_end_matches('"')), "{error}");
    assert!(error.len() < 1500, "{error}");
}

#[test]
fn all_of_a_text_must_match_and_newlines_are_characters() {
    check("a.*", &["a", "a\nb"], &["ba", ""]);
    check("a.|b.", &["a1", "b2"], &["a1b2", "1b2"]);
    check(".*", &["", "ä\n"], &[]);
    check(".", &["ä", "\n"], &["", "ab"]);
    check("(?-s).+", &["ab"], &["a\nb"]);
    check("", &[""], &["a"]);
}

#[test]
fn a_brace_that_begins_no_repetition_is_a_character() {
    check("/users/{id}.*", &["/users/{id}", "/users/{id}/a"], &["/users/1"]);
    check("a{,2}", &["a{,2}"], &["", "aa"]);
    check("a{01}", &["a{01}"], &["a"]);
    check("a{2,3}b{1}c{0,}", &["aab", "aaabcc"], &["ab", "aabb"]);
    check("{", &["{"], &[]);
    check("a{1", &["a{1"], &["a"]);
    check_refused("a{1001}", "repeat count");
    check_refused("a{2,1}", "repetition");
}

#[test]
fn quoted_text_means_itself() {
    check(r"\Qa.b*\E+", &["a.b*", "a.b**"], &["axb", "a.b"]);
    check(r"\Q[({\", &[r"[({\"], &[]);
    check(r"\Q\Ea", &["a"], &[]);
}

#[test]
fn a_class_holds_characters_ranges_and_named_classes_alone() {
    check("[^[]+", &["a]"], &["a["]);
    check("[]a]+", &["]a"], &["b"]);
    check("[a&&b]+", &["a&b"], &["c"]);
    check("[+~~-]+", &["+~-"], &["a"]);
    check("[a-]+", &["a-"], &["b"]);
    check(r"[\]\-\x41\t[:digit:]\d]+", &["]-A\t0"], &["a", ":"]);
    check("[[:^alpha:][]+", &["0["], &["a"]);
    check("[[:a]+", &["[:a"], &["b"]);
    check_refused("[[:nothing:]]", "class");
    check_refused("[a", "]");
    check_refused("[", "]");
    check_refused("[b-a]", "range");
}

#[test]
fn perl_classes_and_word_boundaries_are_ascii_and_characters_whole() {
    check(r"\d+", &["09"], &["٣"]);
    check(r"\w+", &["aZ_9"], &["ä"]);
    check(r"\s", &["\t", "\x0c"], &["\x0b", "\u{a0}"]);
    check(r"\D\W\S", &["äää", "\u{10ffff}-٣"], &["1ää", "ä"]);
    check(r"[\D]", &["ä"], &["1"]);
    check(r"[^\D]", &["1"], &["ä"]);
    check(r"ä\bb", &["äb"], &[]);
    check(r"ä\Bä", &["ää"], &[]);
    check(r"a.*\B.*b", &["ab", "axxb", "aβγb"], &["aäb"]);
    check("[ä-ü]", &["ö"], &["a"]);
    check(r"\pL\p{Greek}\P{Greek}\p{^Greek}", &["aαaa"], &["1αaa", "aαaα"]);
}

#[test]
fn escapes_are_those_of_re2() {
    check(r"\<\>\_\-\/", &["<>_-/"], &[]);
    check(r"\101\0\x41\x{e4}", &["A\0Aä"], &[]);
    for escape in
        [r"\1", r"\8", r"\y", r"\C", r"\Z", r"\x4", r"\x{}", r"\x{110000}", r"\x{+41}", r"\é", r"[\b]"]
    {
        check_refused(escape, "escape");
    }
    check_refused("\\", "trailing");
}

#[test]
fn groups_are_those_of_re2() {
    check("(?P<1st>a)(?<b>b)(?i)C(?s-i:d)", &["abcd", "abCd"], &["abcD"]);
    check("(?)ä(?)*", &["", "ää"], &["a"]);
    check_refused("a)|(b", "unexpected )");
    check_refused("(", "missing )");
    check_refused("(?:a", "missing )");
    for group in ["(?=a)", "(?<=a)", "(?!a)", "(?x)a", "(?u)a", "(?P<a-b>a)", "(?P<>a)"] {
        check_refused(group, "group");
    }
    check_refused("*a", "repetition");
}

#[test]
fn many_thousand_names_are_one_expression() {
    let names: Vec<_> = (0..20_000).map(|i| format!("ingest-node-7d9f8c6b5-x{i:05}")).collect();
    check(&names.join("|"), &[&names[0], &names[19_999]], &["ingest-node"]);
    let suffixed = format!("({}):[0-9]+", names[..1000].join("|"));
    check(&suffixed, &["ingest-node-7d9f8c6b5-x00999:9100"], &["ingest-node-7d9f8c6b5-x01000:9100"]);
}

#[test]
fn what_takes_too_much_room_is_refused() {
    check_refused(r"(\pL{100}){10}", "size");
    check_refused(&r"\pL".repeat(200), "size");
    check_refused(&format!("(?i){}", "[^a]".repeat(200)), "size");
    check("[^a]{30}", &[&"ä".repeat(30)], &[&"ä".repeat(29)]);
    let wide = Expression::new("[^a]{1000}").unwrap();
    assert!((100_000..COMPILED_BYTES_MAX).contains(&wide.compiled_bytes()), "{}", wide.compiled_bytes());
    assert!(Expression::within("[^a]{1000}", wide.compiled_bytes() / 2).is_err());
}

#[test]
fn what_is_taken_stays_within_the_bound_whatever_it_is() {
    for expression in ["a.*", "[^a]{30}", r"\pL", "(?i)[^a]b", "a|b.?"] {
        let bytes = Expression::new(expression).unwrap().compiled_bytes();
        assert!(Expression::within(expression, 2 * bytes).is_ok());
        for bytes_max in (0..2 * bytes).step_by(1 + bytes / 100) {
            let compiled = Expression::within(expression, bytes_max);
            let taken = compiled.map_or(0, |compiled| compiled.compiled_bytes());
            assert!(taken <= bytes_max, "{expression:?} takes {taken} bytes, and {bytes_max} are left");
        }
    }
}

#[test]
fn repetitions_within_repetitions_are_bounded_as_in_re2() {
    for allowed in [
        "(a{10}){100}",
        "((a{2}){5}b{3}){100}",
        "(a{1000}){1}",
        "((a{1000}){0}b){1000}",
        "(a*){1000}",
        "a{1000}|b{1000}",
        "(?:a{5,}){200}",
        "((a?){1000})*",
    ] {
        assert!(Expression::new(allowed).is_ok(), "{allowed}");
    }
    for refused in [
        "(a{10}){101}",
        "((a?){1000}){10}",
        "((a{10})?b){101}",
        "(a{3}){334}",
        "((a{7}){11}){13}",
        "((?i:a{1000})){2,}",
        "(x(y{2}))({)(a{500}){3}",
        "(?:a{2,10}){101}",
    ] {
        check_refused(refused, "invalid repeat count");
    }
}

/// Searches that are stopped as often as they ask find the same.
fn check_stopped(expression: &str, text: &str) {
    let compiled = Expression::new(expression).unwrap();
    let (mut memory, mut search) = (compiled.search_memory(), Search::default());
    let mut stops = 0;
    let found = loop {
        match compiled.search(&mut memory, &mut search, text, || true) {
            Some(found) => break found,
            None => stops += 1,
        }
    };
    assert_eq!(found, compiled.is_match(text), "{expression:?} after {stops} stops");
    assert!(stops > 10, "{expression:?}: {stops} stops");
}

#[test]
fn a_search_can_be_stopped_and_goes_on_where_it_was() {
    let long = "aβ".repeat(2000);
    check_stopped(&format!("(aβ){{2}}.*[{long}]{{200}}"), &long);
    check_stopped(&format!("({})*", "(a|β?){900}x?"), &long);
    check_stopped("((a?β?){300}|b)*", &long);
}

#[test]
fn a_step_of_a_search_costs_no_more_than_the_compiled_form_is_long() {
    // Each text makes states that no other has: a backtracking or simulating matcher would take minutes.
    let compiled = Expression::new("(.*a.{12}b.{12}c)?[ab]*").unwrap();
    let (mut memory, mut looks) = (compiled.search_memory(), 0_u64);
    for seed in 0..20_u64 {
        let text: String = (0..8192_u64)
            .map(|i| {
                if (i * i + seed * 0x9e37).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0 { 'a' } else { 'b' }
            })
            .collect();
        let mut search = Search::default();
        let found = compiled.search(&mut memory, &mut search, &text, || {
            looks += 1;
            false
        });
        assert_eq!(found, Some(true));
    }
    assert!(looks > 20 * 8192 / 200, "{looks} looks at the clock");
}

proptest! {
    #[test]
    fn whatever_is_quoted_matches_itself_alone(text: String, other: String) {
        let expression = Expression::new(&regex_syntax::escape(&text)).unwrap();
        prop_assert!(expression.is_match(&text));
        prop_assert_eq!(expression.is_match(&other), text == other);
    }

    #[test]
    fn a_class_of_characters_matches_these(chars in proptest::collection::vec(any::<char>(), 1..9), other: char) {
        let class: String = chars.iter().map(|c| format!("\\x{{{:x}}}", *c as u32)).collect();
        let expression = Expression::new(&format!("[{class}]")).unwrap();
        prop_assert!(chars.iter().all(|c| expression.is_match(&c.to_string())));
        prop_assert_eq!(expression.is_match(&other.to_string()), chars.contains(&other));
    }

    #[test]
    fn no_text_is_too_strange(text in r#"([\\\[\]{}()?*|^$:,<>PQEpdDbB0-9a-dä&~-]|\[:|:\]){0,12}"#) {
        let expression = Expression::new(&text);
        // Matched or refused: both are answers.
        prop_assert!(expression.is_ok_and(|expression| expression.is_match(&text)) || !text.is_empty());
    }
}
