//! A shipper on its thread: buckets that fail at every point, blocks that come, go and are damaged, restarts, stops.

mod faulty;
mod fixture;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use silverback_block::Ulid;
use silverback_test_support::{Scratch, TEST_TIMEOUT, eventually};

use crate::objstore::BucketConfig;
use crate::{Limits, Shipper, ShipperOptions, shipped};
use faulty::{Fault, Faulty};
use fixture::{Blocks, impatient, limits, options, start};

fn names(store: &Faulty) -> Vec<String> {
    block_on(store.names())
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn time_ms(at_ms: &AtomicI64) -> i64 {
    at_ms.load(Ordering::Relaxed)
}

/// Never fails.
fn whole() -> Faulty {
    Faulty::new(Some(u64::MAX), Fault::Refused)
}

#[test]
fn whatever_fails_once_the_block_arrives_whole_and_is_never_seen_half() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    for fault in Fault::ALL {
        for at in 0.. {
            drop(fs::remove_file(blocks.path().join("thanos.shipper.json")));
            let store = Faulty::new(Some(at), fault);
            let limits = if fault == Fault::Stalled { impatient() } else { limits() };
            let options = ShipperOptions { limits, ..options(blocks.path(), store.clone()) };
            let shipper = Shipper::start(options).unwrap();
            eventually("the block is shipped", || shipper.is_shipped(ulid));
            assert!(shipper.stop(TEST_TIMEOUT));
            block_on(store.check_whole());
            assert_eq!(names(&store), Blocks::objects_of(ulid), "{fault:?} at {at}");
            let counts = shipper.counts();
            assert!(count(&counts.failures) <= 1 && time_ms(&counts.failing_since_ms) == 0, "{counts:?}");
            assert_eq!(shipped::read(blocks.path()).unwrap(), BTreeSet::from([ulid]));
            if store.asked.load(Ordering::Relaxed) <= at {
                assert!(at > 8, "only {at} operations");
                assert_eq!(count(&counts.failures), 0);
                break;
            }
        }
    }
}

#[test]
fn whoever_waits_for_a_change_is_woken_by_an_upload_and_not_by_a_look() {
    let blocks = Blocks::new();
    let shipper = start(blocks.path(), whole());
    for number in 1..4 {
        let change = shipper.next_change();
        shipper.wake();
        let ulid = blocks.write(number);
        shipper.wake();
        block_on(change);
        assert!(shipper.is_shipped(ulid));
    }
    assert!(shipper.stop(TEST_TIMEOUT));
}

#[test]
fn blocks_go_to_a_directory_as_thanos_has_them() {
    let (blocks, bucket) = (Blocks::new(), Scratch::new());
    let first = blocks.write(1);
    let text =
        format!("type: FILESYSTEM\nconfig: {{directory: {}/made}}\nprefix: /a/b/\n", bucket.path().display());
    let config = BucketConfig::parse(&text, &|_| None).unwrap();
    let options = ShipperOptions {
        bucket: config,
        limits: Limits { part_bytes: 64, ..limits() },
        ..options(blocks.path(), whole())
    };
    let shipper = Shipper::start(options).unwrap();
    eventually("the first is there", || shipper.is_shipped(first));
    let second = blocks.write(2);
    shipper.wake();
    eventually("the second, too", || shipper.is_shipped(second));
    for ulid in [first, second] {
        let (here, there) = (blocks.block(ulid), bucket.join("made/a/b").join(ulid.to_string()));
        for file in ["chunks/000001", "index"] {
            assert_eq!(fs::read(here.join(file)).unwrap(), fs::read(there.join(file)).unwrap(), "{file}");
        }
        let meta: serde_json::Value =
            serde_json::from_slice(&fs::read(there.join("meta.json")).unwrap()).unwrap();
        assert_eq!(
            (&meta["thanos"]["labels"]["cluster"], &meta["thanos"]["source"]),
            (&"eu-1".into(), &"receive".into())
        );
        assert_eq!(meta["ulid"], ulid.to_string());
        let left: Vec<_> = fs::read_dir(&there).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }
    let counts = shipper.counts();
    assert_eq!((count(&counts.uploads), count(&counts.failures)), (2, 0));
    assert!(count(&counts.bytes) > 0 && time_ms(&counts.last_success_ms) > 1_700_000_000_000);
    assert!(shipper.stop(TEST_TIMEOUT));
}

