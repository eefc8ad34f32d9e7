//! Counts the atomic read-modify-writes that a processor executes between two marks: a process of this
//! program is watched instruction by instruction. It knows nothing of what is executed.
//!
//! On x86-64 alone: there an atomic read-modify-write is an instruction with the lock prefix, or an
//! exchange with memory. Where a process may not be watched, nothing is counted.

use std::error::Error;
use std::process::{Command, Stdio};

use super::super::Job;

/// What a process says before it waits to be watched.
pub(super) const READY: &str = "ready";

/// Runs a job in a process of its own and counts between its marks. None where that can't be done.
pub(super) fn count(job: &Job) -> Result<Option<u64>, Box<dyn Error>> {
    let mut process = Command::new(std::env::current_exe()?)
        .args(["founding", "--side", &serde_json::to_string(job)?])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let counted = watch::count(&mut process);
    // It has been released after the second mark, or is of no use.
    let _ = process.kill();
    process.wait()?;
    Ok(counted?)
}

/// A system call that nothing else between the marks makes.
pub(super) fn mark() {
    std::hint::black_box(nix::unistd::getppid());
}

#[cfg(not(target_arch = "x86_64"))]
mod watch {
    use std::io;
    use std::process::Child;

    pub fn count(_process: &mut Child) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

#[cfg(target_arch = "x86_64")]
mod watch {
    use std::io::{self, BufRead, BufReader, Write};
    use std::process::Child;

    use nix::errno::Errno;
    use nix::sys::ptrace::{self, Options};
    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::Pid;

    use super::READY;

    /// More than any request takes; a process that never comes to its marks is given up.
    const STEPS_MAX: u64 = 50_000_000;
    const SYSCALL: [u8; 2] = [0x0f, 0x05];

    pub(super) fn count(process: &mut Child) -> io::Result<Option<u64>> {
        let mut line = String::new();
        let stdout = process.stdout.as_mut().expect("it was piped");
        BufReader::new(stdout).read_line(&mut line)?;
        if line.trim() != READY {
            return Err(io::Error::other("the process ended before it was ready"));
        }
        let pid = Pid::from_raw(process.id().cast_signed());
        match ptrace::seize(pid, Options::empty()) {
            Err(Errno::EPERM | Errno::ENOSYS) => return Ok(None),
            seized => seized?,
        }
        ptrace::interrupt(pid)?;
        waitpid(pid, Some(WaitPidFlag::__WALL))?;
        let mut stdin = process.stdin.take().expect("it was piped");
        stdin.write_all(b"\n")?;
        stdin.flush()?;
        between_marks(pid).map(Some)
    }

    fn between_marks(pid: Pid) -> io::Result<u64> {
        let (mut marks, mut atomics) = (0, 0);
        for _ in 0..STEPS_MAX {
            let registers = ptrace::getregs(pid)?;
            let code = ptrace::read(pid, registers.rip as ptrace::AddressType)?.to_le_bytes();
            if code.starts_with(&SYSCALL) && registers.rax == nix::libc::SYS_getppid as u64 {
                marks += 1;
                if marks == 2 {
                    ptrace::detach(pid, None)?;
                    return Ok(atomics);
                }
            }
            atomics += u64::from(marks == 1 && is_atomic(&code));
            step(pid)?;
        }
        Err(io::Error::other("the process never came to its second mark"))
    }

    /// Lets it execute one instruction.
    fn step(pid: Pid) -> io::Result<()> {
        let mut signal = None;
        loop {
            ptrace::step(pid, signal)?;
            match waitpid(pid, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => return Ok(()),
                WaitStatus::PtraceEvent(..) => signal = None,
                WaitStatus::Stopped(_, other) => signal = Some(other),
                ended => {
                    return Err(io::Error::other(format!("the process ended between its marks: {ended:?}")));
                }
            }
        }
    }

    /// Whether an instruction that begins like this is an atomic read-modify-write.
    fn is_atomic(code: &[u8]) -> bool {
        const LOCK: u8 = 0xf0;
        const PREFIXES: [u8; 10] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3];
        const REX: std::ops::RangeInclusive<u8> = 0x40..=0x4f;
        const EXCHANGES: [u8; 2] = [0x86, 0x87];
        let mut rest = code;
        while let [first, after @ ..] = rest
            && (PREFIXES.contains(first) || *first == LOCK)
        {
            if *first == LOCK {
                return true;
            }
            rest = after;
        }
        if let [first, after @ ..] = rest
            && REX.contains(first)
        {
            rest = after;
        }
        // Of two registers it isn't an access to memory.
        matches!(rest, [opcode, operands, ..] if EXCHANGES.contains(opcode) && operands >> 6 != 3)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn locked_instructions_and_exchanges_with_memory_are_atomic() {
            // lock incq (%rdi); lock xaddq with a REX prefix; data16 lock; xchg (%rdi),%rax
            for code in [&[0xf0, 0x48, 0xff, 0x07][..], &[0x66, 0xf0, 0x0f, 0xc1, 0x07], &[0x48, 0x87, 0x07]]
            {
                assert!(is_atomic(code), "{code:x?}");
            }
            // incq (%rdi); xchg %rax,%rbx; rep movsb; nothing
            for code in [&[0x48, 0xff, 0x07][..], &[0x48, 0x87, 0xd8], &[0xf3, 0xa4], &[]] {
                assert!(!is_atomic(code), "{code:x?}");
            }
        }
    }
}
