//! A snapshot's blocks as Prometheus' own tool reads them: `promtool` checks and dumps each, and the dump is what the
//! node was sent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use silverback::config::AdminAccess;
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{start_ms, write};

const SNAPSHOT: &str = "/api/v1/admin/tsdb/snapshot";

fn promtool(arguments: &[&str], dir: &Path) -> String {
    let program = std::env::var("PROMTOOL").unwrap_or_else(|_| "promtool".to_owned());
    let output = Command::new(program).arg("tsdb").args(arguments).arg(dir).output().expect("promtool runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Labels as they are printed, the value's bits, the time.
type Sample = (String, u64, i64);

/// A line is `{labels} value time`.
fn read_line(line: &str) -> Sample {
    let mut parts = line.rsplitn(3, ' ');
    let mut next = || parts.next().expect("a line has three parts");
    let (time, value) = (next(), next());
    (next().to_owned(), value.parse::<f64>().expect("a number").to_bits(), time.parse().expect("a time"))
}

#[test]
#[ignore = "needs promtool"]
fn promtool_reads_a_snapshot_and_finds_what_was_written() {
    let mut data_dir = PathBuf::new();
    let node = Node::start_with(2, |config| {
        config.admin_api = AdminAccess::Full;
        data_dir.clone_from(&config.data_dir);
    });
    let begin_ms = start_ms() - 5 * 3_600_000;
    let mut sent = BTreeSet::new();
    for host in 0..50 {
        let shown = format!("{{__name__=\"up\", host=\"h{host}\", job=\"größe\"}}");
        let samples = (0..600).map(|step| (begin_ms + step * 30_000 + host, (step * host) as f64 / 8.0));
        // One comes half an hour late.
        let late = (begin_ms + 540 * 30_000 + 1 + host, 0.5);
        let labels =
            [("__name__", "up".to_owned()), ("host", format!("h{host}")), ("job", "größe".to_owned())];
        let labels: Vec<_> = labels.map(|(name, value)| (name.to_owned(), value)).into();
        for samples in [samples.collect::<Vec<_>>(), vec![late]] {
            sent.extend(samples.iter().map(|(at_ms, value)| (shown.clone(), value.to_bits(), *at_ms)));
            let bits = samples.iter().map(|(at_ms, value)| (*at_ms, value.to_bits())).collect();
            write(&node, &[(labels.clone(), bits)]);
        }
    }
    let answer = node.post(SNAPSHOT, &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let name = answer.json()["data"]["name"].as_str().expect("a name").to_owned();
    let dir = data_dir.join("snapshots").join(name);
    // Without one, this promtool dumps nothing.
    std::fs::create_dir(dir.join("wal")).expect("an empty log");
    let dumped: Vec<Sample> = promtool(&["dump"], &dir).lines().map(read_line).collect();
    assert_eq!(dumped.len(), sent.len());
    assert!(dumped.into_iter().collect::<BTreeSet<_>>() == sent, "other samples than were sent");
    println!("{} samples\n{}", sent.len(), promtool(&["list"], &dir));
    // The newest one; it reads the postings, and counts what they lead to.
    let analyzed = promtool(&["analyze", "--extended"], &dir);
    println!("{analyzed}");
    assert!(analyzed.contains("\nSeries: 50\n"), "{analyzed}");
    assert!(analyzed.contains("\nLabel names: 3\n"), "{analyzed}");
}
