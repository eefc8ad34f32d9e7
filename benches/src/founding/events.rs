//! System calls and cache misses of a whole process, counted by `perf stat` where it is installed and
//! allowed. What can't be counted is left out. It slows what it counts, so that time is taken without it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{Command, Stdio};

/// What is counted: perf's name, and the figure's.
const EVENTS: [(&str, &str); 2] = [("raw_syscalls:sys_enter", SYSCALLS), ("cache-misses", CACHE_MISSES)];

/// System calls.
pub const SYSCALLS: &str = "syscalls";
/// Cache misses of the last level, as the processor counts them.
pub const CACHE_MISSES: &str = "cache_misses";

/// The events that this machine counts; a virtual one often has none of the processor's.
pub fn countable() -> Vec<&'static str> {
    let counts =
        |event: &&str| run_under_perf(&[event], &mut |perf| perf.arg("true")).is_ok_and(|c| !c.is_empty());
    EVENTS.iter().map(|(event, _)| *event).filter(counts).collect()
}

/// Runs a program and counts its events, start and end included: by the figure's name.
pub fn count(
    events: &[&str],
    mut program: impl FnMut(&mut Command) -> &mut Command,
) -> io::Result<BTreeMap<&'static str, f64>> {
    if events.is_empty() {
        return Ok(BTreeMap::new());
    }
    run_under_perf(events, &mut program)
}

fn run_under_perf(
    events: &[&str],
    program: &mut dyn FnMut(&mut Command) -> &mut Command,
) -> io::Result<BTreeMap<&'static str, f64>> {
    let path = std::env::temp_dir().join(format!("silverback-events-{}", std::process::id()));
    let mut perf = Command::new("perf");
    perf.args(["stat", "-x,", "-e", &events.join(","), "-o"]).arg(&path).arg("--");
    let status = program(&mut perf).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let text = fs::read_to_string(&path);
    // Gone already where perf never wrote it.
    let _ = fs::remove_file(&path);
    match status.success() {
        true => Ok(parse(&text?)),
        false => Err(io::Error::other(format!("perf stat ended with {status}"))),
    }
}

/// Lines `count,unit,event,…`; `<not supported>` in a count's place is no count.
fn parse(text: &str) -> BTreeMap<&'static str, f64> {
    let counted = text.lines().filter_map(|line| {
        let mut fields = line.split(',');
        let count: f64 = fields.next()?.parse().ok()?;
        // Restricted to user space, an event has `:u` after its name.
        let event = fields.nth(1)?.trim_end_matches(":u");
        let (_, figure) = EVENTS.iter().find(|(name, _)| *name == event)?;
        Some((*figure, count))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_read_and_what_was_not_is_left_out() {
        let text = "# started on Mon\n\n29,,raw_syscalls:sys_enter,944449,100.00,,\n\
                    <not supported>,,cache-misses,0,100.00,,\n";
        assert_eq!(parse(text), BTreeMap::from([(SYSCALLS, 29.0)]));
        assert_eq!(parse("7,,cache-misses:u,1,100.00,,\n"), BTreeMap::from([(CACHE_MISSES, 7.0)]));
        assert_eq!(parse("no perf"), BTreeMap::new());
    }
}
