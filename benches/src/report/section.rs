//! What was measured as sections of the document: tables, which targets hold, plots. It knows words and units, no
//! places in a document.

use silverback_load::replay::spread::Spread;

use super::bounds::TARGETS;
use super::document::Section;
use super::loads::{Load, Work};
use super::measurements::{Measurements, Ratio};
use super::reads::{ANSWER_MS, CPU_MS, QUESTIONS};
use super::restart::READY_S;
use super::side::{Programs, Side};
use super::writes::figure;
use crate::founding::plot;
use crate::founding::results::{Column, Measured, Results};
use crate::rebalance::verdict::Bound;

/// Ours to another's, or another's to ours: never below 1 where ours is the better.
const RATIO: &str = "ratio";
/// The same of another figure.
const RATE_RATIO: &str = "rate_ratio";

/// A part of the document, and how its figures are shown.
#[derive(Debug)]
pub struct Layout {
    /// Its name, which its loads have.
    pub name: &'static str,
    title: &'static str,
    columns: &'static [Column],
    /// What is compared from round to round, each with its ratio's name.
    compared: &'static [(&'static str, &'static str)],
    better: Better,
}

#[derive(Debug, Clone, Copy)]
enum Better {
    More,
    Less,
}

const fn column(figure: &'static str, head: &'static str, unit: f64, digits: usize) -> Column {
    Column { figure, head, unit, digits }
}

const PER_CPU_S: Column = column(figure::PER_CPU_S, "k samples a server CPU second", 1e3, 0);
const PER_S: Column = column(figure::PER_S, "k samples/s", 1e3, 0);
const P50: Column = column(figure::P50_MS, "p50 ms", 1.0, 2);
const P99: Column = column(figure::P99_MS, "p99 ms", 1.0, 2);
const MEAN: Column = column(figure::MEAN_MS, "mean ms", 1.0, 2);
const RESIDENT: Column = column(figure::RESIDENT, "RSS MB", 1e6, 0);
const PEAK: Column = column(figure::RESIDENT_PEAK, "peak MB", 1e6, 0);
const CELLS_MOVED: Column = column(figure::CELLS_MOVED, "cells moved", 1.0, 0);
const OURS_TO_IT: Column = column(RATIO, "silverback's to it", 1.0, 2);
const OURS_TO_ITS_RATE: Column = column(RATE_RATIO, "silverback's to it", 1.0, 2);
const TO_OURS: Column = column(RATIO, "to silverback's", 1.0, 2);

