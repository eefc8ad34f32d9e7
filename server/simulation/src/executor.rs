//! One simulated thread: which task runs next is drawn, and time is a number.
//!
//! Knows nothing of disks and shards. Dropped, it drops every task where it is: a crash.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use silverback_host::Host;

use crate::random::Random;

/// Polls after which a run counts as one that never ends.
const POLLS_MAX: u64 = 20_000_000;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The thread's tasks.
pub(crate) struct Executor {
    thread: Rc<Thread>,
    tasks: Vec<Option<(Task, Waker)>>,
    ready: Arc<Ready>,
    polls: u64,
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The caller's condition holds.
    AsAsked,
    /// No task is left.
    Finished,
    /// Tasks are left, and nothing will ever wake one of them.
    Deadlocked,
    /// It went on for longer than any run should.
    Endless,
}

/// What tasks and executor share.
struct Thread {
    spawned: RefCell<Vec<Task>>,
    timers: RefCell<BTreeMap<(u64, u64), Waker>>,
    timers_made: Cell<u64>,
    now_us: Cell<u64>,
    random: RefCell<Random>,
}

#[derive(Default)]
struct Ready {
    tasks: Mutex<Vec<usize>>,
}

impl Ready {
    fn push(&self, task: usize) {
        let mut tasks = self.tasks.lock().unwrap();
        if !tasks.contains(&task) {
            tasks.push(task);
        }
    }

    fn take(&self, random: &mut Random) -> Option<usize> {
        let mut tasks = self.tasks.lock().unwrap();
        (!tasks.is_empty()).then(|| random.below(tasks.len())).map(|at| tasks.swap_remove(at))
    }
}

struct TaskWaker {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.task);
    }
}

impl Executor {
    pub(crate) fn new(random: Random, now_us: u64) -> Self {
        let thread = Thread {
            spawned: RefCell::default(),
            timers: RefCell::default(),
            timers_made: Cell::new(0),
            now_us: Cell::new(now_us),
            random: RefCell::new(random),
        };
        Self { thread: Rc::new(thread), tasks: Vec::new(), ready: Arc::default(), polls: 0 }
    }

    pub(crate) fn host(&self) -> SimHost {
        SimHost { thread: Rc::clone(&self.thread) }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.thread.now_us.get()
    }

    /// Runs tasks until `stop` holds or nothing is left to do.
    pub(crate) fn run(&mut self, stop: impl Fn() -> bool) -> Stopped {
        loop {
            self.adopt_spawned();
            if stop() {
                return Stopped::AsAsked;
            }
            self.polls += 1;
            if self.polls > POLLS_MAX {
                return Stopped::Endless;
            }
            self.thread.now_us.set(self.thread.now_us.get() + 1);
            self.thread.fire_timers();
            let next = self.ready.take(&mut self.thread.random.borrow_mut());
            match next {
                Some(task) => self.poll(task),
                None if self.thread.advance_to_timer() => {}
                None if self.tasks.iter().all(Option::is_none) => return Stopped::Finished,
                None => return Stopped::Deadlocked,
            }
        }
    }

    fn adopt_spawned(&mut self) {
        for task in self.thread.spawned.take() {
            let at = self.tasks.len();
            let waker = Waker::from(Arc::new(TaskWaker { task: at, ready: Arc::clone(&self.ready) }));
            self.tasks.push(Some((task, waker)));
            self.ready.push(at);
        }
    }

    fn poll(&mut self, at: usize) {
        if let Some((task, waker)) = &mut self.tasks[at]
            && task.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
        {
            self.tasks[at] = None;
        }
    }
}

/// Tasks hold the thread and the thread holds tasks that never began: they must not keep each other.
impl Drop for Executor {
    fn drop(&mut self) {
        self.tasks.clear();
        self.thread.spawned.take();
        self.thread.timers.take();
    }
}

impl Thread {
    fn fire_timers(&self) {
        let mut timers = self.timers.borrow_mut();
        while let Some(timer) = timers.first_entry()
            && timer.key().0 <= self.now_us.get()
        {
            timer.remove().wake();
        }
    }

