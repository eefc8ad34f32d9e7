//! The sockets' turn: how long they are looked after before the reactor is polled again, and the line of
//! those who wait for a place in it: to read, to send what is long, or to go on with what was read.
//!
//! As nothing preempts, sockets that always have something to read, or room for more of a long answer, would
//! keep the executor from its disks, timers and lanes; and one that never runs dry would keep the others out.
//! So all this takes turns with the reactor, by the clock, and where there is more to do than a turn has time
//! for, each waits in one line: whoever has had a place goes to its end, and whoever comes later overtakes nobody.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use silverback_host::waiters::KeptWaker;

/// How long after the reactor was polled sockets may be looked after, read and written without it. A round of
/// the reactor costs some 10 µs, so a shorter turn is paid for in CPU; a longer one in the time that a
/// completed write waits to be seen.
const TURN: Duration = Duration::from_micros(200);

/// Places that are granted at once at least, whatever they cost: what is read together is committed
/// together.
const GRANTS_MIN: usize = 4;
const GRANTS_MAX: usize = 256;
/// What a grant is expected to take before any was measured.
const GRANT_COST_BEGIN: Duration = Duration::from_micros(10);
/// How much the last measure weighs: one part in so many.
const COST_WEIGHT: u32 = 4;

/// Where a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TurnState {
    #[default]
    Out,
    InLine,
    /// It may go on once, whenever it is polled.
    Granted,
}

/// What one connection waits in line with.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Cell<TurnState>,
    waker: KeptWaker,
}

impl Slot {
    /// Keeps the waker of the task that is to be woken when it is this place's turn.
    pub(super) fn keep(&self, cx: &Context<'_>) {
        self.waker.keep(cx);
    }

    /// Wakes that task now, whose turn or not.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Whether a task waits with it.
    pub(super) fn is_kept(&self) -> bool {
        self.waker.is_kept()
    }

    /// Gives the place up for good.
    pub(super) fn leave(&self) {
        self.state.set(TurnState::Out);
        self.waker.forget();
    }
}

/// The turn of one executor's sockets, and those who wait for it.
#[derive(Debug)]
pub(super) struct Turns {
    /// When the reactor was last known to be polled.
    polled: Cell<Instant>,
    line: RefCell<VecDeque<Rc<Slot>>>,
    /// Granted places that have not been used yet.
    granted: Cell<usize>,
    /// What a grant takes with all that follows from it, as it was of late.
    cost: Cell<Duration>,
    is_serving: Cell<bool>,
    resumes: KeptWaker,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            polled: Cell::new(Instant::now()),
            line: RefCell::default(),
            granted: Cell::default(),
            cost: Cell::new(GRANT_COST_BEGIN),
            is_serving: Cell::default(),
            resumes: KeptWaker::default(),
        }
    }
}

impl Turns {
    /// The reactor has been polled.
    pub(super) fn begin(&self) {
        self.polled.set(Instant::now());
    }

    /// Whether the turn lasts.
    pub(super) fn lasts(&self) -> bool {
        self.polled.get().elapsed() < TURN
    }

    /// Whether more waits than there was time for in the last turn.
    pub(super) fn is_behind(&self) -> bool {
        !self.line.borrow().is_empty()
    }

    /// Ready where `place` may go on now: its turn has come, or nobody waits and the turn lasts. Else it is
    /// in line, and its task is woken when its turn comes.
    pub(super) fn poll(&self, place: &Rc<Slot>, cx: &Context<'_>) -> Poll<()> {
        match place.state.get() {
            TurnState::Granted => {
                place.state.set(TurnState::Out);
                self.granted.set(self.granted.get().saturating_sub(1));
                Poll::Ready(())
            }
            TurnState::Out if self.granted.get() == 0 && !self.is_behind() && self.lasts() => Poll::Ready(()),
            TurnState::Out => {
                place.keep(cx);
                self.join(place);
                Poll::Pending
            }
            TurnState::InLine => {
                place.keep(cx);
                Poll::Pending
            }
        }
    }

    /// Puts a place at the end of the line, if it isn't there and has no turn.
    pub(super) fn join(&self, place: &Rc<Slot>) {
        match place.state.get() {
            TurnState::Out => {
                place.state.set(TurnState::InLine);
                self.line.borrow_mut().push_back(Rc::clone(place));
                if !self.is_serving.get() {
                    self.resumes.wake();
                }
            }
            TurnState::InLine => {}
            // Its task was woken, and had no use for it then.
            TurnState::Granted => place.waker.wake(),
        }
    }

