//! How long a process waits for a CPU that others have: what a machine with much else to do adds to every latency, whatever
//! the process does itself.

use std::fs;

/// What the kernel has counted of a process' threads until now.
pub(crate) struct CpuTurns {
    id: u32,
    before: Turns,
}

/// Nanoseconds of all threads.
#[derive(Clone, Copy, Default)]
struct Turns {
    running: u64,
    waiting: u64,
}

impl CpuTurns {
    /// From now on.
    pub(crate) fn of(id: u32) -> Self {
        Self { id, before: Turns::of(id) }
    }

    /// How many times as long as they ran its threads have wanted to, since the beginning. One where the kernel doesn't
    /// say.
    pub(crate) fn stretch(&self) -> f64 {
        let (after, before) = (Turns::of(self.id), self.before);
        let running = after.running.saturating_sub(before.running);
        let waiting = after.waiting.saturating_sub(before.waiting);
        if running == 0 { 1.0 } else { (running + waiting) as f64 / running as f64 }
    }
}

impl Turns {
    /// By `/proc/PID/task/*/schedstat`: time on a CPU, and time in a queue for one.
    fn of(id: u32) -> Self {
        let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return Self::default() };
        let of_thread = |thread: fs::DirEntry| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let mut numbers = text.split_whitespace().map(str::parse::<u64>);
            Some(Self { running: numbers.next()?.ok()?, waiting: numbers.next()?.ok()? })
        };
        let each = threads.flatten().filter_map(of_thread);
        each.fold(Self::default(), |sum, one| Self {
            running: sum.running + one.running,
            waiting: sum.waiting + one.waiting,
        })
    }
}