    /// Nothing else is to be done: time moves to the next timer, where there is one.
    fn advance_to_timer(&self) -> bool {
        let next = self.timers.borrow().first_key_value().map(|((at_us, _), _)| *at_us);
        if let Some(at_us) = next {
            self.now_us.set(at_us.max(self.now_us.get()));
        }
        next.is_some()
    }
}

/// The thread as the code under test sees it.
#[derive(Clone)]
pub(crate) struct SimHost {
    thread: Rc<Thread>,
}

impl SimHost {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.thread.spawned.borrow_mut().push(Box::pin(task));
    }

    /// Lets other tasks run up to `most` times, as drawn.
    pub(crate) async fn yield_up_to(&self, most: usize) {
        let times = self.thread.random.borrow_mut().below(most + 1);
        yield_now(times).await;
    }
}

/// Goes to the back of the queue so many times.
pub(crate) async fn yield_now(mut times: usize) {
    poll_fn(|context| match times {
        0 => Poll::Ready(()),
        _ => {
            times -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

impl Host for SimHost {
    async fn yield_if_needed(&self) {
        let (gives_way, sleeps, most_us) = {
            let mut random = self.thread.random.borrow_mut();
            (random.one_in(4), random.one_in(8), random.by_magnitude(1 << 14) as u64)
        };
        // A spent slice can take long: much happens in the middle of a scan.
        if sleeps {
            self.sleep(Duration::from_micros(most_us)).await;
        } else if gives_way {
            yield_now(1).await;
        }
    }

    fn release_slice(&self) {}

    fn shorten_slices(&self) -> impl Sized + 'static {}

    async fn yield_now(&self) {
        self.yield_up_to(2).await;
    }

    async fn sleep(&self, time: Duration) {
        let until_us = self.thread.now_us.get() + time.as_micros() as u64;
        poll_fn(|context| {
            if self.thread.now_us.get() >= until_us {
                return Poll::Ready(());
            }
            let number = self.thread.timers_made.get();
            self.thread.timers_made.set(number + 1);
            self.thread.timers.borrow_mut().insert((until_us, number), context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn spawn_essential(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn(task);
    }

    fn spawn_background<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        self.spawn(job(self.clone()));
    }

    fn spawn_foreground<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce(Self) -> F + 'static) {
        self.spawn(job(self.clone()));
    }

    /// Whatever is done between two looks may take its time.
    fn monotonic_us(&self) -> u64 {
        let mut random = self.thread.random.borrow_mut();
        let took_us = if random.one_in(4) { random.by_magnitude(1 << 12) as u64 } else { 0 };
        self.thread.now_us.set(self.thread.now_us.get() + took_us);
        self.thread.now_us.get()
    }
}

#[test]
fn virtual_time_goes_where_the_next_timer_is() {
    let mut executor = Executor::new(Random::new(1), 0);
    let order: Rc<RefCell<Vec<u64>>> = Rc::default();
    for seconds in [30, 10, 20] {
        let (host, order) = (executor.host(), Rc::clone(&order));
        executor.host().spawn(async move {
            host.sleep(Duration::from_secs(seconds)).await;
            order.borrow_mut().push(seconds);
        });
    }
    assert_eq!(executor.run(|| false), Stopped::Finished);
    assert_eq!(order.take(), [10, 20, 30]);
    assert!((30_000_000..30_001_000).contains(&executor.now_us()));
}

#[test]
fn a_task_that_nothing_wakes_is_a_deadlock() {
    let mut executor = Executor::new(Random::new(1), 0);
    executor.host().spawn(std::future::pending());
    assert_eq!(executor.run(|| false), Stopped::Deadlocked);
}

#[test]
fn the_order_of_tasks_is_the_seed_s() {
    let order_of = |seed| {
        let mut executor = Executor::new(Random::new(seed), 0);
        let order: Rc<RefCell<Vec<usize>>> = Rc::default();
        for task in 0..8 {
            let order = Rc::clone(&order);
            executor.host().spawn(async move {
                yield_now(2).await;
                order.borrow_mut().push(task);
            });
        }
        assert_eq!(executor.run(|| false), Stopped::Finished);
        order.take()
    };
    assert_eq!(order_of(7), order_of(7));
    assert!((0..20).any(|seed| order_of(seed) != order_of(7)));
}
