//! `silverback-bench runtime-soak`: soaks the runtime under a CPU quota. Two executors play ping-pong over
//! lanes, echo over a socket and run background slices, while a plain thread watches that each of them
//! goes on.
//!
//! Exit code 0: no stall beyond what the quota explains. 1: a stall or a hang. 3: a hang with
//! `--glommio-defaults`, where one is expected: glommio's preemption as shipped parks an executor
//! with runnable tasks once a throttled process misses its timer.
mod cgroup;
mod load;

use std::{
    process::ExitCode,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use clap::Args;
use silverback::placement::Topology;
use silverback_runtime::{Options, Preemption, Shutdown};

use cgroup::{Quota, QuotaGroup};
use load::Progress;

/// No progress for this long is no stall but a hang.
const HANG: Duration = Duration::from_secs(15);
/// How often the watcher looks.
const LOOK: Duration = Duration::from_millis(5);
const REPORT: Duration = Duration::from_secs(10);

const EXIT_STALLED: u8 = 1;
const EXIT_HUNG_AS_EXPECTED: u8 = 3;

/// Soak the node's runtime under a CPU quota (as root), and watch for stalls
#[derive(Debug, Args)]
pub(crate) struct SoakArgs {
    /// How long to soak.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// With glommio's own preemption and without the pinger.
    #[arg(long)]
    glommio_defaults: bool,
    /// CPU time and period in ms, as `100/600`; `none` for no quota.
    #[arg(long, default_value = "100/600")]
    quota: Quota,
    /// How long an executor looks for work before it sleeps, in µs.
    #[arg(long, default_value_t = 20)]
    spin_us: u64,
}

/// Soaks, and judges.
pub(crate) fn run(arguments: &SoakArgs) -> ExitCode {
    let group = QuotaGroup::create(arguments.quota).expect("a cgroup with a CPU quota can be made (as root)");
    let progress = Arc::new(Progress::default());
    let shutdown = Shutdown::new();
    let load = std::thread::spawn({
        let (progress, shutdown, enter) = (progress.clone(), shutdown.clone(), group.entrance());
        let options = options(arguments);
        move || {
            // This thread and those that it starts: the watcher stays outside and is never throttled.
            enter.enter().expect("a thread can be moved into the cgroup");
            load::run_load(&options, &shutdown, progress)
        }
    });
    let verdict = watch(arguments, &progress, &group);
    if verdict == Verdict::Hung {
        // Its threads end with the process alone.
        println!("HUNG: no progress for {HANG:?}");
    } else {
        shutdown.request();
        load.join().expect("the load doesn't panic").expect("the executors run");
    }
    drop(group);
    match (verdict, arguments.glommio_defaults) {
        (Verdict::Steady, _) => ExitCode::SUCCESS,
        (Verdict::Hung, true) => ExitCode::from(EXIT_HUNG_AS_EXPECTED),
        (Verdict::Hung, false) | (Verdict::Stalled, _) => ExitCode::from(EXIT_STALLED),
    }
}

fn options(arguments: &SoakArgs) -> Options {
    let cores = Topology::of_this_process().expect("the CPUs are known").cores;
    let cpus = (0..2).map(|executor| cores[executor % cores.len()].cpus[0].0).collect();
    let preemption = if arguments.glommio_defaults { Preemption::GlommioDefault } else { Preemption::Off };
    let spin_before_park = Duration::from_micros(arguments.spin_us);
    Options { preemption, spin_before_park, ..Options::on_cpus(cpus) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Steady,
    Stalled,
    Hung,
}

/// The longest stall that the quota explains. A throttled thread waits for the next period; when the
/// other threads have used that one up before it had its turn, for one more; and the third is for
/// what else runs on the machine.
fn stall_limit(quota: Quota) -> Duration {
    quota.period().map_or(Duration::from_secs(1), |period| period * 3)
}

/// One kind of progress, as the watcher sees it.
struct Gauge {
    count: u64,
    changed: Instant,
    worst: Duration,
}

fn watch(arguments: &SoakArgs, progress: &Progress, group: &QuotaGroup) -> Verdict {
    let begun = Instant::now();
    let limit = stall_limit(arguments.quota);
    let mut reported = begun;
    let mut gauges = Progress::NAMES.map(|_| Gauge { count: 0, changed: begun, worst: Duration::ZERO });
    loop {
        std::thread::sleep(LOOK);
        for (gauge, count) in gauges.iter_mut().zip(progress.counts()) {
            gauge.worst = gauge.worst.max(gauge.changed.elapsed());
            if gauge.count != count.load(Ordering::Relaxed) {
                (gauge.count, gauge.changed) = (count.load(Ordering::Relaxed), Instant::now());
            }
        }
        let worst = gauges.iter().map(|gauge| gauge.worst).max().unwrap_or_default();
        let is_hung = worst >= HANG;
        // A stall at the end is watched until it is over or a hang.
        let is_stalled = gauges.iter().any(|gauge| gauge.changed.elapsed() > limit);
        let is_over = begun.elapsed() >= Duration::from_secs(arguments.seconds) && !is_stalled;
        if reported.elapsed() >= REPORT || is_over || is_hung {
            reported = Instant::now();
            report(begun, &gauges, group);
        }
        if is_hung {
            return Verdict::Hung;
        }
        if is_over {
            let verdict = if worst > limit { Verdict::Stalled } else { Verdict::Steady };
            println!("{verdict:?}: the worst stall took {worst:?}, the quota explains {limit:?}");
            return verdict;
        }
    }
}

fn report(begun: Instant, gauges: &[Gauge], group: &QuotaGroup) {
    let mut line = format!("{:>4} s", begun.elapsed().as_secs());
    for (name, gauge) in Progress::NAMES.iter().zip(gauges) {
        line += &format!("  {name} {} (worst {} ms)", gauge.count, gauge.worst.as_millis());
    }
    println!("{line}  {}", group.throttling());
}
