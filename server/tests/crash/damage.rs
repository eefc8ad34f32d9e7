//! Logs that were damaged, or torn at their end, while no node ran.

use std::fs::{self, OpenOptions};

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
    check_holds(&node.told(), &["torn tail", &format!("{SEGMENT} at byte {at}")]);
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
fn a_file_that_ends_in_the_middle_of_a_group_is_cut_with_a_warning() {
    check_torn("truncated", |written| {
        let file = OpenOptions::new().write(true).open(&written.segment).unwrap();
        file.set_len(written.group_at(GROUPS) + 40).unwrap();
    });
}
