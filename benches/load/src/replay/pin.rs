//! Keeps threads of a load where they are to be.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps this thread on a CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &cpus)?)
}
