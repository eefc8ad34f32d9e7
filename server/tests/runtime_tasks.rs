//! Tasks, lanes and slices on executors: what a panic ends, what a full lane does, who gets the core.

use std::{
    cell::{Cell, RefCell},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Command, Stdio},
    rc::Rc,
    time::{Duration, Instant},
};

use silverback_node_test_support::executors::{on_executors, options};
use silverback_runtime as runtime;
use silverback_runtime::{
    Delivery, Executor, LaneSenders, OfferRejected, Options, Slicer, Stream, catch_panic, sleep, spawn,
    spawn_background, spawn_essential,
};
use silverback_test_support::Waiting;

#[test]
fn a_task_that_panics_ends_alone() {
    let counts = on_executors(&options(1), |_: Executor<()>| async {
        let done = Rc::new(Cell::new(false));
        let neighbour = done.clone();
        spawn(async { panic!("asked to") });
        spawn_background(async { panic!("asked to") });
        spawn(async move {
            sleep(Duration::from_millis(5)).await;
            neighbour.set(true);
        });
        until(|| done.get() && runtime::counts().task_panics == 2).await;
        runtime::counts()
    });
    assert_eq!(counts[0].task_panics, 2);
}

#[test]
fn who_catches_a_panic_goes_on_and_it_is_counted() {
    let ended = on_executors(&options(1), |_: Executor<()>| async {
        let panics = catch_panic(async { panic!("asked to") });
        (panics.await, catch_panic(async { 7 }).await, runtime::counts().task_panics)
    });
    assert_eq!(ended, [(None::<()>, Some(7), 1)]);
}

