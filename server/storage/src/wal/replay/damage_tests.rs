//! Files that were cut, deleted, changed for each other or rotted: none of it passes for a whole log.

use std::cell::RefCell;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::rc::Rc;

use futures::executor::block_on;

use super::tests::{BLOCK, SEGMENT_BYTES, TestLog};
use super::*;
use crate::wal::segment::{newest_name, spare_name};

fn path(log: &TestLog, name: &str) -> PathBuf {
    log.root.join("log").join(name)
}

fn cut(log: &TestLog, seq: u64, bytes: u64) {
    let file = OpenOptions::new().write(true).open(path(log, &segment_name(seq))).unwrap();
    file.set_len(bytes).unwrap();
}

/// All files of a log, to have it again as it was: writing one takes many syncs.
struct Files(Vec<(PathBuf, Vec<u8>)>);

impl Files {
    fn of(log: &TestLog) -> Self {
        let entries = fs::read_dir(log.root.join("log")).unwrap();
        Self(
            entries
                .map(|entry| entry.unwrap().path())
                .map(|path| (path.clone(), fs::read(path).unwrap()))
                .collect(),
        )
    }

    fn bring_back(&self, log: &TestLog) {
        Self::of(log).0.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        self.0.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    }
}

/// A strict replay refuses it, and a salvaging one comes to these values.
fn check_damaged(log: &TestLog, values: &[u64], what: &str) {
    assert!(matches!(log.replay(WalRecovery::Strict), Err(ReplayError::Damaged(_))), "{what}");
    let (found, salvaged) = log.replay(WalRecovery::Salvage).unwrap();
    assert_eq!(salvaged, values, "{what}: {:?}", found.damage);
    assert!(!found.damage.is_empty() && found.unfilled.is_none(), "{what}");
}

#[test]
fn a_shortened_segment_is_damage_wherever_it_is_cut() {
    let log = TestLog::with_groups(8);
    let files = Files::of(&log);
    let boundaries = [0, 1, 39, 40, 41, 55, 56, 57];
    let in_blocks = (1..=4).flat_map(|block| {
        let at = (block * BLOCK) as u64;
        [at - 1, at, at + 1, at + 23, at + 24, at + 25, at + 100]
    });
    for bytes in boundaries.into_iter().chain(in_blocks).filter(|bytes| *bytes < SEGMENT_BYTES) {
        for seq in 1..=3 {
            files.bring_back(&log);
            let groups = |seq: u64| 3 * seq - 2..=(3 * seq).min(8);
            cut(&log, seq, bytes);
            // A small group takes less than its block, whose rest is zeros.
            let whole = |group: u64| {
                let begins = (1 + (group - 1) % 3) * BLOCK as u64;
                let name = path(&log, &segment_name(seq));
                let frame = fs::read(&name)
                    .unwrap()
                    .get(begins as usize + 4..begins as usize + 8)
                    .map(|len| begins + 24 + u64::from(u32::from_le_bytes(len.try_into().unwrap())));
                frame.is_some_and(|end| end <= bytes)
            };
            let values: Vec<u64> =
                (1..=8).filter(|group| !groups(seq).contains(group) || whole(*group)).collect();
            if values.len() == 8 && seq < 3 {
                // What is missing had nothing in it.
                assert_eq!(log.values(), values);
                continue;
            }
            check_damaged(&log, &values, &format!("segment {seq} cut to {bytes} bytes"));
        }
    }
}

#[test]
fn the_words_say_what_a_shortened_segment_lacks() {
    let log = TestLog::with_groups(5);
    cut(&log, 2, 2 * BLOCK as u64 + 30);
    let missing = SEGMENT_BYTES - (2 * BLOCK as u64 + 30);
    let expect = format!(
        "log/00000000000000000002.wal at byte 1054: the last {missing} bytes of the file are missing, and with \
         them what came after group 4"
    );
    log.check_damage(&expect, &[1, 2, 3, 4]);
}

#[test]
fn a_segment_that_is_missing_before_an_empty_one_is_damage() {
    let log = TestLog::with_groups(3);
    log.begin_segment(2, Lsn(3));
    assert_eq!(log.values(), [1, 2, 3]);
    fs::remove_file(path(&log, &segment_name(1))).unwrap();
    // It was made while there were three: whether others came to the one before it can't be known.
    let expect = "log/00000000000000000002.wal at byte 0: groups 1 to 3 are lost, and what came after them in the same \
                  segment";
    log.check_damage(expect, &[]);
}

