//! Logs that were damaged, or torn at their end, while no node ran.

use std::fs::{self, OpenOptions};
use std::path::Path;

use silverback_test_support::home::names;

use crate::counted::Counted;
use crate::home;
use crate::written_log::{ARGUMENTS, GENERATION, GROUPS, SEGMENT, WrittenLog, check_holds};

#[test]
fn a_damaged_log_keeps_a_strict_node_from_starting_and_a_salvaging_one_tells_the_loss() {
    let mut written = WrittenLog::new("damaged");
    let at = written.group_at(50);
    written.overwrite(at + 30, b"damage");
    let place = format!("wal/{GENERATION}/0/{SEGMENT} at byte {at}: group 50 is lost");
    let before = fs::read(&written.segment).unwrap();
    for _ in 0..2 {
        let (code, told) = written.home.run(&ARGUMENTS);
        assert_eq!(code, 1, "{told}");
        check_holds(&told, &[&place, "`silverback wal verify`", "`--wal-recovery=salvage`"]);
    }
    assert!(before == fs::read(&written.segment).unwrap(), "a start that fails changes nothing");

    let mut node = written.start_with("--wal-recovery=salvage");
    check_holds(&node.told(), &[&place]);
    written.check_read(&mut node, &[50]);
    written.counted.write(&mut node, 1);
    node.kill();
    // What was salvaged was written out whole: the damage is gone, and the log goes on.
    let mut node = written.start_with("--wal-recovery=strict");
    let numbers = written.counted.read(&mut node);
    assert_eq!((numbers.len(), numbers.last()), (GROUPS, Some(&(GROUPS as i64 + 1))));
}

#[test]
fn a_segment_whose_header_is_damaged_is_gone_once_the_rest_is_salvaged() {
    let mut written = WrittenLog::new("header");
    written.overwrite(26, b"damage");
    let place = format!("wal/{GENERATION}/0/{SEGMENT} at byte 0: the file can't be read");
    let (code, told) = written.home.run(&ARGUMENTS);
    assert_eq!(code, 1, "{told}");
    check_holds(&told, &[&place]);

    let mut node = written.start_with("--wal-recovery=salvage");
    check_holds(&node.told(), &[&place]);
    written.counted.write(&mut node, 1);
    node.kill();
    let mut node = written.start_with("--wal-recovery=strict");
    assert_eq!(written.counted.read(&mut node), [GROUPS as i64 + 1], "the segment had all the others");
}

/// Damages the end as `damage` does, and checks that the node starts all the same.
fn check_torn(name: &str, damage: impl Fn(&WrittenLog)) {
    let mut written = WrittenLog::new(name);
    damage(&written);
    let mut node = written.start_with("--wal-recovery=strict");
    let at = written.group_at(GROUPS);
    check_holds(
        &node.told(),
        &["isn't whole and was cut off: torn, or damaged", &format!("{SEGMENT} at byte {at}")],
    );
    written.check_read(&mut node, &[GROUPS as i64]);
    written.counted.write(&mut node, 1);
    node.kill();
    let mut node = written.start_with("--wal-recovery=strict");
    let numbers = written.counted.read(&mut node);
    assert_eq!(numbers.len(), GROUPS, "what was torn stays out, what came later is there");
    assert_eq!(numbers.last(), Some(&(GROUPS as i64 + 1)));
}

#[test]
fn a_group_whose_end_never_reached_the_disk_is_cut_with_a_warning() {
    check_torn("torn", |written| {
        let at = written.group_at(GROUPS) + 30;
        written.overwrite(at, &vec![0; written.block_bytes as usize - 30]);
    });
}

#[test]
fn a_shortened_segment_is_damage_and_no_start_hangs_on_it() {
    for (name, blocks, more, left) in
        [("cut-header", 0, 40, 0), ("cut-block", 1, 10, 0), ("cut-middle", 50, 30, 49)]
    {
        let mut written = WrittenLog::new(name);
        let bytes = written.group_at(blocks) + more;
        OpenOptions::new().write(true).open(&written.segment).unwrap().set_len(bytes).unwrap();
        let (code, told, _) = written.home.look_at_logs(&["verify"]);
        assert_eq!(code, 1, "{told}");
        check_holds(&told, &[&format!("damage: wal/{GENERATION}/0/{SEGMENT} at byte ")]);
        let inspected = written.home.look_at_logs(&["inspect"]).1;
        check_holds(&inspected, &[if blocks > 0 { "bytes are missing" } else { "its header is damaged" }]);
        let (code, told) = written.home.run(&ARGUMENTS);
        assert_eq!(code, 1, "{told}");
        let mut node = written.start_with("--wal-recovery=salvage");
        assert_eq!(written.counted.read(&mut node), (1..=left).collect::<Vec<_>>());
        written.counted.write(&mut node, 1);
        node.kill();
        let mut node = written.start_with("--wal-recovery=strict");
        assert_eq!(written.counted.read(&mut node).len() as i64, left + 1);
    }
}

