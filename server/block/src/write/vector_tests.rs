//! Indexes byte for byte, of many series, in as much memory as there is and in as little as a writer works with.

use silverback_test_support::random::Random;

use super::tests::{add, chunk};
use super::*;

/// Label sets, ascending: names that most have, values that few or many share, and texts that are of one alone.
fn label_sets(count: usize) -> Vec<Vec<(String, String)>> {
    let mut random = Random::new(11);
    let mut sets: Vec<Vec<(String, String)>> = (0..count)
        .map(|number| {
            let mut labels = vec![("__name__".to_owned(), format!("metric_{}", random.below(30)))];
            if random.below(4) > 0 {
                labels.push(("instance".to_owned(), format!("host-{:03}:9100", random.below(200))));
            }
            labels.push(("job".to_owned(), ["node", "api", "é"][random.below(3) as usize].to_owned()));
            if random.below(50) == 0 {
                labels.push((format!("label_{}", random.below(40)), "host-001:9100".to_owned()));
            }
            labels.push(("pod".to_owned(), format!("{:016x}{:016x}", random.next(), number)));
            labels
        })
        .collect();
    sets.sort();
    sets
}

/// The length and the sum of the index that is written of so many series.
fn index_of(count: usize, memory: WriterMemory) -> (usize, u32) {
    let scratch = tempfile::tempdir().unwrap();
    let (ulid, dir) = (Ulid::from_parts(1, 3), scratch.path().join("a"));
    let mut writer = BlockWriter::create(dir.clone(), ulid, memory).unwrap();
    for (at_ms, labels) in (0..).zip(label_sets(count)) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let chunks = [chunk(at_ms, at_ms + 5), chunk(at_ms + 7, at_ms + 9)];
        add(&mut writer, &labels, &chunks).unwrap();
    }
    writer.finish(&|_| true).unwrap().unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 4, "index, chunks, tombstones, meta.json");
    let index = std::fs::read(dir.join("index")).unwrap();
    (index.len(), crc32c::crc32c(&index))
}

/// The sums are of what was written by holding all texts and pairs at once.
#[test]
fn an_index_is_byte_for_byte_the_same_however_often_it_goes_to_disk() {
    for bytes in [200, 1000, 64 << 10, 512 << 10] {
        let memory = WriterMemory::tiny(bytes);
        assert_eq!(index_of(1, memory), (382, 1_290_220_080), "{memory:?}");
        assert_eq!(index_of(400, memory), (64_594, 1_839_586_904), "{memory:?}");
    }
    for bytes in [2000, 64 << 10, 512 << 10, 8 << 20] {
        let memory = WriterMemory::tiny(bytes);
        assert_eq!(index_of(20_000, memory), (3_039_077, 1_425_600_694), "{memory:?}");
    }
}
