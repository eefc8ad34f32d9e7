//! The `silverback` command as a shell sees it: help, the check of a configuration, exit codes.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use silverback_test_support::{Process, Scratch};

/// The command, without whatever the caller's environment would configure.
fn silverback(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silverback"));
    command.args(arguments).env_clear();
    command
}

/// What it did: exit code, standard output, standard error.
fn run(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A configuration file that goes when the test ends.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn create(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("silverback-cli-{}-{name}.yaml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn check_holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
}

#[test]
fn a_configuration_without_an_end_is_refused_and_what_stands_in_an_argument_moves_no_cursor() {
    let (code, _, stderr) = run(silverback(&["check-config", "--config", "/dev/zero"]));
    assert_eq!(code, 2, "{stderr}");
    check_holds(&stderr, &["/dev/zero", "it is a device, not a regular file"]);
    let (code, _, stderr) = run(silverback(&["wal", "verify", "/nowhere/\u{1b}[2J"]));
    assert!(code != 0 && !stderr.contains('\u{1b}'), "{code}: {stderr:?}");
    check_holds(&stderr, &["\\u001b[2J"]);
}

#[test]
fn help_is_grouped_and_shows_defaults_and_examples() {
    let (code, stdout, _) = run(silverback(&["--help"]));
    assert_eq!(code, 0);
    check_holds(
        &stdout,
        &["Node:", "Limits:", "Timeouts:", "Examples:", "check-config", "SILVERBACK_DATA_DIR"],
    );
    check_holds(&stdout, &["--retention <DURATION>", "[default: 26h]"]);
}

#[test]
fn every_option_stands_in_the_documents() {
    let (_, help, _) = run(silverback(&["--help"]));
    let documents = include_str!("../../README.md").to_owned()
        + include_str!("../../docs/api.md")
        + include_str!("../../docs/operations.md")
        + include_str!("../../docs/security.md");
    let options = help.lines().filter_map(|line| {
        let option = line.trim_start().trim_start_matches("-h, ").trim_start_matches("-V, ");
        option.starts_with("--").then(|| option.split([' ', '=', '[']).next().expect("a split has a first"))
    });
    let options: Vec<_> = options.filter(|option| !["--help", "--version"].contains(option)).collect();
    assert!(options.contains(&"--retention") && options.len() > 50, "{options:?}");
    let told = |option: &str| {
        documents
            .split(option)
            .skip(1)
            .any(|after| !after.starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric()))
    };
    let untold: Vec<_> = options.into_iter().filter(|option| !told(option)).collect();
    assert!(untold.is_empty(), "in no document: {untold:?}");
}

#[test]
fn the_version_is_the_package_s() {
    let (code, stdout, _) = run(silverback(&["--version"]));
    assert_eq!((code, stdout.trim()), (0, concat!("silverback ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn every_shell_has_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, stdout, stderr) = run(silverback(&["completions", shell]));
        assert_eq!((code, stderr.as_str()), (0, ""));
        check_holds(&stdout, &["check-config", "wal-segment-bytes"]);
    }
    let (code, _, stderr) = run(silverback(&["completions", "cmd"]));
    assert_eq!(code, 2);
    check_holds(&stderr, &["bash", "zsh", "fish"]);
}

#[test]
fn every_command_has_its_page_in_the_manual() {
    let dir = std::env::temp_dir().join(format!("silverback-cli-{}-man", std::process::id()));
    let missing = run(silverback(&["man", dir.to_str().unwrap()]));
    check_holds(&missing.2, &["the manual in", "No such file"]);
    std::fs::create_dir(&dir).unwrap();
    let written = run(silverback(&["man", dir.to_str().unwrap()]));
    let page = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let (node, verify) = (page("silverback.1"), page("silverback-wal-verify.1"));
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!((missing.0, written), (1, (0, String::new(), String::new())));
    // Hyphens as in options, or they couldn't be copied.
    check_holds(
        &node,
        &[".TH silverback 1", r"\-\-retention", r"silverback\-check\-config(1)", "remote_write"],
    );
    check_holds(&verify, &[".TH silverback-wal-verify 1", "data directory"]);
}

#[test]
fn a_checked_configuration_is_printed_with_the_origin_of_each_value() {
    let file = ConfigFile::create("origins", "retention: 2d\nmax-reads: 5\n");
    let mut command = silverback(&["check-config", "--config", file.path(), "--max-reads=7"]);
    command.env("SILVERBACK_SHARDS", "2");
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let origin = |name: &str| {
        let line = stdout.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once("  # ").unwrap().1.to_owned()
    };
    assert_eq!(origin("retention: 2d"), format!("file {}:1", file.path()));
    assert_eq!(origin("max-reads: 7"), "flag --max-reads");
    assert_eq!(origin("shards: 2"), "env SILVERBACK_SHARDS");
    assert_eq!(origin("listen: "), "default");
}

#[test]
fn flags_count_before_and_after_the_subcommand() {
    let (code, stdout, _) =
        run(silverback(&["--max-reads=5", "--shards=3", "check-config", "--max-reads=7"]));
    assert_eq!(code, 0);
    check_holds(&stdout, &["max-reads: 7", "shards: 3"]);
}

#[test]
fn all_faults_of_a_configuration_are_told_together() {
    let file = ConfigFile::create("faults", "retension: 2d\nmax-reads: 0\n");
    let mut command = silverback(&["check-config", "--config", file.path(), "--request-timeout=5s"]);
    command.env("SILVERBACK_SHARDS", "many");
    let (code, stdout, stderr) = run(command);
    assert_eq!((code, stdout.as_str()), (2, ""));
    check_holds(&stderr, &["4 faults", "did you mean retention?", "max-reads (file ", "SILVERBACK_SHARDS"]);
    check_holds(&stderr, &["header-timeout (default) and request-timeout (flag --request-timeout)"]);
}

#[test]
fn a_node_does_not_start_on_a_faulty_configuration() {
    for arguments in [&["--retention=5"][..], &["run", "--retention=5"]] {
        let (code, _, stderr) = run(silverback(arguments));
        assert_eq!(code, 2);
        check_holds(&stderr, &["retention (flag --retention)", "not a duration"]);
    }
}

#[test]
fn the_log_s_commands_explain_themselves() {
    let (code, stdout, _) = run(silverback(&["wal", "--help"]));
    assert_eq!(code, 0);
    check_holds(&stdout, &["inspect", "verify", "nothing is changed"]);
    let (code, stdout, _) = run(silverback(&["wal", "verify", "--help"]));
    assert_eq!(code, 0);
    check_holds(&stdout, &["<DIR>", "The node must not be running", "Exit code: 0 if"]);
    assert_eq!(run(silverback(&["wal"])).0, 2);
}

#[test]
fn an_unknown_flag_is_refused_with_the_nearest_one() {
    let (code, _, stderr) = run(silverback(&["check-config", "--retension=5h"]));
    assert_eq!(code, 2);
    check_holds(&stderr, &["--retension", "--retention"]);
}

#[test]
fn a_memory_limit_too_small_for_its_shards_is_told_with_the_least_that_would_do() {
    let small = ["check-config", "--shards=8", "--memory-limit=128MiB"];
    let (code, _, stderr) = run(silverback(&small));
    assert_eq!(code, 2);
    check_holds(&stderr, &["too small for 8 shards", "MiB at least", "--memory-limit"]);
    let (code, stdout, _) = run(silverback(&["check-config", "--shards=1", "--memory-limit=512MiB"]));
    assert_eq!(code, 0);
    check_holds(
        &stdout,
        &["memory-limit: 512MiB", "# memory here: limit 512 MiB", " connections to each core"],
    );
}

/// Another machine's files, removed when the test ends.
struct Tree(PathBuf);

impl Tree {
    fn create(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("silverback-cli-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(root)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

const TWO_NODES: [(&str, &str); 6] = [
    ("sys/devices/system/cpu/online", "0-3\n"),
    ("sys/devices/system/node/online", "0-1\n"),
    ("sys/devices/system/node/node0/cpulist", "0-1\n"),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 8388608 kB\n"),
    ("sys/devices/system/node/node1/cpulist", "2-3\n"),
    ("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 8388608 kB\n"),
];

#[test]
fn the_topology_of_this_machine_is_shown_as_a_picture_and_as_json() {
    let (code, stdout, stderr) = run(silverback(&["topology"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    check_holds(&stdout, &["node 0", "s0", " shard"]);
    let (code, stdout, _) = run(silverback(&["--shards=1", "topology", "--json"]));
    assert_eq!(code, 0);
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(json["shards"].as_array().unwrap().len(), 1);
}

#[test]
fn the_topology_of_another_machine_is_read_from_its_files() {
    let tree = Tree::create("nodes", &TWO_NODES);
    let root = tree.0.to_str().unwrap();
    let (code, stdout, _) = run(silverback(&["topology", "--tree", root, "--shards=2"]));
    assert_eq!(code, 0);
    check_holds(&stdout, &["2 nodes, 4 usable cores", "s0  0", "s1  2", "no more shards were asked for"]);
    let (code, stdout, _) = run(silverback(&["topology", "--tree", root, "--affinity", "3"]));
    assert_eq!(code, 0);
    check_holds(&stdout, &["s0  3", "not in the affinity mask\n   0-2\n"]);
}

#[test]
fn a_topology_that_cannot_be_read_is_told_with_its_file() {
    let tree =
        Tree::create("garbage", &[&TWO_NODES[..1], &[("sys/devices/system/node/online", "x\n")]].concat());
    let root = tree.0.to_str().unwrap();
    let (code, stdout, stderr) = run(silverback(&["topology", "--tree", root]));
    assert_eq!((code, stdout.as_str()), (1, ""));
    check_holds(&stderr, &["node/online can't be understood"]);
    let (code, _, stderr) = run(silverback(&["topology", "--tree", root, "--affinity", "2-"]));
    assert_eq!(code, 1);
    check_holds(&stderr, &["--affinity \"2-\" isn't a list of CPUs"]);
    let (code, _, stderr) = run(silverback(&["topology", "--tree", "/nowhere", "--affinity", "0"]));
    assert_eq!(code, 1);
    check_holds(&stderr, &["/nowhere has no sys/"]);
}

/// A reader that is gone before the first byte, as behind `| head` it may be.
fn check_nobody_reads(arguments: &[&str]) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = silverback(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), told.as_str()), (Some(0), ""), "{arguments:?}");
}

#[test]
fn no_command_complains_where_nobody_reads_on() {
    check_nobody_reads(&["check-config"]);
    check_nobody_reads(&["topology"]);
    check_nobody_reads(&["topology", "--json"]);
    check_nobody_reads(&["seccomp-profile"]);
    check_nobody_reads(&["completions", "bash"]);
    let file = std::env::temp_dir().join(format!("silverback-cli-{}-profile.json", std::process::id()));
    check_nobody_reads(&["seccomp-profile", "--install", file.to_str().unwrap()]);
    std::fs::remove_file(file).unwrap();
}

/// A node that is started for its log; dropping it ends it and removes what it left.
struct Started {
    process: Process,
    home: Scratch,
}

impl Started {
    fn new(arguments: &[&str]) -> Self {
        let home = Scratch::new();
        let mut command = silverback(arguments);
        command.arg("--shards=2").arg("--data-dir").arg(home.join("data"));
        Self { process: Process::start(command, home.join("log")), home }
    }

    /// Its log up to the line that holds this.
    fn log_until(&mut self, part: &str) -> Vec<String> {
        self.process.wait_until(part, |process| {
            let told = process.told();
            let (before, after) = told.split_once(part)?;
            let (rest, _) = after.split_once('\n')?;
            Some([before, part, rest].concat().lines().map(str::to_owned).collect())
        })
    }

    /// Tells it to end, and gives all of its log.
    fn stop(mut self) -> Vec<String> {
        self.process.signal(15);
        assert!(self.process.wait().success());
        self.process.told().lines().map(str::to_owned).collect()
    }
}

/// What isn't about the machine: its file systems, its quota.
fn warnings(log: &[String]) -> Vec<&String> {
    let of_machine = |line: &&String| line.contains("preflight") || line.contains("placement");
    log.iter()
        .filter(|line| line.contains(" WARN ") || line.contains("ERROR"))
        .filter(|l| !of_machine(l))
        .collect()
}

#[test]
fn a_start_ends_with_what_to_do_next_and_warns_of_nothing() {
    let mut node = Started::new(&["--listen=127.0.0.1:0", "--self-scrape-interval=1s"]);
    let log = node.log_until("silverback is ready");
    check_holds(
        log.last().unwrap(),
        &["http://127.0.0.1:", "/api/v1/write", "shards=2", "data_dir=", "README"],
    );
    // Long enough to store its own metrics.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(warnings(&node.stop()), Vec::<&String>::new());
}

#[test]
fn a_stop_while_starting_warns_once_at_the_most() {
    for _ in 0..5 {
        let mut node = Started::new(&["--listen=127.0.0.1:0", "--no-self-scrape"]);
        node.log_until("silverback is starting");
        let log = node.stop();
        assert!(warnings(&log).len() <= 1, "{log:#?}");
    }
}

#[test]
fn who_listens_for_everybody_is_warned_once() {
    let mut node = Started::new(&["--listen=0.0.0.0:0"]);
    let log = node.log_until("silverback is ready");
    let warned = warnings(&log);
    assert_eq!(warned.len(), 1, "{log:#?}");
    check_holds(warned[0], &["there is no authentication", "0.0.0.0:"]);
    check_holds(log.last().unwrap(), &["http://localhost:"]);
}

#[test]
fn an_address_in_use_says_what_to_do_and_leaves_nothing_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let mut node = Started::new(&[&listen]);
    assert_eq!(node.process.wait().code(), Some(1));
    check_holds(&node.process.told(), &["another process listens there", "`ss -ltnp`", "--listen"]);
    assert!(!node.home.join("data").exists());
}

#[test]
fn a_file_as_data_directory_is_told_as_one() {
    let file = ConfigFile::create("no-directory", "");
    let (code, _, stderr) = run(silverback(&["--listen=127.0.0.1:0", "--data-dir", file.path()]));
    assert_eq!(code, 2);
    check_holds(&stderr, &["it is a file", "--data-dir names a directory"]);
}