#[test]
fn a_directory_that_is_removed_beneath_a_node_is_noticed_and_shuts_its_logs() {
    check_noticed("removed", |data_dir| fs::remove_dir_all(data_dir).unwrap());
}

/// As when a snapshot is put in its place.
#[test]
fn a_directory_that_a_copy_takes_the_place_of_is_noticed_too() {
    check_noticed("replaced", |data_dir| {
        let [copy, away] = ["copy", "away"].map(|end| data_dir.with_extension(end));
        let copied = std::process::Command::new("cp").arg("-r").args([data_dir, &copy]).status();
        assert!(copied.unwrap().success());
        fs::rename(data_dir, &away).unwrap();
        fs::rename(&copy, data_dir).unwrap();
        fs::remove_dir_all(&away).unwrap();
    });
}

/// What is done to the data directory of a node that is just ready is noticed, and shuts its logs.
fn check_noticed(name: &str, harm: impl FnOnce(&Path)) {
    let (home, mut counted) = (home(name), Counted::new());
    let mut node = home.start_ready(&ARGUMENTS);
    counted.write(&mut node, 1);
    harm(&home.data_dir());
    let notice = "was removed or replaced while the node ran";
    node.wait_until("notice", |node| node.told().contains(notice).then_some(()));
    let answer = counted.try_write(&mut node);
    assert_eq!(answer.status, 503, "{}", answer.text());
    check_holds(&answer.text(), &["was removed or replaced"]);
    let ready = node.get("/-/ready");
    assert_eq!(ready.status, 503, "{}", ready.text());
}

#[test]
fn either_file_of_the_directory_s_identity_is_enough() {
    let written = WrittenLog::new("identity");
    for name in ["node", "node.copy"] {
        fs::write(written.home.data_dir().join(name), "damage").unwrap();
        assert_eq!(written.home.look_at_logs(&["verify"]).0, 0, "{name}");
        let mut node = written.start_with("--wal-recovery=strict");
        check_holds(&node.told(), &["identity was damaged", name]);
        written.check_read(&mut node, &[]);
        node.kill();
    }
}

#[test]
fn rot_in_the_last_group_is_damage_after_a_clean_stop() {
    let written = WrittenLog::new("rot-after-stop");
    written.start_with("--wal-recovery=strict").stop();
    let at = written.group_at(GROUPS);
    written.overwrite(at + 30, b"damage");
    let place = format!("damage: wal/{GENERATION}/0/{SEGMENT} at byte {at}: group {GROUPS} is lost");
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    assert_eq!(code, 1, "{told}");
    check_holds(&told, &[&place]);
    assert_eq!(written.home.run(&ARGUMENTS).0, 1);
}

/// Without the file that a clean stop leaves nothing tells rot from a write that was cut short, and nobody says so.
#[test]
fn rot_in_the_last_group_can_t_be_told_once_what_a_clean_stop_left_is_gone_too() {
    let mut written = WrittenLog::new("rot-unclosed");
    written.start_with("--wal-recovery=strict").stop();
    fs::remove_file(written.segment.with_file_name("closed")).unwrap();
    let at = written.group_at(GROUPS);
    written.overwrite(at + 30, b"damage");
    let place = format!("{SEGMENT} at byte {at}: group {GROUPS} isn't whole. A crash cut its write short");
    let words = [&*place, "or it was damaged later", "can't be known", "`closed`", "and this is damage"];
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    assert_eq!(code, 0, "{told}");
    check_holds(&told, &[&words[..], &["torn or damaged: ", "may be torn or damaged\n"]].concat());
    let mut node = written.start_with("--wal-recovery=strict");
    check_holds(&node.told(), &[&words[..], &["torn, or damaged"]].concat());
    written.counted.write(&mut node, 1);
}

/// Removes the files of a directory, but not itself.
fn remove_files(dir: &Path) {
    names(dir, "").into_iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
}

