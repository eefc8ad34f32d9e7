//! What the simulation found, each in as few steps as show it.

use std::cell::RefCell;
use std::rc::Rc;

use futures::executor::block_on;
use silverback::routing::RoutingTable;
use silverback_host::Alone;
use silverback_model::{Epoch, Sample, SeriesId, SeriesRef, ShardId};
use silverback_storage::message::{Read, ReadReply, ReadRequest, ReadTicket, Selection, TextsWanted};
use silverback_storage::shard::restore::{Refs, Restorer};
use silverback_storage::shard::{Reads, Shard};
use silverback_storage::wal::record::{Claim, ClaimKind, Group, records};
use silverback_storage::wal::replay::Restore;
use silverback_storage::wal::{Claims, Journal, Log};

use crate::disk::{Faults, SimDisk};
use crate::durable::{Durable, Sound};
use crate::executor::{Executor, Stopped};
use crate::node::{Node, Recovery};
use crate::plan::{End, Plan};
use crate::random::Random;
use crate::trace::{Shown, Trace};
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

#[test]
fn what_was_deleted_stays_gone_and_the_rest_stays_through_checkpoints_and_crashes() {
    let deleting = |crash| Plan { deletions: 4, checkpoints: 3, parts: 12, clients: 2, ..crash };
    check(100, |crash| vec![writing(), deleting(crash), Plan { deletions: 1, ..writing() }, writing()]);
}

/// The disk's bytes after so many starts of an idle node, each of which is killed.
fn bytes_after(starts: usize) -> usize {
    let disk = SimDisk::new(Random::new(1), Trace::new(Shown::Hidden));
    for start in 0..starts {
        disk.begin_life(Faults::default());
        let mut executor = Executor::new(Random::new(start as u64), 0);
        let (host, disk) = (executor.host(), disk.clone());
        executor.host().spawn(async move {
            let node = Durable::<Sound>::start(disk, host, Recovery::Strict).await.unwrap();
            // As a node's look at itself, until half of the segment is used and the next one is made.
            if start < 4 {
                let (log, labels) = (node.log(), std::iter::once((&b"job"[..], &b"x"[..])));
                log.journal().created(SeriesRef(0), SeriesId(5), labels);
                log.flush().await.unwrap();
            }
        });
        // Its committer waits forever.
        assert_eq!(executor.run(|| false), Stopped::Deadlocked);
    }
    disk.used_bytes()
}

#[test]
fn a_thousand_starts_take_no_more_of_the_disk_than_two() {
    assert_eq!(bytes_after(1000), bytes_after(2));
}

fn make(group: &mut Group, series: SeriesRef, id: SeriesId, labels: [(&str, &str); 2]) {
    group.created(series, id, labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    group.stored(series, Sample::new(i64::from(series.0), 1.0));
}

/// A shard out of its log's groups.
fn replayed(payloads: &[Vec<u8>]) -> Rc<RefCell<Shard>> {
    let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
    let mut restorer = Restorer::new(Rc::clone(&shard), Refs::Kept, |_| true);
    for payload in payloads {
        records(payload).for_each(|record| restorer.record(record.unwrap()).unwrap());
    }
    restorer.finish().unwrap();
    shard
}

/// A crash comes before a shard has removed a cell that it gave away. Where the cell is now, its series are deleted;
/// then it comes back, empty.
#[test]
fn a_cell_that_comes_back_finds_nothing_of_what_a_crash_has_left() {
    let (id, here, there) = (SeriesId(1), ShardId(0), ShardId(1));
    let claim = |epoch, other| Claim { cell: id.cell(), epoch, kind: ClaimKind::Owned, other };
    let (mut first, mut second) = (Group::default(), Group::default());
    make(&mut first, SeriesRef(0), id, [("own", "old"), ("shared", "x")]);
    let first = first.parts().concat();
    let given = [Claims::default(), Claims::from_iter([claim(Epoch(2), here)])];
    let ownership = RoutingTable::of_claims(&given).ownership_of(here, &given[0]);
    replayed(std::slice::from_ref(&first)).borrow_mut().set_ownership(ownership, &mut second);
    second.claimed(claim(Epoch(3), there));
    let shard = replayed(&[first, second.parts().concat()]);
    assert_eq!(shard.borrow().stats().series, 0);
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
    let shard = replayed(&[first, second].map(|mut group| group.parts().concat()));
    for (name, values) in [("own", vec!["neighbour", "old"]), ("shared", vec!["x"])] {
        let wanted = TextsWanted::LabelValues(name.into()).into();
        let request = ReadRequest::Open { selection: Selection::everything(), wanted, bytes: 1000 };
        let read = Read { ticket: ReadTicket::issue(), epoch: Epoch::FIRST, request };
        let answer = block_on(Reads::new(usize::MAX).answer(Rc::clone(&shard), Alone, read)).unwrap();
        let ReadReply::Texts(found, None) = *answer else { panic!("label values are few texts") };
        assert_eq!(found.iter().collect::<Vec<_>>(), values, "{name}");
    }
}
