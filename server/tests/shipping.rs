//! A node that ships its blocks: to a directory, across a restart; to a bucket that never answers; and what it says of
//! configurations that don't hold.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use silverback_shipper::Shipper;
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::{PATIENCE, Waiting};

const LABELS: [&str; 2] = ["--external-labels", "cluster=eu-1"];

fn home(name: &str) -> Home {
    Home::new(env!("CARGO_BIN_EXE_silverback"), std::env::temp_dir().to_str().unwrap(), name)
}

/// An objstore configuration beside the data directory.
fn write_config(home: &Home, text: &str) -> String {
    let path = home.data_dir().with_file_name("objstore.yml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn start(home: &Home, config: &str) -> NodeProcess {
    home.start_ready(
        &[&LABELS[..], &["--admin-api=full", "--shards=1", "--objstore-config-file", config]].concat(),
    )
}

/// Has the node write what it holds as a block, and puts that where its blocks are.
fn make_block(node: &mut NodeProcess, home: &Home) -> String {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let line = format!("up 1 {now_ms}\n");
    assert_eq!(node.post("/api/v1/import/prometheus", &[], line.as_bytes()).status, 204);
    assert_eq!(node.post("/api/v1/admin/tsdb/snapshot", &[], b"").status, 200);
    let only = |dir: &Path| -> PathBuf { fs::read_dir(dir).unwrap().next().unwrap().unwrap().path() };
    let block = only(&only(&home.data_dir().join("snapshots")));
    let name = block.file_name().unwrap().to_str().unwrap().to_owned();
    fs::create_dir_all(home.data_dir().join("blocks")).unwrap();
    fs::rename(&block, home.data_dir().join("blocks").join(&name)).unwrap();
    fs::remove_dir_all(home.data_dir().join("snapshots")).unwrap();
    name
}

fn metric(node: &mut NodeProcess, name: &str) -> f64 {
    let page = node.get("/metrics");
    let text = String::from_utf8(page.body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} in:\n{text}")).parse().unwrap()
}

/// Where a thread of this name may run.
fn allowed_cpus(process: u32, thread: &str) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let statuses = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().to_owned())
    };
    let named = |status: &String| field(status, "Name:").as_deref() == Some(thread);
    field(&statuses.into_iter().find(named)?, "Cpus_allowed_list:")
}

#[test]
fn a_block_goes_to_the_bucket_once_with_the_node_s_labels() {
    let home = home("shipping");
    let bucket = home.data_dir().with_file_name("bucket");
    let config =
        write_config(&home, &format!("type: FILESYSTEM\nconfig: {{directory: {}}}\n", bucket.display()));
    let mut node = start(&home, &config);
    let name = make_block(&mut node, &home);
    // The next start finds it at once; this one within a minute.
    node.stop();
    let mut node = start(&home, &config);
    let there = bucket.join(&name);
    let meta = node.wait_until("block in the bucket", |_| fs::read(there.join("meta.json")).ok());
    let meta: serde_json::Value = serde_json::from_slice(&meta).unwrap();
    let labels = &meta["thanos"]["labels"];
    assert_eq!(
        (&labels["cluster"], &labels["tenant_id"]),
        (&"eu-1".into(), &"default-tenant".into()),
        "{meta}"
    );
    let here = home.data_dir().join("blocks").join(&name);
    for file in ["index", "chunks/000001"] {
        assert_eq!(fs::read(here.join(file)).unwrap(), fs::read(there.join(file)).unwrap(), "{file}");
    }
    let waiting = Waiting::begin();
    while metric(&mut node, "silverback_shipper_uploads_total") != 1.0 {
        waiting.again(|| "the upload isn't counted");
    }
    // Not where the one executor is pinned.
    let of_thread = node.wait_until("shipper's thread", |process| allowed_cpus(process.id(), "shipper"));
    let of_process = node.wait_until("process", |process| allowed_cpus(process.id(), "silverback"));
    assert_eq!(of_thread, of_process);
    node.stop();
    fs::remove_dir_all(&there).unwrap();
    let mut node = start(&home, &config);
    let waiting = Waiting::begin();
    while metric(&mut node, "silverback_shipper_last_success_timestamp_seconds") == 0.0 {
        waiting.again(|| "the shipper doesn't look");
    }
    assert_eq!(metric(&mut node, "silverback_shipper_uploads_total"), 0.0, "what Thanos removed stays away");
    assert_eq!(metric(&mut node, "silverback_shipper_blocks_pending"), 0.0);
    assert!(!there.exists());
}