/// All parts, in the document's order.
pub const LAYOUTS: [Layout; 10] = [
    Layout {
        name: "writes",
        title: "Remote write, closed loop",
        columns: &[PER_CPU_S, OURS_TO_IT, P50, P99, RESIDENT],
        compared: &[(figure::PER_CPU_S, RATIO)],
        better: Better::More,
    },
    Layout {
        name: "latency",
        title: "Remote write, at a fixed rate",
        columns: &[P99, TO_OURS, P50, column(figure::CPU_S, "server CPU s", 1.0, 2), RESIDENT],
        compared: &[(figure::P99_MS, RATIO)],
        better: Better::Less,
    },
    Layout {
        name: "scale",
        title: "One shard and two",
        columns: &[PER_CPU_S, OURS_TO_IT, PER_S, OURS_TO_ITS_RATE, P99, CELLS_MOVED],
        compared: &[(figure::PER_CPU_S, RATIO), (figure::PER_S, RATE_RATIO)],
        better: Better::More,
    },
    Layout {
        name: "histograms",
        title: "Native histograms",
        columns: &[
            column(figure::PER_CPU_S, "k histograms a server CPU second", 1e3, 0),
            OURS_TO_IT,
            P50,
            P99,
            RESIDENT,
        ],
        compared: &[(figure::PER_CPU_S, RATIO)],
        better: Better::More,
    },
    Layout {
        name: "grpc",
        title: "gRPC streams",
        columns: &[PER_CPU_S, PER_S, P50, P99, RESIDENT],
        compared: &[(figure::PER_CPU_S, RATIO)],
        better: Better::More,
    },
    Layout {
        name: "tls",
        title: "Encrypted connections",
        columns: &[PER_CPU_S, PER_S, P50, P99, RESIDENT],
        compared: &[(figure::PER_CPU_S, RATIO)],
        better: Better::More,
    },
    Layout {
        name: "reconnects",
        title: "Beside senders that reconnect",
        columns: &[
            P99,
            P50,
            column(figure::RECONNECTS_PER_S, "reconnects/s", 1.0, 0),
            column(figure::RECONNECT_P99_MS, "a reconnect's p99 ms", 1.0, 2),
            column(figure::CPU_S, "server CPU s", 1.0, 2),
            RESIDENT,
        ],
        compared: &[],
        better: Better::Less,
    },
    Layout {
        name: "restart",
        title: "Killed and started again",
        columns: &[
            column(READY_S, "ready after s", 1.0, 2),
            TO_OURS,
            column(figure::CPU_S, "CPU s", 1.0, 2),
            PEAK,
        ],
        compared: &[(READY_S, RATIO)],
        better: Better::Less,
    },
    Layout {
        name: "reads",
        title: "Reads",
        columns: &[
            column(CPU_MS, "server CPU ms", 1.0, 1),
            TO_OURS,
            column(ANSWER_MS, "answered after ms", 1.0, 1),
            RESIDENT,
        ],
        compared: &[(CPU_MS, RATIO)],
        better: Better::Less,
    },
    Layout {
        name: "former",
        title: "Beside a former build",
        columns: &[PER_CPU_S, OURS_TO_IT, MEAN, P50, P99, RESIDENT],
        compared: &[(figure::PER_CPU_S, RATIO)],
        better: Better::More,
    },
];

/// One section and its plot.
#[derive(Debug)]
pub struct Written {
    /// For the document.
    pub section: Section,
    /// The part whose loads it tells of.
    pub of: &'static str,
    /// Beside it, for a part.
    pub svg: Option<String>,
    /// Whether each target that could be judged holds.
    pub bounds: Vec<Bound>,
}

/// What every section says of how it was measured.
#[derive(Debug)]
pub struct Context<'a> {
    /// Machine, kernel, command, commit.
    pub preamble: String,
    /// Who was here.
    pub programs: &'a Programs,
    /// Every load that was asked for.
    pub loads: &'a [Load],
    /// Loads that this machine can't have.
    pub impossible: &'a [&'static str],
}