/// Waits until `condition` holds; a test that waits too long fails.
async fn until(condition: impl Fn() -> bool) {
    let waiting = Waiting::begin();
    while !condition() {
        waiting.check(|| "waited too long");
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_panic_in_an_essential_task_ends_the_process() {
    const CHILD: &str = "SILVERBACK_TEST_ESSENTIAL_PANIC";
    if std::env::var_os(CHILD).is_some() {
        on_executors(&options(1), |_: Executor<()>| async {
            spawn_essential(async { panic!("asked to") });
            sleep(Duration::from_secs(20)).await;
        });
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_panic_in_an_essential_task_ends_the_process", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(runtime::tasks::PANIC_EXIT_CODE));
    let harness_went_on = String::from_utf8_lossy(&output.stdout).contains("test result");
    assert!(!harness_went_on, "the process ended where the task did");
}

#[test]
fn the_first_signal_ends_the_node_gently_and_the_second_at_once() {
    const CHILD: &str = "SILVERBACK_TEST_SIGNALS";
    if std::env::var_os(CHILD).is_some() {
        let shutdown = runtime::Shutdown::new();
        runtime::signals::request_on_signal(shutdown.clone(), Default::default()).unwrap();
        runtime::run(&options(1), &shutdown, |executor: Executor<()>| async move {
            println!("ready");
            executor.shutdown.requested().await;
            println!("ending");
            sleep(Duration::from_secs(20)).await;
        })
        .unwrap();
        return;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_first_signal_ends_the_node_gently_and_the_second_at_once", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut read_until = |wanted: &str| {
        assert!(lines.any(|line| line.unwrap().ends_with(wanted)), "{wanted} was never said");
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    };
    read_until("ready");
    // Signals closer together are one wish.
    std::thread::sleep(Duration::from_millis(700));
    read_until("ending");
    const SIGTERM_EXIT_CODE: i32 = 128 + 15;
    assert_eq!(child.wait().unwrap().code(), Some(SIGTERM_EXIT_CODE));
}

const LANE_CAPACITY: usize = 16;

#[test]
fn a_full_lane_gives_the_message_back_and_what_it_took_arrives_in_order() {
    let options = Options { lane_capacity: LANE_CAPACITY, ..options(2) };
    let outputs = on_executors(&options, |executor: Executor<u64>| async move {
        match executor.index {
            0 => fill(&executor.senders).await,
            _ => collect(executor).await,
        }
    });
    let [sent, received] = &outputs[..] else { panic!("two executors") };
    assert_eq!(sent, received);
    assert!(sent.len() > LANE_CAPACITY, "the lane took more once there was room");
}

/// Fills the lane to executor 1 until it is refused, then once more when there is room.
async fn fill(senders: &LaneSenders<u64>) -> Vec<u64> {
    let mut sent = Vec::new();
    let refused = loop {
        let next = sent.len() as u64;
        match senders.offer(1, next) {
            Ok(()) => sent.push(next),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, OfferRejected::Full(sent.len() as u64));
    assert_eq!(runtime::counts().lane_refusals, 1);
    assert!(sent.len() <= LANE_CAPACITY);
    let last = Cell::new(sent.len() as u64);
    until(|| senders.offer(1, last.get()).is_ok()).await;
    sent.push(last.get());
    sent
}

/// Looks into its lane late, and takes what comes until the sender has ended.
async fn collect(executor: Executor<u64>) -> Vec<u64> {
    sleep(Duration::from_millis(50)).await;
    let received = Rc::new(RefCell::new(Vec::new()));
    let closed = Rc::new(Cell::new(false));
    let (taken, told) = (received.clone(), closed.clone());
    executor.receivers.deliver_to(move |delivery| match delivery {
        Delivery::Messages { from, messages } => {
            assert_eq!(from, 0);
            taken.borrow_mut().extend(messages);
        }
        Delivery::Closed { from } => {
            assert_eq!(from, 0);
            told.set(true);
        }
    });
    until(|| closed.get()).await;
    // Who has ended takes nothing; its lanes end one after the other.
    until(|| executor.senders.offer(0, 7) == Err(OfferRejected::Closed(7))).await;
    received.take()
}

#[test]
fn a_lane_that_never_runs_empty_leaves_room_for_timers() {
    const MESSAGES: u64 = 200_000;
    let slept = on_executors(&options(2), |executor: Executor<u64>| async move {
        if executor.index == 0 {
            let mut next = 0;
            while next < MESSAGES {
                match executor.senders.offer(1, next) {
                    Ok(()) => next += 1,
                    Err(_) => sleep(Duration::from_micros(50)).await,
                }
            }
            return 0;
        }
        let received = Rc::new(Cell::new(0));
        let count = received.clone();
        executor.receivers.deliver_to(move |delivery| {
            if let Delivery::Messages { messages, .. } = delivery {
                count.set(count.get() + messages.count() as u64);
            }
        });
        let mut slept = 0;
        while received.get() < MESSAGES {
            sleep(Duration::from_micros(100)).await;
            slept += 1;
        }
        slept
    });
    assert!(slept[1] > 5, "{} sleeps", slept[1]);
}

/// Work that takes `total`, in slices.
async fn work(slicer: Slicer, total: Duration) {
    let mut slice = slicer.begin().await;
    let mut worked = Duration::ZERO;
    while worked < total {
        worked += spin(Duration::from_micros(20));
        slice.yield_if_needed().await;
    }
}

/// Keeps the executor busy for so long, or a little longer, as it tells: by its own CPU time, which passes only while
/// a machine that is busy otherwise lets it work.
fn spin(time: Duration) -> Duration {
    let begun = runtime::thread_cpu_time();
    let spun = || runtime::thread_cpu_time() - begun;
    while spun() < time {
        std::hint::spin_loop();
    }
    spun()
}

/// How many small messages go over a socket pair and back while four jobs of 50 ms run in the background.
async fn echoes_beside_jobs(executor: Executor<()>) -> usize {
    let (near, far) = UnixStream::pair().unwrap();
    let stream = |socket: UnixStream| Stream::new(OwnedFd::from(socket).into()).unwrap();
    let (near, far) = (stream(near), stream(far));
    spawn(async move {
        let mut byte = [0];
        while far.read(&mut byte).await.unwrap() > 0 {
            far.write_all(&byte).await.unwrap();
        }
    });
    let left = Rc::new(Cell::new(4));
    for _ in 0..left.get() {
        let (slicer, left) = (executor.slicer.clone(), left.clone());
        spawn_background(async move {
            work(slicer, Duration::from_millis(50)).await;
            left.set(left.get() - 1);
        });
    }
    let mut echoes = 0;
    while left.get() > 0 {
        near.write_all(&[1]).await.unwrap();
        near.read(&mut [0]).await.unwrap();
        echoes += 1;
    }
    echoes
}

#[test]
fn long_jobs_in_slices_let_sockets_through() {
    let echoes = on_executors(&options(1), echoes_beside_jobs).remove(0);
    // One slice and a round of the reactor take about 0.3 ms; without slices there'd be one echo in all 200 ms.
    assert!(echoes >= 40, "{echoes} echoes");
}

/// A slice of 200 µs for four turns of as much or a little more is less; one for each turn were two fifths.
const SHARE_MAX: f64 = 0.28;

/// The part of its CPU time that an executor spends on a job that never ends, beside sockets that always
/// have something to read and each time take `work` to answer.
async fn job_beside_busy_sockets(executor: Executor<()>, work: Duration) -> f64 {
    const SOCKETS: usize = 8;
    let is_over = Rc::new(Cell::new(false));
    for _ in 0..SOCKETS {
        let (near, far) = UnixStream::pair().unwrap();
        for (socket, begins) in [(near, true), (far, false)] {
            let (socket, is_over) = (Stream::new(OwnedFd::from(socket).into()).unwrap(), is_over.clone());
            spawn(async move {
                if begins {
                    socket.write_all(&[1]).await.unwrap();
                }
                while !is_over.get() && socket.read(&mut [0]).await.unwrap() > 0 {
                    spin(work);
                    socket.write_all(&[1]).await.unwrap();
                }
            });
        }
    }
    let slicer = executor.slicer.clone();
    spawn_background(async move { self::work(slicer, Duration::from_secs(3600)).await });
    // Turns end by the clock, so while other tests have the CPU the job gets more.
    let deadline = Instant::now() + Duration::from_secs(20);
    let share = loop {
        let before = (executor.slicer.total(), runtime::thread_cpu_time());
        sleep(Duration::from_millis(100)).await;
        let (job, all) = (executor.slicer.total() - before.0, runtime::thread_cpu_time() - before.1);
        let share = job.as_secs_f64() / all.as_secs_f64();
        if share < SHARE_MAX || Instant::now() > deadline {
            break share;
        }
    };
    is_over.set(true);
    share
}

#[test]
fn sockets_that_are_behind_go_before_long_jobs_but_do_not_starve_them() {
    let start = |executor| job_beside_busy_sockets(executor, Duration::from_micros(100));
    let share = on_executors(&options(1), start).remove(0);
    assert!((0.05..SHARE_MAX).contains(&share), "{share}");
}

#[test]
fn jobs_take_turns_and_one_that_is_dropped_while_it_waits_gives_its_turn_up() {
    let turns = on_executors(&options(1), |executor: Executor<()>| async move {
        let turns = Rc::new(RefCell::new(Vec::new()));
        let mut holder = executor.slicer.begin().await;
        for job in 0..3 {
            let (slicer, turns) = (executor.slicer.clone(), turns.clone());
            spawn_background(async move {
                let begun = slicer.begin();
                let mut slice = match job {
                    1 => match runtime::timeout(Duration::from_millis(1), begun).await {
                        Ok(slice) => slice,
                        Err(runtime::Elapsed) => return,
                    },
                    _ => begun.await,
                };
                for _ in 0..3 {
                    turns.borrow_mut().push(job);
                    slice.yield_now().await;
                }
            });
        }
        sleep(Duration::from_millis(20)).await;
        assert!(turns.borrow().is_empty(), "the token is taken");
        holder.yield_now().await;
        drop(holder);
        until(|| turns.borrow().len() == 6).await;
        turns.take()
    });
    assert_eq!(turns[0], [0, 2, 0, 2, 0, 2]);
}

#[test]
fn a_time_limit_ends_what_takes_longer_and_leaves_what_does_not() {
    on_executors(&options(1), |_: Executor<()>| async {
        let late = runtime::timeout(Duration::from_millis(5), sleep(Duration::from_secs(20))).await;
        assert_eq!(late, Err(runtime::Elapsed));
        let early = runtime::timeout(Duration::from_secs(20), async { 7 }).await;
        assert_eq!(early, Ok(7));
    });
}
