//! `silverback wal`: what it says of logs that are whole, torn and damaged, and that it writes to none.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use silverback_test_support::home::names;

use crate::home;
use crate::written_log::{ARGUMENTS, GENERATION, GROUPS, SEGMENT, WrittenLog, check_holds};

/// What `wal verify` says, and its exit code; the segment is the same afterwards.
fn check_verify(written: &WrittenLog, code: i32, expect: &[&str]) {
    let before = fs::read(&written.segment).unwrap();
    let (found, told, complaint) = written.home.look_at_logs(&["verify"]);
    assert_eq!((found, complaint.as_str()), (code, ""), "{told}");
    check_holds(&told, expect);
    assert!(before == fs::read(&written.segment).unwrap(), "nothing was written");
}

#[test]
fn a_whole_log_is_listed_and_verified() {
    let written = WrittenLog::with_groups("whole", 3);
    let (code, told, _) = written.home.look_at_logs(&["inspect", "--records"]);
    let [first, second, third] = [1, 2, 3].map(|group| written.group_at(group));
    let expect = format!(
        "\
generation 1, 1 shard

shard 0: wal/g1-s1/0
  file                         size  groups  series  samples  histograms  start timestamps  exemplars  removed  bytes/sample
  00000000000000000001.wal  1.0 MiB  1 to 3       1        3           0                 0          0        0          72.0

  00000000000000000001.wal
    record   of  group  at byte
    series    1      1  {first:>7}
    samples   1      1  {first:>7}
    samples   1      2  {second:>7}
    samples   1      3  {third:>7}
"
    );
    assert_eq!((code, told), (0, expect));
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    let expect = "shard 0: no checkpoint, 3 groups up to 3: 1 series, 3 samples, 0 histograms, 0 start timestamps, \
                  0 exemplars, 0 removed\nno damage\n";
    assert_eq!((code, told.as_str()), (0, expect));
}

#[test]
fn what_a_clean_stop_left_and_the_identity_are_checked_too() {
    let written = WrittenLog::new("verify-beside");
    written.home.start_ready(&ARGUMENTS).stop();
    let data_dir = written.home.data_dir();
    let closed = written.segment.with_file_name("closed");
    let flip = |file: &std::path::Path| {
        let mut bytes = fs::read(file).unwrap();
        bytes[12] ^= 1;
        fs::write(file, bytes).unwrap();
    };
    flip(&closed);
    check_verify(&written, 1, &["damage: what the last clean stop left (closed) can't be read", "1 damage"]);
    flip(&closed);
    flip(&data_dir.join("node.copy"));
    check_verify(&written, 0, &["repaired when a node starts: node.copy: ", "no damage"]);
    fs::remove_file(data_dir.join("node.copy")).unwrap();
    check_verify(&written, 0, &["repaired when a node starts: node.copy is missing", "no damage"]);
    written.home.start_ready(&ARGUMENTS).stop();
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    assert!(code == 0 && !told.contains("repaired"), "{told}");
}

#[test]
fn each_damage_is_told_with_its_place_and_its_loss() {
    let written = WrittenLog::new("verify-damaged");
    check_verify(&written, 0, &["no damage"]);
    let segment = format!("wal/{GENERATION}/0/{SEGMENT}");
    for group in [50, 51, 70] {
        written.overwrite(written.group_at(group) + 30, b"damage");
    }
    let (first, second) = (written.group_at(50), written.group_at(70));
    let lost = [
        &*format!("damage: {segment} at byte {first}: groups 50 to 51 are lost"),
        &format!("damage: {segment} at byte {second}: group 70 is lost"),
        "2 damages; `--wal-recovery=salvage`",
    ];
    check_verify(&written, 1, &lost);
    let (code, told, _) = written.home.look_at_logs(&["inspect"]);
    assert_eq!(code, 0);
    check_holds(&told, &["1 to 100", &format!("{SEGMENT} at byte {first}: group 50 isn't whole")]);
    // The series is made in the first group: without it the others mean nothing.
    written.overwrite(written.group_at(1) + 30, b"damage");
    check_verify(&written, 1, &["group 1 is lost", "samples of 1 series that nobody made", "4 damages"]);
}

#[test]
fn a_torn_tail_is_told_with_what_it_may_be() {
    let written = WrittenLog::new("verify-torn");
    let at = written.group_at(GROUPS);
    written.overwrite(at + 30, &[0; 100]);
    let torn = format!("{SEGMENT} at byte {at}: group {GROUPS} isn't whole.");
    let expect = [
        "torn or damaged: ",
        &torn,
        "can't be known",
        "99 groups up to 99",
        "\nno damage but what may be torn or damaged\n",
    ];
    check_verify(&written, 0, &expect);
}

#[test]
fn a_checkpoint_is_listed_and_its_damage_told() {
    let written = WrittenLog::new("verify-checkpoint");
    // Another number of shards begins with a checkpoint.
    written.home.start_ready(&["--shards=2"]).kill();
    let (code, told, _) = written.home.look_at_logs(&["inspect"]);
    assert_eq!(code, 0);
    check_holds(&told, &["generation 2, 2 shards", "before 1", "checkpoint written ", "s ago"]);
    let samples_told = told.lines().any(|line| line.contains("before 1 ") && line.contains(" 100 "));
    assert!(samples_told, "{told}");
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    assert_eq!(code, 0, "{told}");
    check_holds(&told, &["1 series, 100 samples, 0 histograms", "no damage"]);

    for shard in 0..2 {
        let dir = written.home.log_dir("g2-s2", shard);
        let path = dir.join(&names(&dir, ".checkpoint")[0]);
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"damage", written.block_bytes + 30).unwrap();
    }
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    assert_eq!(code, 1, "{told}");
    check_holds(&told, &["checkpoint's end is lost", "2 damages"]);
}

#[test]
fn a_log_of_another_node_is_not_taken_for_a_damaged_one() {
    let [written, other] = ["verify-own", "verify-other"].map(|name| WrittenLog::with_groups(name, 1));
    fs::copy(&other.segment, &written.segment).unwrap();
    let (code, _, complaint) = written.home.look_at_logs(&["verify"]);
    assert_eq!(code, 1);
    check_holds(&complaint, &[SEGMENT, "it was written by another node"]);
}

#[test]
fn a_running_node_s_logs_are_left_alone_and_a_strange_directory_too() {
    let home = home("running");
    for command in ["inspect", "verify"] {
        let (code, told, complaint) = home.look_at_logs(&[command]);
        assert_eq!((code, told.as_str()), (1, ""));
        check_holds(&complaint, &["isn't a data directory: no node has ever run on it"]);
        assert_eq!(names(&home.data_dir(), ""), [""; 0]);
    }
    let _node = home.start_ready(&ARGUMENTS);
    for command in ["inspect", "verify"] {
        let (code, told, complaint) = home.look_at_logs(&[command]);
        assert_eq!((code, told.as_str()), (1, ""));
        check_holds(&complaint, &["another silverback (pid ", "once it has stopped"]);
    }
}