#[test]
fn a_directory_that_is_not_there_is_waited_for() {
    let scratch = Scratch::new();
    let store = whole();
    let shipper = start(&scratch.join("blocks"), store.clone());
    eventually("it has looked", || time_ms(&shipper.counts().last_success_ms) > 0);
    assert_eq!(store.asked.load(Ordering::Relaxed), 0);
    assert!(!scratch.join("blocks").exists(), "that is whose blocks they are");
    let other = Blocks::new();
    let ulid = other.write(1);
    fs::rename(other.path(), scratch.join("blocks")).unwrap();
    eventually("its blocks are shipped", || shipper.is_shipped(ulid));
}

#[test]
fn what_is_shipped_is_remembered_and_a_lost_or_damaged_memory_asks_the_bucket() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    let store = whole();
    let ship = || {
        let shipper = start(blocks.path(), store.clone());
        eventually("the block is shipped", || shipper.is_shipped(ulid));
        assert!(shipper.stop(TEST_TIMEOUT));
        count(&shipper.counts().uploads)
    };
    assert_eq!(ship(), 1);
    let asked = store.asked.load(Ordering::Relaxed);
    assert_eq!(ship(), 0);
    assert_eq!(store.asked.load(Ordering::Relaxed), asked, "the file says it");
    let memory = blocks.path().join("thanos.shipper.json");
    for text in ["{\"version\": 1, \"uploaded\": [", "{\"version\": 7}", ""] {
        fs::write(&memory, text).unwrap();
        let asked = store.asked.load(Ordering::Relaxed);
        assert_eq!(ship(), 0, "{text:?}");
        assert_eq!(store.asked.load(Ordering::Relaxed), asked + 3, "a question to the bucket for each file");
        assert_eq!(shipped::read(blocks.path()).unwrap(), BTreeSet::from([ulid]), "and a new file");
    }
}

#[test]
fn an_upload_that_was_left_half_is_begun_again() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    let store = whole();
    let half = Path::from(format!("{ulid}/chunks/000001"));
    block_on(store.inner.put(&half, "half of it".into())).unwrap();
    let shipper = start(blocks.path(), store.clone());
    eventually("the block is shipped", || shipper.is_shipped(ulid));
    let there = block_on(async { store.inner.get(&half).await.unwrap().bytes().await.unwrap() });
    assert_eq!(there, fs::read(blocks.block(ulid).join("chunks/000001")).unwrap());
}

#[test]
fn damaged_blocks_are_counted_and_keep_no_other_waiting() {
    let blocks = Blocks::new();
    type Damage = fn(&std::path::Path);
    let damage: [(u64, Damage); 6] = [
        (1, |dir| fs::write(dir.join("meta.json"), "{").unwrap()),
        (2, |dir| fs::write(dir.join("chunks/000001"), "no chunks at all").unwrap()),
        (3, |dir| fs::remove_file(dir.join("index")).unwrap()),
        (4, |dir| fs::write(dir.join("index"), "short").unwrap()),
        (5, |dir| fs::rename(dir.join("chunks/000001"), dir.join("chunks/000002")).unwrap()),
        (6, |dir| {
            let text = fs::read_to_string(dir.join("meta.json")).unwrap();
            let other = Ulid::from_parts(99, 0).to_string();
            fs::write(dir.join("meta.json"), text.replace(&Ulid::from_parts(6, 0).to_string(), &other))
                .unwrap();
        }),
    ];
    for (number, damage) in damage {
        damage(&blocks.block(blocks.write(number)));
    }
    let good = blocks.write(7);
    let store = whole();
    let shipper = start(blocks.path(), store.clone());
    eventually("the good one is shipped", || shipper.is_shipped(good));
    eventually("the others are counted", || count(&shipper.counts().damaged) == 6);
    assert_eq!(names(&store), Blocks::objects_of(good));
    assert_eq!(time_ms(&shipper.counts().failing_since_ms), 0, "the bucket is not to blame");
    // What is whole again is shipped after a while; what is gone doesn't count any more.
    fs::remove_dir_all(blocks.block(Ulid::from_parts(2, 0))).unwrap();
    let mended = blocks.write(2);
    (3..=6).for_each(|number| fs::remove_dir_all(blocks.block(Ulid::from_parts(number, 0))).unwrap());
    eventually("it is", || shipper.is_shipped(mended));
    eventually("one is left", || count(&shipper.counts().damaged) == 1);
}

