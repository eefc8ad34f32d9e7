//! Kill -9 after deletions: what was answered 204 stays gone, and nothing else goes; with the log alone, after a
//! checkpoint, and dealt out to another number of shards.

use silverback_node_test_support::written::{
    READ_HEADERS, Series, query, read_body, samples_of, series, start_ms, write_body,
};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_proto::v1::WriteCheckpointRequest;
use silverback_proto::v1::admin_client::AdminClient;
use silverback_test_support::home::{NodeProcess, get};
use tonic::transport::Endpoint;

use crate::home;

const PATH: &str = "/api/v1/admin/tsdb/delete_series";
const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];
const SERIES: usize = 60;

fn write(node: &mut NodeProcess, written: &[Series]) {
    assert_eq!(node.post("/api/v1/write", &[], &write_body(written)).status, 204);
}

/// The series by number, each with its samples' seconds since the start.
fn held(node: &mut NodeProcess, start_ms: i64) -> Vec<(usize, Vec<i64>)> {
    let asked = vec![query(&[("__name__", Type::Eq, "m")], (0, i64::MAX))];
    let answer = node.post("/api/v1/read", &READ_HEADERS, &read_body(asked, &[]));
    let number = |labels: &[(String, String)]| {
        labels.iter().find(|(name, _)| name == "i").expect("it has a number").1.parse().unwrap()
    };
    let second = |(at_ms, _): &(i64, u64)| (at_ms - start_ms) / 1000;
    let found = samples_of(&answer).remove(0).into_iter();
    let mut held: Vec<(usize, Vec<i64>)> =
        found.map(|(labels, samples)| (number(&labels), samples.iter().map(second).collect())).collect();
    held.sort();
    held
}

fn numbered(start_ms: i64) -> Vec<Series> {
    let one = |i: usize| {
        series(&[("__name__", "m"), ("i", &i.to_string())], start_ms, (0..300).map(|v| (v * i) as f64))
    };
    (0..SERIES).map(one).collect()
}

fn delete(node: &mut NodeProcess, form: &str) {
    let answer = node.post(PATH, &FORM, form.as_bytes());
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Has each shard write a checkpoint.
pub(crate) fn write_checkpoints(node: &mut NodeProcess, shards: u32) {
    let address = node.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let mut admin = AdminClient::new(channel);
        for shard in 0..shards {
            admin.write_checkpoint(WriteCheckpointRequest { shard }).await.unwrap();
        }
    });
    node.wait_until("the checkpoints are written", |_| {
        let text = get(address, "/metrics").unwrap().text();
        let written = text.lines().filter(|line| line.starts_with("silverback_checkpoints_total{"));
        (written.filter(|line| !line.ends_with(" 0")).count() == shards as usize).then_some(())
    });
}

#[test]
fn what_was_deleted_stays_gone_and_the_rest_stays() {
    let (home, start_ms) = (home("deletes"), start_ms());
    let two = ["--shards=2", "--admin-api=full"];
    let mut node = home.start_ready(&two);
    write(&mut node, &numbered(start_ms));
    // Some whole, of some the middle, of some the tail, to which more samples come.
    delete(&mut node, "match[]=m%7Bi=~%221.%22%7D");
    let second = |second: i64| (start_ms + second * 1000) as f64 / 1000.0;
    delete(&mut node, &format!("match[]=m%7Bi=~%222.%22%7D&start={}&end={}", second(100), second(199)));
    delete(&mut node, &format!("match[]=m%7Bi=~%223.%22%7D&start={}", second(150)));
    let late = series(&[("__name__", "m"), ("i", "30")], start_ms + 160_000, [1.0, 2.0]);
    let again = series(&[("__name__", "m"), ("i", "10")], start_ms + 5_000, [3.0]);
    write(&mut node, &[late, again]);
    let expect: Vec<(usize, Vec<i64>)> = (0..SERIES)
        .filter_map(|i| match i {
            10 => Some((i, vec![5])),
            11..20 => None,
            20..30 => Some((i, (0..100).chain(200..300).collect())),
            30 => Some((i, (0..150).chain([160, 161]).collect())),
            31..40 => Some((i, (0..150).collect())),
            _ => Some((i, (0..300).collect())),
        })
        .collect();
    assert_eq!(held(&mut node, start_ms), expect);
    let told = node.told();
    let lines = told.lines().filter(|line| line.contains("samples were deleted on demand"));
    assert_eq!(lines.filter(|line| line.contains("m{i=~")).count(), 3, "a line for each: {told}");
    node.kill();
    let (code, told, complaint) = home.look_at_logs(&["verify"]);
    assert!(code == 0 && told.ends_with("no damage\n"), "{told}{complaint}");
    let (_, told, _) = home.look_at_logs(&["inspect", "--records"]);
    assert!(told.contains("replaced") && told.contains("removed"), "{told}");
    let mut node = home.start_ready(&two);
    assert_eq!(held(&mut node, start_ms), expect, "by the log");
    write_checkpoints(&mut node, 2);
    delete(&mut node, "match[]=m%7Bi=%2259%22%7D");
    node.kill();
    let expect = &expect[..expect.len() - 1];
    let mut node = home.start_ready(&two);
    assert_eq!(held(&mut node, start_ms), expect, "by the checkpoint and the log behind it");
    node.kill();
    let mut node = home.start_ready(&["--shards=3"]);
    assert_eq!(held(&mut node, start_ms), expect, "on other shards");
    node.kill();
}