#[test]
fn the_last_group_s_rot_is_damage_after_a_clean_stop_and_can_t_be_told_after_a_crash() {
    let log = TestLog::with_groups(5);
    log.overwrite(2, 2 * BLOCK + 30, &[0xff; 4]);
    let (found, _) = log.replay(WalRecovery::Strict).unwrap();
    let torn = found.torn.unwrap().to_string();
    assert!(
        torn.contains("group 5 isn't whole") && torn.contains("can't be known, because no file `closed`"),
        "{torn}"
    );
    log.close(Lsn(5));
    log.check_damage("log/00000000000000000002.wal at byte 1024: group 5 is lost", &[1, 2, 3, 4]);
}

#[test]
fn what_a_clean_stop_left_stays_true_while_the_log_goes_on() {
    let log = TestLog::with_groups(5);
    log.close(Lsn(3));
    assert_eq!(log.values(), [1, 2, 3, 4, 5]);
    // Nobody but the reader of a log needs it.
    fs::write(path(&log, CLOSING_NAME), [7; 60]).unwrap();
    assert_eq!(log.values(), [1, 2, 3, 4, 5]);
}

#[test]
fn a_log_that_was_salvaged_goes_on_behind_what_it_lost() {
    let log = TestLog::with_groups(5);
    log.close(Lsn(5));
    fs::remove_file(path(&log, &segment_name(2))).unwrap();
    let (found, values) = log.replay(WalRecovery::Salvage).unwrap();
    assert_eq!((found.last, values), (Lsn(5), vec![1, 2, 3]));
    log.write_empty_checkpoint(Lsn(6));
    log.write(3, 6..=7);
    assert_eq!(log.values(), [6, 7]);
}

#[test]
fn files_that_are_called_by_impossible_numbers_are_told() {
    let log = TestLog::with_groups(5);
    fs::write(path(&log, &checkpoint_name(Lsn(0))), [7; 100]).unwrap();
    fs::write(path(&log, &spare_name(u64::MAX)), [7; 100]).unwrap();
    log.check_damage("00000000000000000000.checkpoint at byte 0: the file can't be read", &[1, 2, 3, 4, 5]);
    fs::rename(path(&log, &segment_name(1)), path(&log, &segment_name(u64::MAX))).unwrap();
    for recovery in [WalRecovery::Strict, WalRecovery::Salvage] {
        assert!(matches!(log.replay(recovery), Err(ReplayError::Foreign(..))));
    }
}

/// Takes files away by their names.
fn take_away(log: &TestLog, names: impl IntoIterator<Item = String>) {
    names.into_iter().for_each(|name| fs::remove_file(path(log, &name)).unwrap());
}

#[test]
fn each_segment_that_was_taken_away_is_told_after_a_crash_too() {
    let log = TestLog::with_groups(8);
    let files = Files::of(&log);
    for taken in 1..8_u64 {
        files.bring_back(&log);
        let is_taken = |seq: u64| (taken >> (seq - 1)) & 1 == 1;
        take_away(&log, (1..=3).filter(|seq| is_taken(*seq)).map(segment_name));
        let left: Vec<u64> = (1..=8_u64).filter(|group| !is_taken(group.div_ceil(3))).collect();
        check_damaged(&log, &left, &format!("{taken:b}"));
        // Nobody but the reader of a log needs to know which was the newest.
        take_away(&log, [newest_name(3)]);
        let is_told = log.replay(WalRecovery::Strict).is_err();
        assert!(is_told || taken == 0b100 || taken == 0b110, "{taken:b}");
    }
    files.bring_back(&log);
    take_away(&log, [newest_name(3)]);
    assert_eq!(log.values(), (1..=8).collect::<Vec<u64>>());
}

#[test]
fn the_words_say_what_a_log_lacks() {
    let log = TestLog::with_groups(8);
    take_away(&log, [segment_name(3)]);
    let newest = "log/00000000000000000003.wal: the log's newest segment is missing, and with it what came after \
                  group 6";
    log.check_damage(newest, &[1, 2, 3, 4, 5, 6]);
    take_away(&log, [segment_name(1), segment_name(2)]);
    let gone =
        "log/: the log of shard 0 is gone: none of its segments is there, and all that was in them is lost";
    log.check_damage(gone, &[]);
    take_away(&log, [newest_name(3)]);
    log.check_damage(gone, &[]);
    log.write_empty_checkpoint(Lsn(7));
    log.check_damage("the segments of shard 0's log are gone, and with them what came after group 6", &[]);
    fs::remove_dir_all(log.root.join("log")).unwrap();
    log.check_damage(gone, &[]);
}

