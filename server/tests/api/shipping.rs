//! A node that ships its blocks: to a directory, across a restart; to a bucket that never answers, or answers whatever it
//! is asked; at its end; and what it says of configurations that aren't valid.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use silverback_block::verify;
use silverback_shipper::Shipper;
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::{TEST_TIMEOUT, Waiting};

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
    assert!(began.elapsed() < TEST_TIMEOUT / 2);
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
    let at_the_end = "--ship-on-shutdown=on";
    check(&[at_the_end, "--blocks=on"], &["ship-on-shutdown", "no bucket is given"]);
    check(
        &["--objstore-config-file", &good, LABELS[0], LABELS[1], at_the_end],
        &["ship-on-shutdown", "no blocks are cut", "set --blocks=on"],
    );
    let bad = file("type: S3\nconfig: {bucket: b, endpoint: e, secret_kye: hunter2}\n");
    let with = |config: &'static str| ["--objstore-config-file", config, LABELS[0], LABELS[1]];
    let bad: &'static str = Box::leak(bad.into_boxed_str());
    check(&with(bad), &["objstore.yml: config.secret_kye: there is no such field", "secret_key"]);
    check(&with("/nowhere/objstore.yml"), &["/nowhere/objstore.yml: No such file"]);
    assert!(!home.data_dir().join("wal").exists(), "nothing was begun");
}

#[test]
fn a_configuration_that_is_no_regular_file_is_refused_and_not_waited_for() {
    let home = home("pipes");
    let beside = |name: &str| home.data_dir().with_file_name(name);
    let pipe = beside("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (pipe, link) = (pipe.display().to_string(), beside("link"));
    symlink(&pipe, &link).unwrap();
    let tls = format!(
        "type: S3\nconfig: {{bucket: b, endpoint: e, http_config: {{tls_config: {{ca_file: {pipe}}}}}}}\n"
    );
    let tls = write_config(&home, &tls);
    let web = beside("web.yml");
    fs::write(&web, format!("tls_server_config: {{cert_file: {pipe}, key_file: {pipe}}}\n")).unwrap();
    let (link, web) = (link.display().to_string(), web.display().to_string());
    let given: [(&str, &str, &str); 6] = [
        ("--objstore-config-file", &pipe, "named pipe"),
        ("--objstore-config-file", &link, "named pipe"),
        ("--objstore-config-file", &tls, "named pipe"),
        ("--web-config-file", &web, "named pipe"),
        ("--config", &pipe, "named pipe"),
        ("--web-config-file", "/dev/zero", "it is a device"),
    ];
    for (flag, path, words) in given {
        for command in [&["check-config"][..], &[]] {
            let (code, told) = home.run(&[&LABELS[..], &[flag, path], command].concat());
            assert_eq!(code, 2, "{flag} {path}: {told}");
            assert!(told.contains(words) && told.contains("not a regular file"), "{flag} {path}: {told}");
        }
    }
}

/// Answers whatever it is asked with a page, as a portal does that wants to be logged in to.
fn portal() -> String {
    const PAGE: &str = "<html>Welcome to our network</html>";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = |stream: TcpStream| -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut head, mut body_bytes) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let begins = head.len();
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
                let line = head[begins..].to_ascii_lowercase();
                if let Some(length) = line.strip_prefix("content-length:") {
                    body_bytes = length.trim().parse().unwrap();
                }
            }
            std::io::copy(&mut Read::by_ref(&mut reader).take(body_bytes), &mut std::io::sink())?;
            let body = if head.starts_with("HEAD") { "" } else { PAGE };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"1\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                PAGE.len()
            );
            reader.get_mut().write_all(answer.as_bytes())?;
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer(stream.unwrap()));
        }
    });
    address
}

#[test]
fn what_answers_everything_with_200_is_no_bucket() {
    let home = home("portal");
    let address = portal();
    let config = write_config(
        &home,
        &format!(
            "type: S3\nconfig: {{bucket: b, endpoint: '{address}', insecure: true, access_key: id, secret_key: s}}\n"
        ),
    );
    let mut node = start(&home, &config);
    let name = make_block(&mut node, &home);
    node.stop();
    let mut node = start(&home, &config);
    let words =
        format!("S3 bucket b at {address} says that it has {name}/meta.json, and gives out something else");
    node.wait_until("fault in the log", |process| process.told().contains(&words).then_some(()));
    let waiting = Waiting::begin();
    while metric(&mut node, "silverback_shipper_upload_failures_total") < 2.0 {
        waiting.again(|| "it isn't tried again");
    }
    assert_eq!(metric(&mut node, "silverback_shipper_uploads_total"), 0.0);
    assert_eq!(metric(&mut node, "silverback_shipper_blocks_pending"), 1.0);
    node.stop();
    assert!(
        !home.data_dir().join("blocks/thanos.shipper.json").exists(),
        "nothing is remembered as uploaded"
    );
}

