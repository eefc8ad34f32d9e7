//! Keeps threads of a load where they are to be.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps this thread on a CPU.
pub fn pin_to(cpu: usize) -> io::Result<()> {
    pin_to_any(&[cpu])
}

/// Keeps this thread, and those that it starts from now on, on some CPUs.
pub fn pin_to_any(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}
