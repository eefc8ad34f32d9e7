//! The disk as its users see it.

use super::*;
use crate::executor::{Executor, Stopped};
use crate::trace::Shown;

/// Runs a task over a disk of this seed to its end or to the crash.
fn run<F: Future<Output = ()> + 'static>(
    seed: u64,
    faults: Faults,
    task: impl FnOnce(SimDisk) -> F,
) -> (SimDisk, Trace) {
    let trace = Trace::new(Shown::Hidden);
    let disk = SimDisk::new(Random::new(seed), trace.clone());
    disk.begin_life(faults);
    let mut executor = Executor::new(Random::new(seed), 0);
    executor.host().spawn(task(disk.clone()));
    let crashed = disk.clone();
    let stopped = executor.run(move || crashed.is_crashed());
    assert!(matches!(stopped, Stopped::Finished | Stopped::AsAsked));
    (disk, trace)
}

async fn write_file(disk: &SimDisk, path: &str, byte: u8) -> Result<(), DiskError> {
    let file = disk.create(path).await?;
    file.write_at(0, &[&[byte; 100], &[byte; 9000]]).await?;
    file.sync_data().await?;
    disk.sync_dir("").await
}

#[test]
fn a_crash_comes_at_every_step_and_nothing_completes_after_it() {
    for step in 1..=8 {
        let done = Rc::new(Cell::new(false));
        let told = Rc::clone(&done);
        let faults = Faults { crash_at_step: Some(step), ..Faults::default() };
        let (disk, _) = run(step, faults, |disk| async move {
            write_file(&disk, "a", 7).await.unwrap();
            told.set(true);
        });
        assert!(disk.is_crashed() && !done.get(), "step {step}");
        disk.lose_power();
    }
}

#[test]
fn a_synced_file_with_a_synced_name_outlives_every_crash() {
    for seed in 0..200 {
        let (disk, _) = run(seed, Faults::default(), |disk| async move {
            write_file(&disk, "a", 7).await.unwrap();
        });
        disk.lose_power();
        let block = disk.block_bytes();
        assert_eq!(disk.files(), [("a".to_owned(), 9100usize.next_multiple_of(block))]);
    }
}

#[test]
fn the_same_seed_leaves_the_same_trace() {
    let hash = |seed| {
        let task = |disk: SimDisk| async move {
            for name in ["a", "b", "c"] {
                write_file(&disk, name, 1).await.unwrap();
            }
        };
        run(seed, Faults::default(), task).1.hash()
    };
    assert_eq!(hash(3), hash(3));
}

#[test]
fn a_full_disk_takes_writes_in_place_and_refuses_growth() {
    run(1, Faults { capacity_bytes: Some(30_000), ..Faults::default() }, |disk| async move {
        let file = disk.create("a").await.unwrap();
        let block = disk.block_bytes();
        for at in 0..2 {
            file.write_at((at * block) as u64, &[&vec![1; block]]).await.unwrap();
        }
        let refused = file.write_at(0, &[&vec![2; 40_000]]).await.unwrap_err();
        assert!(refused.is_full());
        file.write_at(0, &[&vec![3; block]]).await.unwrap();
        disk.set_faults(|faults| faults.capacity_bytes = None);
        file.write_at(0, &[&vec![2; 40_000]]).await.unwrap();
    });
}

#[test]
fn a_failed_sync_or_write_is_told_once() {
    let faults = Faults { good_syncs: Some(0), good_writes: Some(1), ..Faults::default() };
    run(1, faults, |disk| async move {
        let file = disk.create("a").await.unwrap();
        file.write_at(0, &[b"x"]).await.unwrap();
        assert!(!file.write_at(0, &[b"y"]).await.unwrap_err().is_full());
        assert!(file.sync_data().await.is_err());
        assert!(file.sync_data().await.is_ok());
    });
}