#[test]
fn a_block_with_a_bit_turned_over_is_never_uploaded_and_not_pending() {
    let blocks = Blocks::new();
    let turn = |ulid: Ulid, file: &str, place: &dyn Fn(usize) -> usize| {
        let path = blocks.block(ulid).join(file);
        let mut bytes = fs::read(&path).unwrap();
        let place = place(bytes.len());
        bytes[place] ^= 4;
        fs::write(&path, &bytes).unwrap();
    };
    let [of_chunk, of_postings] = [1, 2].map(|number| blocks.write(number));
    turn(of_chunk, "chunks/000001", &|len| len - 6);
    // After the table of postings are its checksum and the table of contents.
    turn(of_postings, "index", &|len| len - 60);
    let good = blocks.write(3);
    let store = whole();
    let shipper = start(blocks.path(), store.clone());
    let counts = shipper.counts();
    eventually("the good one is shipped", || shipper.is_shipped(good));
    eventually("the others are set aside", || count(&counts.damaged) == 2 && count(&counts.pending) == 0);
    let failures = count(&counts.failures);
    eventually("they are looked at again", || count(&counts.failures) >= failures + 2);
    assert_eq!((count(&counts.damaged), count(&counts.pending)), (2, 0));
    assert_eq!(names(&store), Blocks::objects_of(good));
    assert!(![of_chunk, of_postings].into_iter().any(|ulid| shipper.is_shipped(ulid)));
    turn(of_chunk, "chunks/000001", &|len| len - 6);
    eventually("it is mended, and shipped", || shipper.is_shipped(of_chunk));
    eventually("one is left", || count(&counts.damaged) == 1);
}

#[test]
fn what_gives_out_something_else_than_it_was_given_has_no_block() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    let store = Faulty::new(None, Fault::Mangled);
    let shipper = start(blocks.path(), store.clone());
    let counts = shipper.counts();
    eventually("it is tried again and again", || count(&counts.failures) > 2);
    assert!(!shipper.is_shipped(ulid) && time_ms(&counts.failing_since_ms) > 0);
    assert_eq!((count(&counts.uploads), count(&counts.pending)), (0, 1));
    assert_eq!(shipped::read(blocks.path()).unwrap(), BTreeSet::new());
    assert!(shipper.stop(TEST_TIMEOUT));
}

#[test]
fn a_meta_json_in_the_bucket_without_its_block_does_not_count() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    let meta = Path::from(format!("{ulid}/meta.json"));
    let store = Arc::new(InMemory::new());
    let put = |text: String| block_on(store.put(&meta, text.into())).unwrap();
    for text in ["{}".to_owned(), format!("{{\"ulid\": \"{ulid}\", \"thanos\": {{}}}}")] {
        put(text);
        let shipper = start(blocks.path(), Arc::clone(&store) as Arc<dyn ObjectStore>);
        eventually("it fails", || count(&shipper.counts().failures) > 1);
        assert!(!shipper.is_shipped(ulid));
        assert!(shipper.stop(TEST_TIMEOUT));
        block_on(store.delete(&meta)).unwrap();
    }
    let shipper = start(blocks.path(), Arc::clone(&store) as Arc<dyn ObjectStore>);
    eventually("it is shipped", || shipper.is_shipped(ulid));
}

#[test]
fn only_blocks_of_a_head_are_shipped_late_ones_too() {
    let blocks = Blocks::new();
    let change = |number, from: &str, to: &str| {
        let ulid = blocks.write(number);
        let meta = blocks.block(ulid).join("meta.json");
        let text = fs::read_to_string(&meta).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(meta, text.replace(from, to)).unwrap();
        ulid
    };
    let compacted = change(1, "\"level\": 1", "\"level\": 2");
    let empty = change(2, "\"numSamples\": 2", "\"numSamples\": 0");
    let late = change(3, "\"level\": 1", "\"level\": 1, \"hints\": [\"from-out-of-order\"]");
    fs::create_dir(blocks.path().join(format!("{}.tmp-for-creation", Ulid::from_parts(4, 0)))).unwrap();
    fs::create_dir(blocks.path().join(Ulid::from_parts(10, 0).to_string().to_lowercase())).unwrap();
    let store = whole();
    let shipper = start(blocks.path(), store.clone());
    eventually("the late one is shipped", || shipper.is_shipped(late));
    assert_eq!(names(&store), Blocks::objects_of(late));
    assert!(
        shipper.is_shipped(compacted) && shipper.is_shipped(empty),
        "nobody has to keep these for the bucket"
    );
    assert_eq!(shipped::read(blocks.path()).unwrap(), BTreeSet::from([late]));
    assert_eq!(count(&shipper.counts().failures), 0);
}

