//! Where executors' memory is, with the allocator that the node runs with.
//!
//! On a machine of one node there is little to see; `server/tests/numa/run` runs this on a virtual
//! machine of two.
#![expect(unsafe_code, reason = "it asks the system where memory lies")]

use std::collections::BTreeSet;
use std::ffi::{c_int, c_ulong};
use std::io;
use std::num::NonZeroUsize;
use std::ptr::null;
use std::sync::{Arc, Barrier, Mutex};

use silverback::config::ShardCount;
use silverback::placement::{PlacementPlan, Topology, plan};
use silverback_runtime as runtime;
use silverback_runtime::{Executor, Options, Shutdown};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PAGE_BYTES: usize = 4096;
const EXECUTORS: usize = 2;
const ROUNDS: usize = 20;
/// What an executor holds at a time, in blocks of the sizes that chunks, labels and parts have.
const HELD_BYTES: usize = 32 << 20;

type Block = Box<[u8]>;

/// The node that each of these pages is on.
fn nodes_of(pages: &[*const u8]) -> io::Result<Vec<c_int>> {
    let mut nodes: Vec<c_int> = vec![-1; pages.len()];
    let (count, no_nodes, flags) = (pages.len() as c_ulong, null::<c_int>(), 0 as c_int);
    // SAFETY: without a list of nodes nothing is moved: the kernel writes one status for each page.
    let result = unsafe {
        let nodes = nodes.as_mut_ptr();
        libc::syscall(libc::SYS_move_pages, 0, count, pages.as_ptr(), no_nodes, nodes, flags)
    };
    if result == 0 { Ok(nodes) } else { Err(io::Error::last_os_error()) }
}

/// Blocks of 64 bytes to 4 KiB, all written to.
fn allocate(bytes: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut left = bytes;
    while left > 0 {
        let size = 64 << (blocks.len() % 7);
        blocks.push(vec![1; size].into_boxed_slice());
        left = left.saturating_sub(size);
    }
    blocks
}

/// What part of the blocks' pages is on `node`, of those of which the kernel tells where they are: its
/// balancer makes pages fault now and then, and tells nothing of them until they have.
fn part_on(node: usize, blocks: &[Block]) -> io::Result<f64> {
    let page_of = |block: &Block| block.as_ptr() as usize / PAGE_BYTES * PAGE_BYTES;
    for block in blocks {
        std::hint::black_box(block[0]);
    }
    let pages: BTreeSet<usize> = blocks.iter().map(page_of).collect();
    let pages: Vec<_> = pages.into_iter().map(|page| page as *const u8).collect();
    let found: Vec<_> = nodes_of(&pages)?.into_iter().filter_map(|node| usize::try_from(node).ok()).collect();
    assert!(found.len() > pages.len() / 2, "of {} pages {} are told", pages.len(), found.len());
    let there = found.iter().filter(|found| **found == node).count();
    Ok(there as f64 / found.len() as f64)
}

/// What executors hand to each other.
struct Exchange {
    barrier: Barrier,
    slots: [Mutex<Vec<Block>>; EXECUTORS],
}

impl Exchange {
    /// Gives half of the blocks away, and drops what the other one gave: memory is freed by another
    /// thread than had it, as parts of requests are.
    fn trade(&self, index: usize, held: &mut Vec<Block>) {
        *self.slots[index].lock().unwrap() = held.split_off(held.len() / 2);
        self.barrier.wait();
        let taken = std::mem::take(&mut *self.slots[(index + 1) % EXECUTORS].lock().unwrap());
        drop(taken);
        self.barrier.wait();
    }
}

/// What part of its memory each executor has on its own node, at first and after trades.
fn measure(plan: &PlacementPlan) -> Vec<io::Result<(f64, f64)>> {
    let options = Options {
        io_memory_bytes: 64 << 10,
        memory_nodes: plan.memory_nodes(),
        ..Options::on_cpus(plan.cpus())
    };
    let exchange = Arc::new(Exchange {
        barrier: Barrier::new(EXECUTORS),
        slots: std::array::from_fn(|_| Mutex::default()),
    });
    let nodes: Vec<usize> = plan.seats.iter().map(|seat| seat.memory.unwrap_or(seat.node).0).collect();
    let start = move |executor: Executor<()>| {
        let (exchange, node) = (exchange.clone(), nodes[executor.index]);
        async move {
            let mut held = allocate(HELD_BYTES);
            let at_first = part_on(node, &held);
            for _ in 0..ROUNDS {
                exchange.trade(executor.index, &mut held);
                held.extend(allocate(HELD_BYTES / 2));
            }
            Ok((at_first?, part_on(node, &held)?))
        }
    };
    runtime::run(&options, &Shutdown::new(), start).unwrap()
}

#[test]
fn an_executor_s_memory_is_on_its_node_and_mostly_stays_there() {
    let topology = Topology::of_this_process().unwrap();
    let plan = plan(&topology, ShardCount::Fixed(NonZeroUsize::new(EXECUTORS).unwrap()));
    println!("{} node(s); {plan}", topology.nodes.len());
    for (executor, parts) in measure(&plan).into_iter().enumerate() {
        match parts {
            Ok((at_first, after)) => {
                println!(
                    "executor {executor}: {at_first:.4} of its pages on its node, {after:.4} after trades"
                );
                // Slices given back whole are anybody's for a second; in trades as large as these, many are.
                assert!(at_first > 0.95 && after > 0.7, "executor {executor}: {at_first}, {after}");
            }
            Err(error) => println!("not tested: move_pages isn't allowed here: {error}"),
        }
    }
}