/// A log of which nothing is left is reported with these words everywhere; a salvaging start goes on empty.
fn check_gone(written: &mut WrittenLog, parts: &[&str]) {
    let before = names(&written.home.data_dir().join("wal"), "");
    for _ in 0..2 {
        let (code, told, _) = written.home.look_at_logs(&["verify"]);
        assert_eq!(code, 1, "{told}");
        check_holds(&told, &[&["damage: "], parts].concat());
        check_holds(&told, &["`--wal-recovery=salvage` starts a node"]);
        let (code, told) = written.home.run(&ARGUMENTS);
        assert_eq!(code, 1, "{told}");
        check_holds(&told, &[parts, &["Nothing was changed", "`--wal-recovery=salvage`"]].concat());
    }
    assert_eq!(names(&written.home.data_dir().join("wal"), ""), before);
    let mut node = written.start_with("--wal-recovery=salvage");
    check_holds(&node.told(), parts);
    assert_eq!(written.counted.read(&mut node), [0; 0]);
    written.counted.write(&mut node, 1);
    node.kill();
    let mut node = written.start_with("--wal-recovery=strict");
    assert_eq!(written.counted.read(&mut node), [GROUPS as i64 + 1]);
    node.stop();
    assert_eq!(written.home.look_at_logs(&["verify"]).0, 0);
}

#[test]
fn a_log_all_of_whose_files_are_gone_is_damage_after_a_crash_and_after_a_clean_stop() {
    let gone = format!("wal/{GENERATION}/0/: the log of shard 0 is gone");
    for (name, is_stopped) in [("gone-killed", false), ("gone-stopped", true)] {
        let mut written = WrittenLog::new(name);
        if is_stopped {
            written.start_with("--wal-recovery=strict").stop();
        }
        remove_files(written.segment.parent().unwrap());
        check_gone(&mut written, &[&gone]);
    }
    let mut written = WrittenLog::new("gone-segments");
    fs::remove_file(&written.segment).unwrap();
    check_gone(&mut written, &[&gone]);
    let mut written = WrittenLog::new("gone-directory");
    fs::remove_dir_all(written.segment.parent().unwrap()).unwrap();
    check_gone(&mut written, &[&gone]);
}

#[test]
fn logs_that_are_gone_with_their_directory_are_damage() {
    let gone = format!("the write-ahead logs are gone: wal/{GENERATION} is missing");
    let mut written = WrittenLog::new("gone-generation");
    fs::remove_dir_all(written.home.data_dir().join("wal").join(GENERATION)).unwrap();
    check_gone(&mut written, &[&gone]);

    let written = WrittenLog::new("gone-wal");
    fs::remove_dir_all(written.home.data_dir().join("wal")).unwrap();
    let (code, told) = written.home.run(&ARGUMENTS);
    assert_eq!(code, 1, "{told}");
    check_holds(&told, &[&gone, "to start afresh, empty the whole data directory"]);
    assert!(!written.home.data_dir().join("wal").exists(), "a start that fails changes nothing");
    remove_files(&written.home.data_dir());
    let mut node = written.start_with("--wal-recovery=strict");
    assert_eq!(written.counted.read(&mut node), [0; 0]);
}

#[test]
fn a_log_that_is_gone_is_told_after_another_number_of_shards_and_before_the_next_one() {
    let written = WrittenLog::new("gone-shards");
    written.home.start_ready(&["--shards=2"]).kill();
    remove_files(&written.home.log_dir("g2-s2", 1));
    for shards in ["--shards=2", "--shards=1"] {
        let (code, told) = written.home.run(&[shards]);
        assert_eq!(code, 1, "{told}");
        check_holds(&told, &["wal/g2-s2/1/: the log of shard 1 is gone"]);
    }
    written.home.start_ready(&["--shards=1", "--wal-recovery=salvage"]).stop();
    let (code, told, _) = written.home.look_at_logs(&["verify"]);
    assert_eq!(code, 0, "{told}");
}

#[test]
fn a_data_directory_of_an_older_version_goes_on_and_is_noted() {
    let written = WrittenLog::new("gone-older");
    let (data_dir, log_dir) = (written.home.data_dir(), written.home.log_dir(GENERATION, 0));
    for is_empty in [false, true] {
        for name in ["node", "node.copy"] {
            let text = fs::read_to_string(data_dir.join(name)).unwrap();
            fs::write(data_dir.join(name), format!("{}}}", text.split_once(",\"logs\"").unwrap().0)).unwrap();
        }
        names(&log_dir, "").iter().filter(|name| is_empty || name.starts_with("newest-")).for_each(|name| {
            fs::remove_file(log_dir.join(name)).unwrap();
        });
        let mut node = written.start_with("--wal-recovery=strict");
        if is_empty {
            assert_eq!(written.counted.read(&mut node), [0; 0], "nobody can know");
        } else {
            written.check_read(&mut node, &[]);
        }
        node.wait_until("note", |_| fs::read_to_string(data_dir.join("node.copy")).ok()?.find("logs"));
        node.kill();
        assert_eq!(names(&log_dir, "newest-1"), ["newest-1"]);
    }
    remove_files(&log_dir);
    assert_eq!(written.home.run(&ARGUMENTS).0, 1);
}
