//! What must not allocate, under an allocator that counts.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use silverback_model::gorilla::{OpenXor, WordSink, XorIter};
use silverback_model::limits::CHUNK_BYTES_MAX;
use silverback_model::{Sample, SeriesRef};
use silverback_storage::wal::Journal;
use silverback_storage::wal::record::{Group, Record, records};

mod blocks;
mod reads;

struct CountingAllocator;

thread_local! {
    // Of this thread alone: the test harness allocates on its own threads as it likes.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
    // What it has, and the most that it had.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static HELD_MAX: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    BYTES.set(BYTES.get() + bytes);
    HELD.set(HELD.get() + bytes as isize);
    HELD_MAX.set(HELD_MAX.get().max(HELD.get()));
}

fn give_back(bytes: usize) {
    HELD.set(HELD.get() - bytes as isize);
}

// SAFETY: every call goes on to the system's allocator with its arguments untouched; the counts are
// constant-initialised thread locals without destructors, which themselves allocate nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise about `layout` is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        give_back(layout.size());
        // SAFETY: `place` came from `alloc` above, so from the system's allocator.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        give_back(layout.size());
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// How often `work` allocates.
fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// How many bytes `work` asks the allocator for.
fn allocated_bytes(work: impl FnOnce()) -> usize {
    let before = BYTES.get();
    work();
    BYTES.get() - before
}

/// The most bytes that `work` has at a time.
fn held_bytes_max(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    HELD_MAX.set(before);
    work();
    (HELD_MAX.get() - before) as usize
}

/// Room for the words of the longest chunk, in place.
struct ArraySink {
    words: [u64; CHUNK_BYTES_MAX / 8],
    len: usize,
}

impl WordSink for ArraySink {
    fn push_word(&mut self, word: u64) {
        self.words[self.len] = word;
        self.len += 1;
    }
}

/// A chunk as full as it gets, of values that change in every bit now and then.
fn filled(sink: &mut ArraySink) -> OpenXor {
    let mut chunk = OpenXor::start(Sample::new(0, 1.0), sink);
    for i in 1_i64.. {
        let sample = Sample::new(15_000 * i + i % 3, (i * i) as f64 / 3.0);
        if chunk.is_full_for(sample.timestamp_ms) {
            break;
        }
        chunk.append(sample, sink);
    }
    chunk
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations(|| drop(black_box(vec![1_u8; 100]))), 1);
    let two = || drop(black_box((vec![1_u8; 100], vec![1_u8; 50])));
    assert_eq!(held_bytes_max(|| (two(), two()).0), 150);
}

#[test]
fn appending_to_a_chunk_allocates_nothing() {
    let mut sink = ArraySink { words: [0; CHUNK_BYTES_MAX / 8], len: 0 };
    let mut count = 0;
    assert_eq!(allocations(|| count = filled(&mut sink).count()), 0);
    assert!(count > 90 && sink.len > 90, "{count} samples, {} words", sink.len);
}

#[test]
fn sealing_allocates_the_bytes_and_reading_them_nothing() {
    let mut sink = ArraySink { words: [0; CHUNK_BYTES_MAX / 8], len: 0 };
    let open = filled(&mut sink);
    let words = sink.words[..sink.len].iter().copied();
    let mut sealed = None;
    assert_eq!(allocations(|| sealed = Some(open.seal(words))), 1);
    let sealed = sealed.unwrap();
    assert_eq!(allocations(|| assert!(XorIter::new(sealed.bytes()).all(|sample| sample.is_ok()))), 0);
}

fn store_samples(group: &mut Group) {
    group.clear();
    for i in 0..10_000 {
        group.stored(SeriesRef(i), Sample::new(i64::from(i / 100), f64::from(i) / 3.0));
    }
}

#[test]
fn a_group_that_is_used_again_allocates_nothing() {
    let mut group = Group::default();
    store_samples(&mut group);
    black_box(group.parts());
    let again = || {
        store_samples(&mut group);
        black_box(group.parts());
    };
    assert_eq!(allocations(again), 0);
}

#[test]
fn reading_a_group_allocates_nothing() {
    let mut group = Group::default();
    store_samples(&mut group);
    let payload = group.parts().concat();
    let mut count = 0;
    let read = || {
        for record in records(&payload) {
            let Ok(Record::Samples(samples)) = record else { panic!("a group of samples alone") };
            count += samples.iter().filter(Result::is_ok).count();
        }
    };
    assert_eq!(allocations(read), 0);
    assert_eq!(count, 10_000);
}
