//! One series that counts: each write is a sample and a group of the log of its own, so that a test
//! can tell by the samples which groups there are.

use std::time::{SystemTime, UNIX_EPOCH};

use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_node_test_support::written::{READ_HEADERS, frames_of, query, read_body, series_of};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::home::NodeProcess;
use silverback_test_support::http::Answer;

const NAME: &str = "counted";

/// The counter.
pub(crate) struct Counted {
    start_ms: i64,
    written: i64,
}

impl Counted {
    /// Nothing is written yet.
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self { start_ms: now.as_millis() as i64 - 3_600_000, written: 0 }
    }

    /// Writes the next samples, numbers from 1, each in a request of its own.
    pub(crate) fn write(&mut self, node: &mut NodeProcess, samples: usize) {
        for _ in 0..samples {
            let answer = self.try_write(node);
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
    }

    /// Writes the next sample. A later attempt takes the next one, whatever the answer is.
    pub(crate) fn try_write(&mut self, node: &mut NodeProcess) -> Answer {
        self.written += 1;
        let series = Series::new([("__name__", NAME)]);
        let series = series.sample(self.start_ms + self.written, self.written as f64);
        node.post(PATH, &headers(Version::V2), &body(Version::V2, &[series]))
    }

    /// The numbers that are there.
    pub(crate) fn read(&self, node: &mut NodeProcess) -> Vec<i64> {
        let query = query(&[("__name__", Type::Eq, NAME)], (i64::MIN, i64::MAX));
        let answer = node.post("/api/v1/read", &READ_HEADERS, &read_body(vec![query], &[1]));
        let series = series_of(&frames_of(&answer));
        let samples = series.iter().flat_map(|(_, samples)| samples);
        samples
            .map(|&(time_ms, bits)| {
                let number = time_ms - self.start_ms;
                assert_eq!(bits, (number as f64).to_bits(), "the value of sample {number}");
                number
            })
            .collect()
    }
}
