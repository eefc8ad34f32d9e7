//! Series, and the texts that are made of them.

use super::*;
use crate::error::CommandError;
use crate::formats::{NORMAL_NAN, Parser, STALE_NAN};

fn series(samples: &[(i64, f64)]) -> QueriedSeries {
    let labels = vec![("__name__".to_owned(), "up".to_owned()), ("job".to_owned(), "a,\"b\"".to_owned())];
    QueriedSeries { labels: LabelSet::trusted(labels), samples: samples.to_vec(), histograms: Vec::new() }
}

fn text_of(print: impl FnOnce(&mut Vec<u8>) -> Result<(), CommandError>) -> String {
    let mut out = Vec::new();
    print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn check_table(samples: &[(i64, f64)], width: Option<usize>, expect: &[&str]) {
    let text = text_of(|out| Ok(columns::print(&series(samples), width, out)?));
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    assert_eq!(lines[1..lines.len() - 1], *expect);
}

#[test]
fn a_table_has_aligned_times_and_values() {
    let samples = [(0, 1.0), (15_000, 22.5), (15_250, f64::INFINITY), (30_000, STALE_NAN)];
    let expect = [
        "  1970-01-01T00:00:00Z             1",
        "  1970-01-01T00:00:15Z          22.5",
        "  1970-01-01T00:00:15.250Z      +Inf",
        "  1970-01-01T00:00:30Z      StaleNaN",
    ];
    check_table(&samples, None, &expect);
    check_table(&samples, Some(200), &expect);
}

#[test]
fn a_long_table_takes_the_terminals_width_column_by_column() {
    let samples: Vec<_> = (0..30).map(|index| (index * 1000, index as f64)).collect();
    let text = text_of(|out| Ok(columns::print(&series(&samples), Some(80), out)?));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], r#"up{job="a,\"b\""}  (30 samples)"#);
    assert_eq!(lines[1], "  1970-01-01T00:00:00Z   0    1970-01-01T00:00:15Z  15");
    assert_eq!(lines.len(), 1 + 15 + 1);
}

/// What is printed is read again by the formats that `silverctl write` takes.
fn check_read_back(text: &str, samples: &[(i64, f64)]) {
    let mut lines = text.lines();
    let mut parser = Parser::guess(text.lines().next().unwrap().as_bytes());
    let mut read = Vec::new();
    for line in &mut lines {
        if let Some(entry) = parser.parse(line.as_bytes()).unwrap() {
            assert_eq!(entry.labels, series(&[]).labels);
            read.extend(entry.samples);
        }
    }
    let bits: Vec<_> = read.iter().map(|(at_ms, value)| (at_ms.unwrap(), value.to_bits())).collect();
    assert_eq!(bits, samples.iter().map(|(at_ms, value)| (*at_ms, value.to_bits())).collect::<Vec<_>>());
}

const ODD: [(i64, f64); 7] = [
    (-5, 0.1),
    (1, -0.0),
    (2, NORMAL_NAN),
    (3, STALE_NAN),
    (4, f64::INFINITY),
    (5, f64::NEG_INFINITY),
    (1_700_000_000_123, 1e-300),
];

#[test]
fn json_and_csv_are_read_back_as_they_were() {
    check_read_back(&text_of(|out| json::print(&series(&ODD), out)), &ODD);
    let names = vec!["__name__".to_owned(), "instance".to_owned(), "job".to_owned()];
    let mut rows = rows::QueryRows::new(names, rows::RowsReader::Program);
    let csv = text_of(|out| rows.print(&series(&ODD), out));
    assert!(csv.starts_with("timestamp,value,__name__,instance,job\n-5,0.1,up,,\"a,\"\"b\"\"\"\n"), "{csv}");
    check_read_back(&csv, &ODD);
}

#[test]
fn json_is_what_victoriametrics_exports() {
    let text = text_of(|out| json::print(&series(&[(5, 1.5), (6, f64::NAN)]), out));
    let expect = r#"{"metric":{"__name__":"up","job":"a,\"b\""},"values":[1.5,"NaN"],"timestamps":[5,6]}"#;
    assert_eq!(text.trim_end(), expect);
}

fn plot(ink: plot::Ink, all: Vec<QueriedSeries>) -> String {
    let mut plot = plot::Plot::new(ink, 40, 8);
    for series in all {
        plot.add(series);
    }
    text_of(|out| Ok(plot.print(out)?))
}

#[test]
fn a_plot_has_axes_a_line_and_a_legend() {
    let rising: Vec<_> = (0..=60).map(|minute| (minute * 60_000, minute as f64)).collect();
    let text = plot(plot::Ink::Plain, vec![series(&rising)]);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("100 ┤") && lines[7].starts_with("  0 ┤⣀"), "{text}");
    assert!(lines[8].starts_with("    └┬──"), "{text}");
    assert!(lines[9].trim_end().ends_with("01:00"), "{text}");
    assert!(lines[10].ends_with("last 60 at 1970-01-01T01:00:00Z, min 0, max 60"), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 40 || line.starts_with('●')), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn series_share_a_plot_and_are_told_apart_by_colours_or_signs() {
    let two = || vec![series(&[(0, 1.0), (10, 2.0)]), series(&[(0, 2.0), (10, 1.0)])];
    let axes = |text: &str| text.lines().filter(|line| line.contains('└')).count();
    let coloured = plot(plot::Ink::Colours, two());
    assert_eq!((coloured.matches('●').count(), axes(&coloured)), (2, 1), "{coloured}");
    assert!(coloured.contains("\x1b[36m") && coloured.contains("\x1b[33m"));
    let plain = plot(plot::Ink::Plain, two());
    assert_eq!(axes(&plain), 1, "{plain}");
    let lines: Vec<_> = plain.lines().collect();
    // One line falls, the other one rises.
    assert!(lines[0].contains("┤+") && lines[0].ends_with('*'), "{plain}");
    assert!(lines[7].contains("┤*") && lines[7].ends_with('+'), "{plain}");
    let legend: Vec<_> = lines.iter().filter(|line| line.contains("last")).collect();
    assert!(legend[0].starts_with("* up{") && legend[1].starts_with("+ up{"), "{plain}");
    assert!(!plain.contains('\x1b'));
}

#[test]
fn what_can_not_be_drawn_is_no_line() {
    for samples in [&[][..], &[(0, f64::NAN)], &[(0, f64::INFINITY)], &[(0, STALE_NAN), (1, f64::MAX)]] {
        let text = plot(plot::Ink::Plain, vec![series(samples)]);
        assert!(text.starts_with('●'), "{text}");
    }
    for samples in [&[(0, 0.0)][..], &[(i64::MIN, -1e300), (i64::MAX, 1e300)], &[(0, 1.0), (1, 1.0)]] {
        let text = plot(plot::Ink::Plain, vec![series(samples)]);
        assert!(text.contains('└'), "{text}");
    }
}

#[test]
fn rows_for_a_terminal_are_printable_and_those_for_a_program_exact() {
    for (reader, expect) in [
        (rows::RowsReader::Person, "timestamp,value,a\n1,2,\\u001b[2J\\u202e\n"),
        (rows::RowsReader::Program, "timestamp,value,a\n1,2,\u{1b}[2J\u{202e}\n"),
    ] {
        let labels = LabelSet::trusted(vec![("a".to_owned(), "\u{1b}[2J\u{202e}".to_owned())]);
        let mut out = Vec::new();
        let mut rows = rows::QueryRows::new(vec!["a".to_owned()], reader);
        rows.print(&QueriedSeries { labels, samples: vec![(1, 2.0)], histograms: Vec::new() }, &mut out)
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }
}
