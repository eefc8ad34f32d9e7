//! Streams, requests and reads while the cells of their series move from shard to shard, to and fro.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use silverback::config::AdminAccess;
use silverback_node_test_support::{Node, written};
use silverback_proto::v1::admin_client::AdminClient;
use silverback_proto::v1::{CellsRequest, MoveCellRequest};
use tonic::Code;
use tonic::transport::Channel;

use crate::grpc_ingest::backpressure::told;
use crate::grpc_ingest::client::{OpenStream, batch, connect, message, now_ms, series, stored};

const SERIES: u32 = 300;
const BATCHES: i64 = 600;
/// Batches that are sent ahead of their acknowledgements.
const AHEAD: i64 = 20;
const REQUESTS: i64 = 300;
/// Of remote write.
const WRITTEN: i64 = 100;

/// Moves every cell that has a series to the other shard, again and again. Returns how many moves it was.
async fn keep_moving(channel: Channel, is_over: Arc<AtomicBool>) -> u64 {
    let (mut admin, mut moves) = (AdminClient::new(channel), 0);
    while !is_over.load(Ordering::Relaxed) {
        let cells = admin.cells(CellsRequest { shard: None }).await.unwrap().into_inner().cells;
        for cell in cells {
            let request = MoveCellRequest { cell: cell.number, shard: 1 - cell.shard };
            match admin.move_cell(request).await {
                Ok(moved) => moves += u64::from(moved.into_inner().from_shard == cell.shard),
                // What it left behind is still being read there, or the node has moved it by itself meanwhile.
                Err(status) if [Code::AlreadyExists, Code::Aborted].contains(&status.code()) => {}
                Err(status) => panic!("a move failed: {status}"),
            }
        }
    }
    moves
}

/// A stream with batches ahead of their acknowledgements. Each of its samples must be accepted.
async fn stream_batches(channel: Channel, begin_ms: i64) {
    let mut stream = OpenStream::open(&channel).await;
    let mut written = 0;
    for i in 0..BATCHES {
        let defined = (0..SERIES).filter(|_| i == 0).map(|s| series(s, &format!("s{s}"))).collect();
        let samples: Vec<_> = (0..SERIES).map(|s| (s, begin_ms + i, value(s.into(), i))).collect();
        stream.send(message(defined, Some(batch(i as u64 + 1, &samples)))).await;
        if i % AHEAD == AHEAD - 1 && i + 1 < BATCHES {
            let completed = stream.until((i - AHEAD / 2) as u64).await;
            assert_eq!(completed.refusals, []);
            written += completed.samples_written;
        }
    }
    let completed = stream.until(BATCHES as u64).await;
    assert_eq!(completed.refusals, []);
    assert_eq!(written + completed.samples_written, BATCHES as u64 * u64::from(SERIES));
    assert!(stream.finish().await.unwrap().is_empty(), "all was acknowledged");
}

/// Remote write, one request after the other. Each must be answered with 204.
fn write_requests(node: &Node, begin_ms: i64) {
    for i in 0..REQUESTS {
        let one = |s: i64| {
            let labels = [("__name__", &*format!("w{s}")), ("job", "a")];
            written::series(&labels, begin_ms + i, [value(s, i)])
        };
        written::write(node, &(0..WRITTEN).map(one).collect::<Vec<_>>());
    }
}

/// Reads one series: all of it up to some moment, each sample once.
fn read_one(node: &Node, number: i64, begin_ms: i64) {
    let found = stored(node, &format!("w{number}"));
    let expect: Vec<_> = (0..found.len() as i64).map(|i| (begin_ms + i, value(number, i))).collect();
    assert_eq!(found, expect, "w{number}");
}

fn value(series: i64, i: i64) -> f64 {
    (series * 7919 + i) as f64 / 8.0
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_refused_while_cells_move() {
    let node = Node::start_with(2, |config| config.admin_api = AdminAccess::Full);
    let begin_ms = now_ms() - BATCHES;
    let is_over = Arc::<AtomicBool>::default();
    let mover = tokio::spawn(keep_moving(connect(node.address).await, Arc::clone(&is_over)));
    let stream = tokio::spawn(stream_batches(connect(node.address).await, begin_ms));
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| write_requests(&node, begin_ms));
        for number in (0..WRITTEN).cycle() {
            read_one(&node, number, begin_ms);
            if requests.is_finished() && stream.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    stream.await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let moves = mover.await.unwrap();
    assert!(moves > 50, "{moves} moves");
    let refs = told(&node.get("/metrics"), "silverback_grpc_stream_refs_total");
    assert!(refs > f64::from(SERIES), "{refs} refs: the stream is told of moves, too");
    for s in 0..SERIES {
        let expect: Vec<_> = (0..BATCHES).map(|i| (begin_ms + i, value(s.into(), i))).collect();
        assert_eq!(stored(&node, &format!("s{s}")), expect, "s{s}");
    }
    for s in 0..WRITTEN {
        let expect: Vec<_> = (0..REQUESTS).map(|i| (begin_ms + i, value(s, i))).collect();
        assert_eq!(stored(&node, &format!("w{s}")), expect, "w{s}");
    }
    let told = node.get("/metrics").text();
    let figure = |name: &str| {
        let line = told.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(figure("silverback_rebalance_handoffs_total "), moves as f64);
    let held = figure("silverback_series{shard=\"0\"}") + figure("silverback_series{shard=\"1\"}");
    assert_eq!(held, f64::from(SERIES) + WRITTEN as f64);
}