/// How many samples of one series are in the blocks of a directory, block by block in the order of their making.
fn samples_of_blocks(dir: &Path) -> Vec<u64> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("meta.json").exists())
        .collect();
    names.sort();
    names.iter().map(|dir| verify(dir, |damage| panic!("{damage}")).stats.num_samples).collect()
}

#[test]
fn a_node_that_ships_at_its_end_leaves_nothing_behind_and_begins_where_it_was() {
    let mut home = home("at-the-end");
    home.set_shutdown_timeout("30s");
    let home = home;
    let bucket = home.data_dir().with_file_name("bucket");
    let config =
        write_config(&home, &format!("type: FILESYSTEM\nconfig: {{directory: {}}}\n", bucket.display()));
    let flags = ["--blocks=on", "--ship-on-shutdown=on", "--shards=2"];
    let start_with = |further: &[&str]| {
        home.start_ready(&[&LABELS[..], &flags, &["--objstore-config-file", &config], further].concat())
    };
    let start = || start_with(&[]);
    let range_ms = 2 * 60 * 60 * 1000;
    // Ranges that aren't over, and one that is over and not due.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let before_ms = now_ms / range_ms * range_ms - 1;
    let write = |node: &mut NodeProcess, at_ms: u128| {
        let lines: String = (0..100).map(|series| format!("up{{series=\"{series}\"}} 1 {at_ms}\n")).collect();
        assert_eq!(node.post("/api/v1/import/prometheus", &[], lines.as_bytes()).status, 204);
    };
    let mut node = start();
    write(&mut node, before_ms);
    write(&mut node, now_ms);
    let told = node.stop_told();
    assert!(told.contains("all that the node has is in the bucket"), "{told}");
    assert_eq!(samples_of_blocks(&bucket), [100, 100], "{told}");
    assert_eq!(samples_of_blocks(&home.data_dir().join("blocks")), [100, 100]);
    // What is in blocks already isn't cut again.
    let told = start().stop_told();
    assert!(told.contains("all that the node has is in the bucket"), "{told}");
    assert_eq!(samples_of_blocks(&bucket).len(), 2, "{told}");
    // So short a retention that what is over is read from its block, too.
    let mut node = start_with(&["--retention=150m", "--blocks-delay=0s"]);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    write(&mut node, now_ms);
    let query =
        format!("/api/v1/query?query=count_over_time(up%7Bseries=%227%22%7D[3h])&time={}", now_ms / 1000 + 1);
    let answer = String::from_utf8(node.get(&query).body).unwrap();
    assert!(answer.contains("\"3\""), "each sample once: {answer}");
    assert!(metric(&mut node, "silverback_block_reads_total") > 0.0, "no block was read");
    let told = node.stop_told();
    assert_eq!(
        samples_of_blocks(&bucket).last(),
        Some(&200),
        "the whole range as far as it has come: {told}"
    );
}

#[test]
fn a_bucket_that_can_t_be_had_in_time_delays_an_end_no_longer_and_loses_nothing() {
    let mut home = home("too-late");
    home.set_shutdown_timeout("5s");
    let home = home;
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = write_config(
        &home,
        &format!(
            "type: S3\nconfig: {{bucket: b, endpoint: '{closed}', insecure: true, access_key: id, secret_key: s}}\n"
        ),
    );
    let flags = ["--blocks=on", "--ship-on-shutdown=on", "--shards=1", "--objstore-config-file", &config];
    let mut node = home.start_ready(&[&LABELS[..], &flags].concat());
    assert_eq!(node.post("/api/v1/import/prometheus", &[], b"up 7\n").status, 204);
    let began = std::time::Instant::now();
    let told = node.stop_told();
    assert!(began.elapsed() < TEST_TIMEOUT / 2);
    assert!(
        told.contains("before all blocks were uploaded: nothing is lost") && told.contains("left=1"),
        "{told}"
    );
    assert_eq!(samples_of_blocks(&home.data_dir().join("blocks")), [1]);
    let mut node = home.start_ready(&["--shards=1"]);
    let answer = String::from_utf8(node.get("/api/v1/query?query=up").body).unwrap();
    assert!(answer.contains("\"7\""), "{answer}");
    node.stop();
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