    /// Grants places from the head of the line, as many as the rest of the turn has time for, and wakes
    /// their tasks. Returns how many.
    fn grant(&self, now: Instant) -> usize {
        let left = TURN.saturating_sub(now.saturating_duration_since(self.polled.get()));
        let room = left.as_nanos() / self.cost.get().as_nanos().max(1);
        let room = (room as usize).clamp(GRANTS_MIN, GRANTS_MAX);
        let mut granted = 0;
        while granted < room {
            let Some(place) = self.line.borrow_mut().pop_front() else { break };
            // Else it was given up meanwhile.
            if place.state.get() == TurnState::InLine {
                place.state.set(TurnState::Granted);
                place.waker.wake();
                granted += 1;
            }
        }
        self.granted.set(granted);
        granted
    }

    /// Notes what a number of grants took.
    fn measure(&self, granted: usize, took: Duration) {
        if let Some(each) = took.checked_div(u32::try_from(granted).unwrap_or(u32::MAX)) {
            self.cost.set((self.cost.get() * (COST_WEIGHT - 1) + each) / COST_WEIGHT);
        }
    }

    /// Waits until somebody is in line for whom no turn is being served.
    pub(super) async fn are_wanted(&self) {
        poll_fn(|cx| match self.is_behind() && !self.is_serving.get() {
            true => Poll::Ready(()),
            false => {
                self.resumes.keep(cx);
                Poll::Pending
            }
        })
        .await;
    }

    /// Serves the line while the turn lasts, unless that is being done already. `look` puts those who have
    /// come meanwhile into it, and returns how many; `pass` waits until the tasks that were woken have run.
    pub(super) async fn serve(&self, mut look: impl FnMut() -> usize, pass: impl AsyncFn()) {
        if self.is_serving.replace(true) {
            return;
        }
        let mut now = Instant::now();
        loop {
            let mut granted = self.grant(now);
            if granted == 0 {
                if look() == 0 {
                    break;
                }
                granted = self.grant(now);
            }
            pass().await;
            let began = std::mem::replace(&mut now, Instant::now());
            self.measure(granted, now - began);
            // Whoever was woken and had no use for it doesn't keep others from it.
            self.granted.set(0);
            if now.saturating_duration_since(self.polled.get()) >= TURN {
                break;
            }
        }
        self.is_serving.set(false);
        if self.is_behind() {
            self.resumes.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures::executor::block_on;

    use super::*;
    use silverback_test_support::waking::check_one_waker_is_kept;

    struct Scene {
        turns: Turns,
        places: Vec<Rc<Slot>>,
    }

    impl Scene {
        fn new(places: usize) -> Self {
            Self { turns: Turns::default(), places: (0..places).map(|_| Rc::default()).collect() }
        }

        fn reads(&self, place: usize) -> bool {
            self.turns.poll(&self.places[place], &Context::from_waker(Waker::noop())).is_ready()
        }

        fn end_turn(&self) {
            self.turns.polled.set(Instant::now() - TURN);
        }
    }

    #[test]
    fn alone_one_reads_as_long_as_the_turn_lasts() {
        let scene = Scene::new(1);
        scene.turns.polled.set(Instant::now() + Duration::from_secs(60));
        assert!((0..1000).all(|_| scene.reads(0)));
        scene.end_turn();
        assert!(!scene.reads(0));
        assert!(scene.turns.is_behind());
    }

    #[test]
    fn who_has_read_goes_to_the_end_of_the_line() {
        let (scene, order) = (Scene::new(3), RefCell::new(Vec::new()));
        scene.end_turn();
        assert!((0..3).all(|place| !scene.reads(place)));
        for _ in 0..4 {
            // None of them ever runs dry.
            let pass = async || {
                for place in 0..3 {
                    while scene.reads(place) {
                        order.borrow_mut().push(place);
                    }
                }
            };
            block_on(scene.turns.serve(|| 0, pass));
        }
        assert_eq!(order.take(), [0, 1, 2].repeat(4));
    }

    #[test]
    fn nobody_overtakes_those_in_line() {
        let scene = Scene::new(2);
        scene.end_turn();
        assert!(!scene.reads(0));
        scene.turns.begin();
        assert!(!scene.reads(1), "a new turn, and another one waits");
    }

    #[test]
    fn a_place_that_was_given_up_is_passed_over() {
        let scene = Scene::new(2);
        scene.end_turn();
        assert!(!scene.reads(0) && !scene.reads(1));
        scene.places[0].leave();
        block_on(scene.turns.serve(|| 0, async || {}));
        assert!(scene.reads(1));
        assert!(!scene.turns.is_behind());
    }

    #[test]
    fn one_who_waits_in_line_is_kept_once() {
        let scene = Scene::new(1);
        scene.end_turn();
        check_one_waker_is_kept(poll_fn(|cx| scene.turns.poll(&scene.places[0], cx)));
    }
}