#[test]
fn a_block_that_is_deleted_while_it_waits_is_no_failure() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    let store = Faulty::new(None, Fault::Refused);
    let shipper = start(blocks.path(), store);
    eventually("it failed", || count(&shipper.counts().failures) > 0);
    assert!(time_ms(&shipper.counts().failing_since_ms) > 0 && count(&shipper.counts().pending) == 1);
    fs::remove_dir_all(blocks.block(ulid)).unwrap();
    eventually("nothing is left", || count(&shipper.counts().pending) == 0);
    eventually("nothing fails any more", || time_ms(&shipper.counts().failing_since_ms) == 0);
    assert!(!shipper.is_shipped(ulid));
}

#[test]
fn a_bucket_that_never_answers_is_tried_again_and_delays_no_stop() {
    let blocks = Blocks::new();
    let ulid = blocks.write(1);
    let store = Faulty::new(None, Fault::Stalled);
    let options = |limits| ShipperOptions { limits, ..options(blocks.path(), store.clone()) };
    let shipper = Shipper::start(options(impatient())).unwrap();
    eventually("it was asked more than once", || store.asked.load(Ordering::Relaxed) > 2);
    assert!(!shipper.is_shipped(ulid));
    let stuck = Shipper::start(options(limits())).unwrap();
    let asked = store.asked.load(Ordering::Relaxed);
    eventually("it waits for the bucket", || store.asked.load(Ordering::Relaxed) > asked);
    let began = Instant::now();
    assert!(stuck.stop(TEST_TIMEOUT) && shipper.stop(TEST_TIMEOUT));
    assert!(began.elapsed() < TEST_TIMEOUT / 2);
    assert!(names(&store).is_empty());
}

#[test]
fn a_stop_while_a_file_is_sent_gives_its_parts_up_and_the_next_start_ships_it() {
    let (blocks, bucket) = (Blocks::new(), Scratch::new());
    let ulid = blocks.write(1);
    let store = || LocalFileSystem::new_with_prefix(bucket.path()).unwrap();
    let slow = NonZeroU64::new(2);
    let limits = Limits { part_bytes: 16, ..limits() };
    let shipper =
        Shipper::start(ShipperOptions { bytes_per_s: slow, limits, ..options(blocks.path(), store()) })
            .unwrap();
    let half = || fs::read_dir(bucket.join(&format!("{ulid}/chunks"))).into_iter().flatten().count();
    eventually("a part is sent", || half() > 0 && count(&shipper.counts().bytes) > 0);
    let began = Instant::now();
    assert!(shipper.stop(TEST_TIMEOUT) && began.elapsed() < TEST_TIMEOUT / 2);
    assert!(!bucket.join(&format!("{ulid}/meta.json")).exists());
    eventually("the parts are gone", || half() == 0);
    let shipper = Shipper::start(options(blocks.path(), store())).unwrap();
    eventually("the block is shipped", || shipper.is_shipped(ulid));
}

#[test]
fn a_block_that_the_bucket_refuses_keeps_no_other_waiting() {
    let blocks = Blocks::new();
    let refused = blocks.write(1);
    let good: Vec<_> = (2..5).map(|number| blocks.write(number)).collect();
    let bucket = Scratch::new();
    // A file where the block's directory would be.
    fs::write(bucket.join(&refused.to_string()), "in the way").unwrap();
    let shipper = start(blocks.path(), LocalFileSystem::new_with_prefix(bucket.path()).unwrap());
    eventually("the good ones are shipped", || good.iter().all(|ulid| shipper.is_shipped(*ulid)));
    assert!(!shipper.is_shipped(refused));
    eventually("it is tried again", || count(&shipper.counts().failures) > 2);
    fs::remove_file(bucket.join(&refused.to_string())).unwrap();
    eventually("it is shipped, too", || shipper.is_shipped(refused));
}

#[test]
fn a_shipper_that_is_dropped_ends() {
    let (blocks, store) = (Blocks::new(), Arc::new(InMemory::new()));
    let shipper = start(blocks.path(), Arc::clone(&store) as Arc<dyn ObjectStore>);
    eventually("it has looked", || time_ms(&shipper.counts().last_success_ms) > 0);
    drop(shipper);
    eventually("its thread has dropped the bucket", || Arc::strong_count(&store) == 1);
}