#[test]
fn a_large_file_takes_no_more_memory_than_planned() {
    /// Held whole it would be seen.
    const FILE_BYTES: u64 = 96 << 20;
    /// What the same node takes now more, now less.
    const NOISE_BYTES: usize = 16 << 20;
    let home = home("large");
    let bucket = home.data_dir().with_file_name("bucket");
    let config =
        write_config(&home, &format!("type: FILESYSTEM\nconfig: {{directory: {}}}\n", bucket.display()));
    let mut node = start(&home, &config);
    let name = make_block(&mut node, &home);
    let before_bytes = node.peak_bytes();
    node.stop();
    let chunks = home.data_dir().join("blocks").join(&name).join("chunks/000001");
    fs::File::options().write(true).open(chunks).unwrap().set_len(FILE_BYTES).unwrap();
    let mut node = start(&home, &config);
    node.wait_until("block in the bucket", |_| fs::read(bucket.join(&name).join("meta.json")).ok());
    assert_eq!(fs::metadata(bucket.join(&name).join("chunks/000001")).unwrap().len(), FILE_BYTES);
    let taken_bytes = node.peak_bytes().saturating_sub(before_bytes);
    assert!(taken_bytes < Shipper::MEMORY_BYTES + NOISE_BYTES, "{} MiB", taken_bytes >> 20);
}

#[test]
fn a_bucket_that_never_answers_delays_neither_writes_nor_a_stop() {
    let home = home("stalled");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _bytes = stream.read(&mut [0; 1]);
            counted.fetch_add(1, Ordering::Relaxed);
            kept.push(stream);
        }
    });
    let secret = "aSecretThatNobodySees";
    let config = write_config(
        &home,
        &format!(
            "type: S3\nconfig: {{bucket: b, endpoint: '{address}', insecure: true, access_key: id, secret_key: {secret}}}\n"
        ),
    );
    let mut node = start(&home, &config);
    make_block(&mut node, &home);
    node.stop();
    let mut node = start(&home, &config);
    node.wait_until("question to the bucket", |_| (asked.load(Ordering::Relaxed) > 0).then_some(()));
    assert_eq!(node.post("/api/v1/import/prometheus", &[], b"up 1\n").status, 204);
    assert_eq!(metric(&mut node, "silverback_shipper_blocks_pending"), 1.0);
    for page in ["/api/v1/status/config", "/api/v1/status/flags"] {
        let body = String::from_utf8(node.get(page).body).unwrap();
        assert!(body.contains("objstore.yml") && !body.contains(secret), "{page}: {body}");
    }
    assert!(!node.told().contains(secret), "{}", node.told());
    let began = std::time::Instant::now();
    node.stop();
    assert!(began.elapsed() < PATIENCE / 2);
}

#[test]
fn what_does_not_hold_is_told_before_anything_is_started() {
    let home = home("faults");
    let file = |text: &str| write_config(&home, text);
    let check = |arguments: &[&str], words: &[&str]| {
        let (code, told) = home.run(arguments);
        assert_eq!(code, 2, "{told}");
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    };
    let good = file("type: FILESYSTEM\nconfig: {directory: /tmp}\n");
    check(
        &["--objstore-config-file", &good],
        &["external-labels", "no external labels are set", "--replica-label"],
    );
    let bad = file("type: S3\nconfig: {bucket: b, endpoint: e, secret_kye: hunter2}\n");
    let with = |config: &'static str| ["--objstore-config-file", config, LABELS[0], LABELS[1]];
    let bad: &'static str = Box::leak(bad.into_boxed_str());
    check(&with(bad), &["objstore.yml: config.secret_kye: there is no such field", "secret_key"]);
    check(&with("/nowhere/objstore.yml"), &["/nowhere/objstore.yml: No such file"]);
    assert!(!home.data_dir().join("wal").exists(), "nothing was begun");
}

#[test]
fn a_bucket_of_blocks_that_thanos_cannot_read_is_warned_of() {
    const WORDS: &str = "Thanos' Store Gateway and Compactor don't read XOR2 chunks yet";
    let home = home("float-chunks");
    let bucket = home.data_dir().with_file_name("bucket");
    let config =
        write_config(&home, &format!("type: FILESYSTEM\nconfig: {{directory: {}}}\n", bucket.display()));
    let shipped = [LABELS[0], LABELS[1], "--objstore-config-file", &*config];
    let check = |flags: &[&str], is_warned: bool| {
        let (code, told) = home.run(&[flags, &["check-config"]].concat());
        assert_eq!((code, told.contains(WORDS)), (0, is_warned), "{told}");
        let node = home.start_ready(&[flags, &["--shards=1"]].concat());
        assert_eq!(node.told().contains(WORDS), is_warned, "{}", node.told());
        node.stop();
    };
    let xor2 = "--float-chunks=xor2";
    check(&[&shipped[..], &[xor2]].concat(), true);
    check(&shipped, false);
    check(&[xor2], false);
}
