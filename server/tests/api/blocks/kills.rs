//! Kill -9 while ranges are cut: no half block, and after all each range once.

use std::collections::BTreeSet;

use silverback_node_test_support::blocks::{ReadBlock, names, read_blocks, together, within};
use silverback_test_support::random::Random;

use crate::blocks::cut::{cut_all, ranges_over};
use crate::blocks::{blocks_dir, home, hours, read_all, start, start_cutting, write};

const HOSTS: usize = 400;
const KILLS: usize = 8;

#[test]
fn kills_while_ranges_are_cut_leave_no_half_block_and_all_ranges_are_cut_once() {
    let home = home("blocks-kills");
    let dir = blocks_dir(&home.data_dir());
    let mut node = start(&home, 2);
    for host in (0..HOSTS).step_by(20) {
        let all: Vec<_> = (host..host + 20).map(|host| hours("load", host, 8)).collect();
        write(&mut node, &all);
    }
    let all = read_all(&mut node);
    assert_eq!(all.len(), HOSTS);
    node.kill();
    let (mut random, mut unfinished) = (Random::new(7), 0);
    for _kill in 0..KILLS {
        let mut node = start_cutting(&home, 2);
        let before = names(&dir).len();
        let is_cutting = |name: &String| name.ends_with(".tmp-for-creation");
        node.wait_until("a cut begins, or all are done", |_| {
            let now = names(&dir);
            (now.len() > before || now.iter().any(is_cutting) || before >= 4).then_some(())
        });
        std::thread::sleep(std::time::Duration::from_millis(random.below(60)));
        node.kill();
        unfinished += names(&dir).iter().filter(|name| is_cutting(name)).count();
        // Those that have a name are whole, whenever the kill came.
        read_blocks(&dir);
    }
    println!("{unfinished} of {KILLS} kills came while a block was written");
    let mut node = start_cutting(&home, 2);
    let blocks = cut_all(&mut node, &dir, &ranges_over(&all));
    assert_eq!(names(&dir).len(), read_blocks(&dir).len(), "nothing is left unfinished: {:?}", names(&dir));
    let found: BTreeSet<_> = blocks.iter().map(ReadBlock::range).collect();
    assert!(
        together(&blocks) == within(&all, |range| found.contains(&range)),
        "other samples than were written"
    );
    node.stop();
}