impl Layout {
    /// The section of what was measured; nothing where nothing was.
    pub fn write(&self, context: &Context<'_>, all: &Measurements) -> Option<Written> {
        let loads: Vec<&Load> = context.loads.iter().filter(|load| load.section == self.name).collect();
        let results = self.results(context.programs, &settings(&loads), all);
        if results.rows.is_empty() {
            return None;
        }
        let is_judged = |target: &&super::bounds::Target| target.section == self.name;
        let bounds: Vec<Bound> =
            TARGETS.iter().filter(is_judged).filter_map(|target| target.judged(all)).collect();
        let is_own = |side: &str| side.starts_with("silverback");
        let svg = plot::svg(self.title, &self.columns[0], &results, is_own);
        let name = self.name;
        let parts = [
            context.preamble.clone(),
            listed(loads.iter().map(|load| format!("`{}`: {}", load.name, load.what))),
            results.markdown(self.columns).trim_end().to_owned(),
            listed(bounds.iter().map(Bound::to_string)),
            listed(missing(context, &loads, all)),
            format!("![{}](plots/report-{name}.svg)", self.title),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let section = Section { name: name.to_owned(), body: parts.join("\n\n") };
        Some(Written { section, of: name, svg: Some(svg), bounds })
    }

    fn results(&self, programs: &Programs, settings: &[String], all: &Measurements) -> Results {
        let rows = settings.iter().flat_map(|setting| {
            all.sides_of(setting).into_iter().map(move |side| self.row(programs, setting, side, all))
        });
        Results { rows: rows.collect() }
    }

    fn row(&self, programs: &Programs, setting: &str, side: Side, all: &Measurements) -> Measured {
        let mut row = Measured::new(setting, programs.label(side));
        for (round, figures) in all.rounds_of(setting, side) {
            let (ours, theirs) = ((setting, side.counterpart()), (setting, side));
            let ratio = |figure| match self.better {
                Better::More => all.ratio_in(round, figure, ours, theirs),
                Better::Less => all.ratio_in(round, figure, theirs, ours),
            };
            let mut figures = figures.clone();
            for &(figure, name) in self.compared {
                figures.extend(ratio(figure).map(|ratio| (name.to_owned(), ratio)));
            }
            row.add(figures);
        }
        row
    }
}

/// The writes at a glance: how many times as many samples ours takes in for each CPU second as each other side.
pub fn summary(context: &Context<'_>, all: &Measurements) -> Option<Written> {
    const OF: &str = LAYOUTS[0].name;
    let is_compared = |load: &&Load| load.section == OF && load.sides.len() > 1;
    let loads: Vec<&Load> = context.loads.iter().filter(is_compared).collect();
    let is_measured = |side: &Side| loads.iter().any(|load| all.sides_of(load.name).contains(side));
    let others: Vec<Side> =
        Side::ALL.into_iter().filter(|side| !side.is_own() && is_measured(side)).collect();
    if others.is_empty() {
        return None;
    }
    let times = |load: &str, side: Side| {
        let ratios = all.ratios(figure::PER_CPU_S, (load, side.counterpart()), (load, side));
        let Spread { min, median, max } = Ratio::of(&ratios).spread;
        if ratios.is_empty() { "–".to_owned() } else { format!("{median:.2} ({min:.2} to {max:.2})") }
    };
    let cells = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let head = others.iter().map(|side| format!("to {}", context.programs.label(*side)));
    let mut lines = vec![
        cells([vec!["load".to_owned()], head.collect()].concat()),
        format!("|---|{}", "--:|".repeat(others.len())),
    ];
    let row = |load: &&Load| {
        let times = others.iter().map(|side| times(load.name, *side)).collect();
        cells([vec![format!("{} (`{}`)", load.what, load.name)], times].concat())
    };
    lines.extend(loads.iter().map(row));
    let body = format!("{}\n\n{}", context.preamble, lines.join("\n"));
    Some(Written {
        section: Section { name: "summary".to_owned(), body },
        of: OF,
        svg: None,
        bounds: Vec::new(),
    })
}

/// What the rows of these loads are called.
fn settings(loads: &[&Load]) -> Vec<String> {
    let of = |load: &&Load| match load.work {
        Work::Reads(_) => QUESTIONS.map(str::to_owned).to_vec(),
        // Nobody's: a bound has it.
        Work::Floor(_) => Vec::new(),
        Work::Replay(_) | Work::Streams(_) | Work::Restart(_) => vec![load.name.to_owned()],
    };
    loads.iter().flat_map(of).collect()
}

/// Who isn't here, what this machine can't have, and what failed.
fn missing(context: &Context<'_>, loads: &[&Load], all: &Measurements) -> Vec<String> {
    let is_wanted = |side: &Side| loads.iter().any(|load| load.sides.contains(side));
    let absent: Vec<&str> =
        context.programs.missing().into_iter().filter(is_wanted).map(Side::name).collect();
    let mut lines = Vec::new();
    if !absent.is_empty() {
        lines.push(format!("not here, and so left out: {}", absent.join(", ")));
    }
    let is_of_these = |name: &str| loads.iter().any(|load| load.name == name);
    lines.extend(
        context
            .impossible
            .iter()
            .filter(|name| is_of_these(name))
            .map(|name| format!("not measured: {name}, which takes more CPUs than there are")),
    );
    let failures = all.failures.iter().filter(|failure| is_of_these(failure.load));
    lines.extend(
        failures.map(|failure| format!("failed: {}, {}: {}", failure.load, failure.side, failure.why)),
    );
    lines.dedup();
    lines
}

fn listed(lines: impl IntoIterator<Item = String>) -> String {
    let lines: Vec<String> = lines.into_iter().map(|line| format!("- {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::loads::{Size, all};
    use super::super::measurements::tests::measurements;
    use super::super::side::Paths;
    use super::*;

    fn programs() -> Programs {
        let paths = Paths { node: Some("/bin/true".into()), ..Paths::default() };
        Programs::find(&paths, "/bin/true".as_ref()).expect("programs").only(&[Side::Node, Side::Contender])
    }

    fn layout() -> Layout {
        const COLUMNS: &[Column] = &[column("x", "x", 1.0, 0), OURS_TO_IT];
        Layout {
            name: "writes",
            title: "T",
            columns: COLUMNS,
            compared: &[("x", RATIO)],
            better: Better::More,
        }
    }

    #[test]
    fn every_load_has_a_section_and_the_document_a_place_for_each() {
        let text = include_str!("../../../docs/performance.md");
        let places = super::super::document::names(text).expect("a document");
        for layout in LAYOUTS {
            assert!(places.contains(&layout.name.to_owned()), "no place for {}", layout.name);
        }
        let has_layout = |load: &Load| LAYOUTS.iter().any(|layout| layout.name == load.section);
        assert!(all(Size::Full).iter().all(has_layout));
    }

    #[test]
    fn a_section_has_ratios_of_the_same_round_and_says_who_is_missing_and_what_failed() {
        let mut measured = measurements(&[
            ("steady-1", Side::Node, &[Some(10.0), Some(40.0), Some(9.0)]),
            ("steady-1", Side::Contender, &[Some(5.0), Some(10.0), Some(3.0)]),
        ]);
        let failed =
            |load| super::super::measurements::Failure { load, side: Side::Contender, why: "alas".into() };
        measured.failures = vec![failed("batch-100"), failed("restart")];
        let programs = programs();
        let loads = all(Size::Small);
        let context = Context {
            preamble: "Here.".into(),
            programs: &programs,
            loads: &loads,
            impossible: &["two-shards"],
        };
        let written = layout().write(&context, &measured).expect("something was measured");
        let body = written.section.body;
        for part in [
            "Here.\n\n- `floor`: no server",
            "- `steady-1`: 100 k series",
            "| contender | 5 (3 to 10) | 3.00 (2.00 to 4.00) |",
            "| silverback | 10 (9 to 40) | 1.00 |",
            "left out: silverback-memory",
            "- failed: batch-100, contender: alas",
            "![T](plots/report-writes.svg)",
        ] {
            assert!(body.contains(part), "{part} is not in\n{body}");
        }
        assert!(!body.contains("restart") && !body.contains("two-shards"), "{body}");
    }

    #[test]
    fn the_summary_has_a_row_for_each_load_and_a_column_for_each_side_that_was_there() {
        let mut measured = Measurements::default();
        for (side, value) in [(Side::Node, 3.0), (Side::Contender, 2.0)] {
            let figures = [(figure::PER_CPU_S.to_owned(), value)].into();
            measured.add(0, "batch-10", side, figures);
        }
        let (programs, loads) = (programs(), all(Size::Small));
        let context =
            Context { preamble: "Here.".into(), programs: &programs, loads: &loads, impossible: &[] };
        let written = summary(&context, &measured).expect("something was measured");
        let body = written.section.body;
        assert!(body.starts_with("Here.\n\n| load | to contender |\n|---|--:|\n"), "{body}");
        assert!(
            body.contains("(`batch-10`) | 1.50 (1.50 to 1.50) |") && body.contains("(`steady-1`) | – |"),
            "{body}"
        );
        assert!(summary(&context, &Measurements::default()).is_none());
    }

    #[test]
    fn nothing_measured_is_no_section() {
        let (programs, loads) = (programs(), all(Size::Small));
        let context =
            Context { preamble: String::new(), programs: &programs, loads: &loads, impossible: &[] };
        assert!(layout().write(&context, &Measurements::default()).is_none());
    }
}
