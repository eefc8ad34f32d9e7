//! The seeds of the fuzz targets: a few inputs for each that get far into what it tries, for a fuzzer begins
//! with what it is given. They are made here, by the same encoders that write such bytes elsewhere, and lie in
//! `server/fuzz/seeds`: where a format changes this test fails until they are made anew.
//!
//! ```sh
//! WRITE_SEEDS=1 cargo test -p silverback --test fuzz_seeds
//! ```

mod blocks;
mod chunks;
mod expressions;
mod histograms;
mod lines;
mod logs;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A target's seeds: what each is called, and its bytes.
type Seeds = Vec<(&'static str, Vec<u8>)>;

/// 2023-11-14T22:13:20Z
const START_MS: i64 = 1_700_000_000_000;

/// All of them, by target.
fn seeds() -> BTreeMap<&'static str, Seeds> {
    BTreeMap::from([
        ("block", blocks::files()),
        ("chunk_decode", chunks::decode()),
        ("chunk_roundtrip", chunks::roundtrip()),
        ("grpc_ingest", writes::grpc_ingest()),
        ("histogram_chunk", histograms::chunk()),
        ("histogram_message", histograms::message()),
        ("influx_lines", lines::influx()),
        ("otlp", writes::otlp()),
        ("prometheus_text", lines::prometheus()),
        ("promql", expressions::promql()),
        ("remote_write_v1", writes::remote_write_v1()),
        ("remote_write_v2", writes::remote_write_v2()),
        ("snappy", writes::snappy()),
        ("thanos", writes::thanos()),
        ("wal_frame", logs::frames()),
        ("wal_records", logs::records()),
    ])
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The targets that the fuzz package has.
fn targets() -> BTreeSet<String> {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let bins = manifest.split("[[bin]]").skip(1);
    bins.map(|bin| bin.split('"').nth(1).expect("a name").to_owned()).collect()
}

/// The files of a target's seeds.
fn files(target: &str) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(fuzz().join("seeds").join(target)) else { return BTreeMap::new() };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| entry.unwrap().path()).map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

fn write(target: &str, seeds: &Seeds) {
    let folder = fuzz().join("seeds").join(target);
    // What isn't made any more goes.
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in seeds {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn every_target_has_the_seeds_that_are_made_here() {
    let seeds = seeds();
    assert_eq!(seeds.keys().map(|target| (*target).to_owned()).collect::<BTreeSet<_>>(), targets());
    if std::env::var_os("WRITE_SEEDS").is_some() {
        seeds.iter().for_each(|(target, seeds)| write(target, seeds));
    }
    for (target, seeds) in seeds {
        assert!(seeds.len() >= 3, "{target}");
        let made: BTreeMap<_, _> = seeds.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        assert!(files(target) == made, "the seeds of {target} are others: WRITE_SEEDS=1 makes them anew");
    }
}
