//! Two of the founding comparisons with perf over them: connections, of which the server is a process of its own, and
//! caches, of which a row is a whole process. It knows no groups.

use std::error::Error;
use std::time::Duration;

use silverback_load::replay::pin::pin_to_any;

use super::loads::Column;
use super::perf::{Recording, record_program};
use crate::founding::meter::{Figures, figure};
use crate::founding::results::{Comparison, Row};
use crate::founding::{Job, OURS, Size, cache, connections};
use crate::report::rounds::Ground;

/// No row takes longer.
const ROW_MAX: Duration = Duration::from_secs(180);

/// tonic and the node at the most connections; the unit is a request. perf watches from before the first connection
/// until the last answer.
pub fn connections(ground: &Ground, size: Size) -> Result<Vec<Column>, Box<dyn Error>> {
    let comparison = connections::comparison(size, ground.cpus.len());
    compared(&comparison, connections::TONIC).into_iter().map(|row| connected(ground, row)).collect()
}

fn connected(ground: &Ground, row: &Row) -> Result<Column, Box<dyn Error>> {
    let Job::Connections(work) = &row.job else { return Err("not a row of connections".into()) };
    let started = work.start()?;
    let recording = Recording::start(started.pid(), &[started.clients], &ground.scratch)?;
    let sent = started.send();
    pin_to_any(&ground.cpus)?;
    let (figures, profile) = (sent?, recording.end()?);
    let cpu_ns = 1e9 / figure_of(&figures, connections::PER_CPU_S);
    Ok(Column { head: row.side.clone(), profile, cpu_ns })
}

/// Locks on tokio and cores that own their part; the unit is an operation. perf watches the whole process, which fills
/// its cache first.
pub fn cache(ground: &Ground, size: Size) -> Result<Vec<Column>, Box<dyn Error>> {
    let comparison = cache::comparison(size, ground.cpus.len());
    compared(&comparison, cache::STD_LOCKS).into_iter().map(|row| cached(ground, row)).collect()
}

fn cached(ground: &Ground, row: &Row) -> Result<Column, Box<dyn Error>> {
    let words = ["founding", "--side", &serde_json::to_string(&row.job)?];
    let (printed, profile) = record_program(&std::env::current_exe()?, &words, &ground.scratch, ROW_MAX)?;
    let figures: Figures = serde_json::from_slice(&printed)?;
    Ok(Column { head: row.side.clone(), profile, cpu_ns: figure_of(&figures, figure::CPU_NS) })
}

fn figure_of(figures: &Figures, name: &str) -> f64 {
    figures.get(name).copied().unwrap_or(f64::NAN)
}

/// The rows of us and of one other side, at the last setting.
fn compared<'a>(comparison: &'a Comparison, other: &str) -> Vec<&'a Row> {
    let Some(last) = comparison.rows.last() else { return Vec::new() };
    let is_compared = |row: &&Row| row.setting == last.setting && [OURS, other].contains(&row.side.as_str());
    comparison.rows.iter().filter(is_compared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comparison_has_both_sides_at_its_last_setting() {
        let check = |comparison: Comparison, other: &str, setting: &str| {
            let rows = compared(&comparison, other);
            let found: Vec<_> = rows.iter().map(|row| (row.setting.as_str(), row.side.as_str())).collect();
            assert_eq!(found, [(setting, other), (setting, OURS)]);
        };
        check(connections::comparison(Size::Full, 2), connections::TONIC, "1000 connections");
        check(cache::comparison(Size::Full, 2), cache::STD_LOCKS, "2 cores");
    }
}
