//! What the simulation found, each in as few steps as show it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use futures::executor::block_on;
use silverback::host::Alone;
use silverback::message::{ReadReply, ReadRequest, Selection};
use silverback::model::{Epoch, Sample, SeriesId, SeriesRef, ShardId};
use silverback::shard::restore::{Refs, Restorer};
use silverback::shard::{Shard, read};
use silverback::wal::Journal;
use silverback::wal::record::{Group, records};
use silverback::wal::replay::Restore;

use crate::disk::Faults;
use crate::durable::{Durable, Sound};
use crate::plan::{End, Plan};
use crate::trace::Shown;
use crate::world::World;

/// Lives that follow each other on one disk, with a crash at each of the steps in turn.
fn check(steps: u64, lives: impl Fn(Plan) -> Vec<Plan>) {
    for seed in 0..50 * steps {
        let crash_at_step = Some(1 + seed % steps);
        let crashing = Plan { faults: Faults { crash_at_step, ..Faults::default() }, ..Plan::quiet() };
        let mut world = World::new(seed, Shown::Hidden);
        for plan in lives(crashing) {
            world.live::<Durable<Sound>>(&plan);
        }
    }
}

fn writing() -> Plan {
    Plan { parts: 4, ..Plan::quiet() }
}

#[test]
fn a_new_data_directory_outlives_the_first_acknowledgement() {
    check(1, |_| vec![writing(), writing()]);
}

#[test]
fn a_killed_process_leaves_nothing_unsynced_that_its_successor_relies_on() {
    check(60, |crash| vec![Plan { end: End::Kill, ..crash }, writing(), writing()]);
}

#[test]
fn an_empty_segment_is_used_again_without_a_moment_of_contradiction() {
    check(50, |crash| vec![Plan::quiet(), crash, writing(), writing()]);
}

fn make(group: &mut Group, series: SeriesRef, id: SeriesId, labels: [(&str, &str); 2]) {
    group.created(series, id, labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    group.stored(series, Sample::new(i64::from(series.0), 1.0));
}

/// A label that only a removed series had is in a new one too, and the removed one is made again in
/// the same group.
#[test]
fn a_series_that_is_made_again_takes_no_labels_from_its_neighbours() {
    let (old, neighbour) = (SeriesId(1), SeriesId(2));
    let (mut first, mut second) = (Group::default(), Group::default());
    make(&mut first, SeriesRef(0), old, [("own", "old"), ("shared", "x")]);
    make(&mut second, SeriesRef(1), neighbour, [("own", "neighbour"), ("shared", "x")]);
    make(&mut second, SeriesRef(2), old, [("own", "old"), ("shared", "x")]);
    second.removed(SeriesRef(0), old);
    let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let mut restorer = Restorer::new(Rc::clone(&shard), Refs::Kept, |_| true);
    for mut group in [first, second] {
        let payload = group.parts().concat();
        records(&payload).for_each(|record| restorer.record(record.unwrap()).unwrap());
    }
    restorer.finish().unwrap();
    for (name, values) in [("own", vec!["neighbour", "old"]), ("shared", vec!["x"])] {
        let all = Selection { matchers: Arc::new([]), min_ms: i64::MIN, max_ms: i64::MAX };
        let request = ReadRequest::LabelValues(name.into(), all);
        let ReadReply::Strings(found) =
            *block_on(read::answer(Rc::clone(&shard), Alone, Epoch::FIRST, request)).unwrap()
        else {
            panic!("label values are strings")
        };
        assert_eq!(found.iter().map(|value| &**value).collect::<Vec<_>>(), values, "{name}");
    }
}
