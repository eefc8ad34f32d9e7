//! Has a virtual machine's host back free memory before a server starts, and again before a load. The hosts of some take
//! free memory back within seconds, and then the first touch of two megabytes takes milliseconds instead of a tenth of one:
//! who came first after a pause would pay for it. It knows no load.

use std::fs;
use std::hint::black_box;
use std::io;

use super::failure::RunError;
use super::process::run_to_end;
use super::rounds::Ground;
use super::writes::RUN_MAX;

/// This program's subcommand that [takes memory](take).
pub const SUBCOMMAND: &str = "back-memory";

/// As much as a load's server takes at most, and the loader beside it, ...
const MIB_MAX: usize = 1024;
/// ... but no more than one part in so many of what is free.
const SHARE: usize = 4;

/// Touches free memory in a process that ends with that: one that went on would keep it.
pub fn back(ground: &Ground) -> Result<(), RunError> {
    let mib = mib_beside(available_kib(&fs::read_to_string("/proc/meminfo")?)?);
    let mut command = std::process::Command::new(&ground.own);
    command.args([SUBCOMMAND, &mib.to_string()]);
    run_to_end(SUBCOMMAND, &mut command, &ground.loader_cpus(), &ground.scratch, RUN_MAX).map(drop)
}

/// Touches so much memory, in this process.
pub fn take(mib: usize) {
    black_box(vec![1_u8; mib << 20]);
}

fn mib_beside(available_kib: usize) -> usize {
    MIB_MAX.min((available_kib >> 10) / SHARE)
}

/// What the kernel says could be taken without swapping.
fn available_kib(meminfo: &str) -> io::Result<usize> {
    let mut lines = meminfo.lines();
    lines
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemAvailable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_keeps_most_of_what_is_free() {
        let available = |text| available_kib(text).map(mib_beside).map_err(|error| error.kind());
        let text = "MemTotal:       24000000 kB\nMemAvailable:    2097152 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Ok(512));
        assert_eq!(available("MemAvailable:   20971520 kB\n"), Ok(MIB_MAX));
        assert_eq!(available("MemFree: 1 kB\n"), Err(io::ErrorKind::InvalidData));
    }
}
