//! What the kernel says about this process, under the names that every Prometheus client uses.
//!
//! A number that can't be read is left out: a metric that is missing is seen, a zero is believed.
#![expect(clippy::disallowed_methods, reason = "/proc answers from memory")]

use std::path::Path;

use super::{Family, MetricKind};

/// Where the kernel says it.
pub const PROC: &str = "/proc";

/// The kernel's unit in `stat`: a constant of its interface, whatever its own tick is.
const TICKS_PER_SECOND: f64 = 100.0;

/// The process' families, read below `proc_root`.
pub fn process_families(proc_root: &Path) -> Vec<Family> {
    let own = proc_root.join("self");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let stat = read(&own.join("stat"));
    let status = read(&own.join("status"));
    let system_stat = read(&proc_root.join("stat"));
    let told = |name, kind, help, value: Option<f64>| Some(Family::single(name, kind, help, value?));
    let gauge = |name, help, value| told(name, MetricKind::Gauge, help, value);
    let began = "When the process began, in seconds since the Unix epoch.";
    let cpu = "Time on processors, user and system.";
    let families = [
        told("process_cpu_seconds_total", MetricKind::Counter, cpu, cpu_seconds(&stat)),
        gauge("process_start_time_seconds", began, start_time_seconds(&stat, &system_stat)),
        gauge("process_resident_memory_bytes", "Memory that is resident.", status_bytes(&status, "VmRSS:")),
        gauge("process_virtual_memory_bytes", "Memory that is mapped.", status_bytes(&status, "VmSize:")),
        gauge("process_open_fds", "File descriptors that are open.", open_fds(&own.join("fd"))),
        gauge("process_max_fds", "File descriptors that may be open.", max_fds(&read(&own.join("limits")))),
    ];
    families.into_iter().flatten().collect()
}

/// The process' resident memory. Not by `statm`: that counts pages, and those of arm64 kernels have 4,
/// 16 or 64 KiB.
pub fn resident_bytes(proc_root: &Path) -> Option<u64> {
    let status = std::fs::read_to_string(proc_root.join("self/status")).ok()?;
    status_kib(&status, "VmRSS:").map(|kib| kib << 10)
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_time_seconds(stat: &str, system_stat: &str) -> Option<f64> {
    let boot = system_stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

/// Field `number` as proc(5) counts them, from 1. The second is the command in parentheses, which
/// may hold spaces and parentheses of its own.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    let (_, after_command) = stat.rsplit_once(')')?;
    after_command.split_whitespace().nth(number - 3)?.parse().ok()
}

fn status_bytes(status: &str, key: &str) -> Option<f64> {
    status_kib(status, key).map(|kib| kib as f64 * 1024.0)
}

fn status_kib(status: &str, key: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(key))?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn open_fds(fd_dir: &Path) -> Option<f64> {
    Some(std::fs::read_dir(fd_dir).ok()?.count() as f64)
}

fn max_fds(limits: &str) -> Option<f64> {
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(f64::INFINITY) } else { soft.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (silver (back) x) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 9 0 1200 999 7 1";

    #[test]
    fn fields_are_counted_after_the_command_whatever_it_is_called() {
        assert_eq!(cpu_seconds(STAT), Some(4.0));
        assert_eq!(start_time_seconds(STAT, "cpu 1\nbtime 1000\n"), Some(1012.0));
    }

    #[test]
    fn memory_is_told_in_bytes() {
        let status = "Name:\tx\nVmSize:\t    2048 kB\nVmRSS:\t  12 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(12288.0));
        assert_eq!(status_bytes(status, "VmSize:"), Some(2097152.0));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
    }

    #[test]
    fn resident_memory_does_not_depend_on_the_size_of_pages() {
        let proc_root = std::env::temp_dir().join(format!("silverback-proc-{}", std::process::id()));
        std::fs::create_dir_all(proc_root.join("self")).unwrap();
        // As a kernel with pages of 64 KiB reports them.
        std::fs::write(proc_root.join("self/statm"), "48 3 1 1 0 2 0\n").unwrap();
        std::fs::write(proc_root.join("self/status"), "VmRSS:\t     192 kB\n").unwrap();
        let resident = resident_bytes(&proc_root);
        std::fs::remove_dir_all(&proc_root).unwrap();
        assert_eq!(resident, Some(192 << 10));
        assert_eq!(resident_bytes(Path::new("/nonexistent")), None);
    }

    #[test]
    fn the_soft_limit_of_files_is_read() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files    1024   524288   files\n";
        assert_eq!(max_fds(limits), Some(1024.0));
        assert_eq!(max_fds("Max open files  unlimited  unlimited  files"), Some(f64::INFINITY));
        assert_eq!(max_fds(""), None);
    }

    #[test]
    fn this_process_has_them_all() {
        let families = process_families(Path::new(PROC));
        assert_eq!(families.len(), 6);
        assert!(
            families
                .iter()
                .filter(|f| f.name != "process_cpu_seconds_total")
                .all(|f| f.samples[0].value > 0.0)
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        assert!(process_families(Path::new("/nonexistent")).is_empty());
        assert_eq!(cpu_seconds("42 (x"), None);
    }
}
