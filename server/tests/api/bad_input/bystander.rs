//! A node with a series that no bad request names, written before and after each of them, and one
//! that is beside bad ones in the same requests: both are read back whole.

use std::cell::RefCell;

use silverback::api::ingest::remote_write::Version;
use silverback::config::Config;
use silverback_node_test_support::Node;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_test_support::eventually_found;
use silverback_test_support::http::{Answer, Kept};
pub(super) use silverback_test_support::now_ms;

use crate::bad_input::metrics::{MALFORMED, Reading};

/// The node, and what is to be found in it.
pub(super) struct Scene {
    /// The node.
    pub node: Node,
    /// The first sample's time; later ones are a second apart.
    pub start_ms: i64,
    written: RefCell<Vec<(i64, f64)>>,
    beside: RefCell<Vec<(i64, f64)>>,
}

/// What a bad request leads to.
pub(super) struct Expect<'a> {
    /// The answer's status.
    pub status: u16,
    /// A part of its text.
    pub words: &'a str,
    /// Samples that are stored all the same.
    pub written: u64,
    /// By how much which metrics grow.
    pub counted: &'a [(&'a str, u64)],
}

impl Scene {
    /// A node of so many shards.
    pub(super) fn start(shards: usize) -> Self {
        Self::start_with(shards, |_| {})
    }

    /// Like [`Self::start`], its configuration changed.
    pub(super) fn start_with(shards: usize, change: impl FnOnce(&mut Config)) -> Self {
        let node = Node::start_with(shards, change);
        Self { node, start_ms: now_ms() - 3_600_000, written: RefCell::default(), beside: RefCell::default() }
    }

    /// A good series in somebody's bad request, with its next sample, which must be stored.
    pub(super) fn beside(&self) -> Series {
        self.next("beside", &self.beside)
    }

    fn next(&self, job: &str, written: &RefCell<Vec<(i64, f64)>>) -> Series {
        let mut written = written.borrow_mut();
        let sample = (self.start_ms + written.len() as i64 * 1000, written.len() as f64);
        written.push(sample);
        Series::new([("__name__", "up"), ("job", job)]).sample(sample.0, sample.1)
    }

    /// Writes the next sample on a connection that was used before.
    pub(super) fn write_on(&self, connection: &mut Kept, version: Version) {
        let body = body(version, &[self.next("bystander", &self.written)]);
        // What others do to a disk that all share is none of the node's.
        let answer = eventually_found(|| {
            let answer = connection.ask("POST", PATH, &headers(version), &body);
            let waits = answer.status == 503 && answer.text().contains("the disk");
            if waits { Err(answer.text()) } else { Ok(answer) }
        });
        assert_eq!(answer.status, 204, "{}", answer.text());
    }

    /// A good write on a new connection is stored, and all before it still is.
    pub(super) fn check_goes_on(&self) {
        self.write_on(&mut self.node.keep(), Version::V2);
        assert_eq!(self.samples("{job=\"bystander\"}"), [&self.written.borrow()[..]]);
        let beside = self.beside.borrow();
        let expect = (!beside.is_empty()).then_some(&beside[..]);
        assert_eq!(self.samples("{job=\"beside\"}"), Vec::from_iter(expect));
    }

    /// The samples of each series that a selector finds.
    pub(super) fn samples(&self, selector: &str) -> Vec<Vec<(i64, f64)>> {
        samples(&self.node, selector)
    }

    /// Sends a bad body between two good ones on one connection, and checks all that it leads to.
    pub(super) fn check(&self, version: Version, bad: &[u8], expect: &Expect) {
        let before = Reading::of(&self.node);
        let mut connection = self.node.keep();
        self.write_on(&mut connection, version);
        let answer = connection.ask("POST", PATH, &headers(version), bad);
        check_answer(version, &answer, expect);
        self.write_on(&mut connection, version);
        self.check_goes_on();
        check_counted(&before, &Reading::of(&self.node), expect.counted);
    }

    /// A body that is refused whole.
    pub(super) fn check_malformed(&self, version: Version, bad: &[u8], words: &str) {
        self.check(version, bad, &Expect { status: 400, words, written: 0, counted: &[(MALFORMED, 1)] });
    }
}

/// The answer says what is wrong in few words, and to remote write 2 how much is stored.
fn check_answer(version: Version, answer: &Answer, expect: &Expect) {
    let text = answer.text();
    assert_eq!(answer.status, expect.status, "{text}");
    assert!(text.contains(expect.words), "{text:?} has not {:?}", expect.words);
    assert!(text.len() < 1024, "a sender's log has no room for {} bytes", text.len());
    let written = match version {
        Version::V1 => String::new(),
        Version::V2 => expect.written.to_string(),
    };
    assert_eq!(answer.header("x-prometheus-remote-write-samples-written"), written, "{text}");
}

fn check_counted(before: &Reading, after: &Reading, counted: &[(&str, u64)]) {
    for (metric, expect) in counted {
        assert_eq!(after.sum(metric) - before.sum(metric), *expect, "{metric}");
    }
    if !counted.iter().any(|(metric, _)| *metric == MALFORMED) {
        assert_eq!(after.sum(MALFORMED), before.sum(MALFORMED), "the request was not refused whole");
    }
}

/// The samples of each series that a selector finds, by export.
pub(super) fn samples(node: &Node, selector: &str) -> Vec<Vec<(i64, f64)>> {
    let selector = selector.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
    let answer = node.get(&format!("/api/v1/export?match[]={selector}"));
    assert_eq!((answer.status, answer.is_cut), (200, false), "{}", answer.text());
    answer.text().lines().map(samples_of_line).collect()
}

fn samples_of_line(line: &str) -> Vec<(i64, f64)> {
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let times = line["timestamps"].as_array().unwrap().iter().map(|time| time.as_i64().unwrap());
    times.zip(line["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap())).collect()
}
