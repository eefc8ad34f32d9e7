//! What a process has used, as the kernel tells. It knows nothing of what the process does.

use std::fs;
use std::io;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// What a process used until now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// User and system time of all its threads, ended ones too, to the nanosecond.
    pub cpu_s: f64,
    /// The system's share, by the kernel's ticks.
    pub system_s: f64,
    /// Resident memory now.
    pub resident_bytes: u64,
    /// The most resident memory so far.
    pub resident_peak_bytes: u64,
    /// Bytes that it made the disk write.
    pub disk_write_bytes: u64,
}

/// A process under measurement.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    pid: i32,
    cpu_clock: ClockId,
}

impl Process {
    /// The process of this id.
    pub fn open(pid: i32) -> io::Result<Self> {
        Ok(Self { pid, cpu_clock: clock_getcpuclockid(Pid::from_raw(pid))? })
    }

    /// What it used until now.
    pub fn usage(&self) -> io::Result<Usage> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.pid));
        let status = read("status")?;
        Ok(Usage {
            cpu_s: clock_seconds(self.cpu_clock)?,
            system_s: system_ticks(&read("stat")?) as f64 / TICKS_PER_SECOND,
            resident_bytes: field(&status, "VmRSS:") << 10,
            resident_peak_bytes: field(&status, "VmHWM:") << 10,
            // Another user's process doesn't show its I/O; the rest is still worth having.
            disk_write_bytes: read("io").map_or(0, |io| field(&io, "write_bytes:")),
        })
    }
}

/// CPU time of this process.
pub fn own_cpu_s() -> f64 {
    clock_seconds(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0.0)
}

/// CPU time of this thread.
pub fn thread_cpu_s() -> f64 {
    clock_seconds(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0.0)
}

/// Allows as many open files as the system lets this process have.
pub fn raise_file_limit() -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?)
}

/// `USER_HZ`, the same on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;

fn clock_seconds(clock: ClockId) -> io::Result<f64> {
    let time = clock_gettime(clock)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// `stime` in `/proc/PID/stat`: the 13th word after the command, which may hold anything.
fn system_ticks(stat: &str) -> u64 {
    let after_command = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_command.split_whitespace().nth(12).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// The number after `name` in a file of such lines; 0 where the kernel leaves it out.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_usage_grows_with_work() {
        let own = Process::open(std::process::id().cast_signed()).expect("this process");
        let before = own.usage().expect("this process");
        let sum: u64 = (0..20_000_000_u64).map(std::hint::black_box).sum();
        std::hint::black_box(sum);
        let after = own.usage().expect("this process");
        assert!(after.cpu_s > before.cpu_s);
        assert!(after.resident_bytes > 0 && after.resident_peak_bytes >= after.resident_bytes);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        const PID_LIMIT: i32 = 4 << 20;
        assert!(Process::open(PID_LIMIT + 1).is_err());
    }

    #[test]
    fn a_command_with_spaces_and_brackets_is_read_over() {
        assert_eq!(system_ticks("7 (a) b) S 1 1 1 0 -1 4194560 100 0 0 0 11 22 0 0 20 0 1"), 22);
    }
}
