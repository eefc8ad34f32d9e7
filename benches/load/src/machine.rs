//! The machine that a load ran on: a number without it says little.

use std::fs;

use serde::{Deserialize, Serialize};

/// As far as the kernel tells; what it doesn't is empty or 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn look() -> Self {
        // A system without these files is a machine without a name, not a failed run.
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name").to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kib(field(&read("/proc/meminfo"), "MemTotal")) << 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// What is after `name:`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(name)?.trim_start().strip_prefix(':');
    text.lines().find_map(value).map_or("", str::trim)
}

fn kib(text: &str) -> u64 {
    text.trim_end_matches(" kB").parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_what_stands_behind_its_name() {
        let text = "model\t\t: 1\nmodel name\t: EPYC: 2.6 GHz\nMemTotal:       16 kB\n";
        assert_eq!(field(text, "model name"), "EPYC: 2.6 GHz");
        assert_eq!((kib(field(text, "MemTotal")), kib(field(text, "SwapTotal"))), (16, 0));
    }

    #[test]
    fn this_machine_has_cpus() {
        assert!(Machine::look().cpus > 0);
    }
}