#[test]
fn a_log_that_never_had_a_segment_is_whole() {
    let log = TestLog::with_groups(0);
    assert!(log.replay(WalRecovery::Strict).is_err(), "it says nothing");
    fs::write(path(&log, &newest_name(0)), []).unwrap();
    assert_eq!(log.values(), [0; 0]);
    log.write_empty_checkpoint(Lsn(1));
    assert_eq!(log.values(), [0; 0]);
}

#[test]
fn what_is_left_of_a_log_without_segments_can_t_pass_for_groups_of_the_next_ones() {
    let log = TestLog::with_groups(5);
    fs::rename(path(&log, &segment_name(1)), path(&log, &spare_name(1))).unwrap();
    take_away(&log, [segment_name(2)]);
    let (found, _) = log.replay(WalRecovery::Salvage).unwrap();
    assert_eq!((found.next_seq, found.segment_set.spares.len()), (3, 0));
    take_away(&log, [newest_name(2)]);
    let (found, _) = log.replay(WalRecovery::Salvage).unwrap();
    assert_eq!((found.next_seq, found.segment_set.spares.len()), (1, 0));
}

#[test]
fn a_newest_segment_that_a_log_lets_go_of_is_not_called_the_newest() {
    let log = TestLog::with_groups(0);
    log.begin_segment(1, Lsn(0));
    log.begin_segment(2, Lsn(0));
    let segment_set = Rc::new(RefCell::new(log.replay(WalRecovery::Strict).unwrap().0.segment_set));
    assert_eq!(segment_set.borrow().marked, Some(2));
    // The last segments, before there is another one.
    let all = segment_set.borrow().spares.iter().map(|spare| spare.bytes).sum::<u64>();
    assert_eq!(all, SEGMENT_BYTES, "the log goes on in the other one");
    block_on(crate::wal::segments::recycle(log.place(), &segment_set, Lsn(0), 0)).unwrap();
    assert_eq!(segment_set.borrow().marked, Some(0));
}

/// Numbers that look drawn.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Does something to the files of a log. Returns what.
fn hurt(log: &TestLog, draws: &mut Draws) -> String {
    let files = [segment_name(1), segment_name(2), segment_name(3), checkpoint_name(Lsn(5))];
    let name = &files[draws.below(files.len() as u64) as usize];
    let file = path(log, name);
    let Ok(mut bytes) = fs::read(&file) else { return format!("{name} was gone") };
    match draws.below(5) {
        0 => {
            fs::remove_file(file).unwrap();
            format!("{name} deleted")
        }
        1 => {
            let left = draws.below(bytes.len() as u64 + 1);
            fs::write(file, &bytes[..left as usize]).unwrap();
            format!("{name} cut to {left}")
        }
        2 => {
            let other = &files[draws.below(files.len() as u64) as usize];
            let between = path(log, &spare_name(9));
            fs::rename(&file, &between).unwrap();
            // It may be gone.
            drop(fs::rename(path(log, other), &file));
            fs::rename(between, path(log, other)).unwrap();
            format!("{name} and {other} changed for each other")
        }
        3 if !bytes.is_empty() => {
            let (at, bit) = (draws.below(bytes.len() as u64) as usize, draws.below(8));
            bytes[at] ^= 1 << bit;
            fs::write(file, bytes).unwrap();
            format!("{name} bit {bit} of byte {at} turned over")
        }
        _ => {
            let at = draws.below(bytes.len() as u64 + 1) as usize;
            let end = bytes.len().min(at + draws.below(BLOCK as u64 * 2) as usize);
            bytes[at..end].fill(0);
            fs::write(file, bytes).unwrap();
            format!("{name} zeros from {at} to {end}")
        }
    }
}

#[test]
fn nothing_that_was_there_at_a_clean_stop_goes_missing_unnoticed() {
    let log = TestLog::with_groups(8);
    log.write_empty_checkpoint(Lsn(5));
    log.close(Lsn(8));
    let (files, mut noticed) = (Files::of(&log), 0);
    for seed in 0..400 {
        let mut draws = Draws(seed);
        files.bring_back(&log);
        let hurts: Vec<String> = (0..1 + draws.below(3)).map(|_| hurt(&log, &mut draws)).collect();
        let strict = log.replay(WalRecovery::Strict);
        let (found, values) = log.replay(WalRecovery::Salvage).unwrap();
        assert!(values.is_sorted(), "seed {seed}: {hurts:?}: {values:?}");
        assert_eq!(strict.is_err(), !found.damage.is_empty(), "seed {seed}: {hurts:?}");
        noticed += usize::from(strict.is_err());
        if !(5..=8).all(|group| values.contains(&group)) {
            assert!(strict.is_err(), "seed {seed}: {hurts:?}: {values:?}");
        }
    }
    assert!((50..400).contains(&noticed), "{noticed}");
}
