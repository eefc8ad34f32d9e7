//! Bars with their spread, as an SVG that needs no program to be looked at. It knows figures and names.

use std::fmt::Write;

use super::results::{Column, Results};

/// Sizes in the SVG's own units.
const WIDTH: f64 = 760.0;
const LABELS_WIDTH: f64 = 250.0;
const VALUES_WIDTH: f64 = 90.0;
const BAR_HEIGHT: f64 = 18.0;
const BAR_STEP: f64 = 24.0;
const SETTING_STEP: f64 = 30.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 14.0;

const OWN_COLOUR: &str = "#1b7f5c";
const OTHER_COLOUR: &str = "#8a94a6";

/// A bar for each row, grouped by setting. `is_own` tells our bars from the others'.
pub fn svg(title: &str, column: &Column, results: &Results, is_own: impl Fn(&str) -> bool) -> String {
    let longest = results.rows.iter().map(|row| row.spread(column.figure).max).fold(0.0, f64::max);
    let scale = (WIDTH - LABELS_WIDTH - VALUES_WIDTH) / longest.max(f64::MIN_POSITIVE);
    let (mut y, mut setting, mut bars) = (TOP, "", String::new());
    for row in &results.rows {
        if row.setting != setting {
            setting = &row.setting;
            bars += &text(12.0, y + 16.0, "start", "600", setting);
            y += SETTING_STEP;
        }
        let spread = row.spread(column.figure);
        let middle = y + BAR_HEIGHT / 2.0;
        bars += &text(LABELS_WIDTH - 8.0, middle + 4.0, "end", "400", &row.side);
        if spread.median.is_nan() {
            bars += &text(LABELS_WIDTH, middle + 4.0, "start", "400", "not measured");
        } else {
            let colour = if is_own(&row.side) { OWN_COLOUR } else { OTHER_COLOUR };
            let length = spread.median * scale;
            writeln!(
                bars,
                r#"<rect x="{LABELS_WIDTH}" y="{y:.1}" width="{length:.1}" height="{BAR_HEIGHT}" fill="{colour}"/>"#
            )
            .expect("text takes text");
            let (least, most) = (LABELS_WIDTH + spread.min * scale, LABELS_WIDTH + spread.max * scale);
            writeln!(
                bars,
                r##"<path d="M{least:.1} {middle:.1}H{most:.1}" stroke="#222" stroke-width="1.5"/>"##
            )
            .expect("text takes text");
            let value = format!("{:.*}", column.digits, spread.median / column.unit);
            bars += &text(most + 6.0, middle + 4.0, "start", "400", &value);
        }
        y += BAR_STEP;
    }
    let height = y + BOTTOM;
    let head = text(12.0, 22.0, "start", "600", title) + &text(12.0, 40.0, "start", "400", column.head);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n{head}{bars}</svg>\n"
    )
}

fn text(x: f64, y: f64, anchor: &str, weight: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" fill=\"#222\">{words}</text>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::results;
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_room_and_words_are_escaped() {
        let column = Column { figure: "ns", head: "µs", unit: 1e3, digits: 1 };
        let results =
            results(&[("x", "a & b", &[1000.0, 2000.0, 4000.0]), ("x", "own", &[]), ("y", "own", &[1000.0])]);
        let svg = svg("A plot", &column, &results, |side| side == "own");
        let room = WIDTH - LABELS_WIDTH - VALUES_WIDTH;
        for part in [
            "a &amp; b".to_owned(),
            format!("width=\"{:.1}\" height=\"18\" fill=\"{OTHER_COLOUR}\"", room / 2.0),
            format!("width=\"{:.1}\" height=\"18\" fill=\"{OWN_COLOUR}\"", room / 4.0),
            format!("H{:.1}", LABELS_WIDTH + room),
            "not measured".to_owned(),
        ] {
            assert!(svg.contains(&part), "{part} is not in\n{svg}");
        }
    }
}
