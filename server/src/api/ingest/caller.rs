//! Who sends, and the core that accepts it. Refusals are noted here, whatever protocol they are reported in.

use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use crate::api::ingest::Ingest;
use crate::api::ingest::refusal_log::{RejectedItems, Unit};
use crate::api::ingest::remote_write::{CountedAs, WriteRejected};
use silverback_storage::message::Examples;

/// A core, as one client sees it.
#[derive(Clone)]
pub struct Caller {
    ingest: Rc<Ingest>,
    peer: Option<IpAddr>,
}

impl Caller {
    /// A client of a core, by its address as the socket has it.
    pub(crate) fn new(ingest: Rc<Ingest>, peer: Option<IpAddr>) -> Self {
        Self { ingest, peer }
    }

    /// The core.
    pub(crate) fn ingest(&self) -> &Rc<Ingest> {
        &self.ingest
    }

    /// Notes refused samples of a request that was read.
    pub(crate) fn note_refused(&self, examples: &Examples) {
        for example in examples.iter() {
            let (peer, job, reason) = (self.peer, &*example.job, example.reason.as_str());
            for (unit, count) in [(Unit::Samples, example.samples), (Unit::Series, example.series)] {
                if count > 0 {
                    self.note(RejectedItems { peer, job, reason, unit, count }, &example.words);
                }
            }
        }
    }

    /// Notes a request that was refused as a whole, and counts it.
    pub(crate) fn note_rejection(&self, rejection: &WriteRejected) {
        self.count_rejected(rejection);
        let (reason, words) = (rejection.reason(), rejection.to_string());
        let refused = self.request(reason);
        if rejection.is_of_node() {
            if let Some(count) = self.node.refusals.note(self.clock.now_ms(), refused, || words) {
                let peer = self.peer_text();
                silverback_host::warn_limited!(peer, reason, count, %rejection, "write requests are refused");
            }
        } else {
            self.note(refused, &words);
        }
    }

    /// Notes a request that was refused as a whole, which is counted already.
    pub(crate) fn note_request(&self, reason: &'static str, words: &str) {
        self.note(self.request(reason), words);
    }

    fn request(&self, reason: &'static str) -> RejectedItems<'static> {
        RejectedItems { peer: self.peer, job: "", reason, unit: Unit::Requests, count: 1 }
    }

    /// Empty: the node itself.
    fn peer_text(&self) -> String {
        self.peer.map(|peer| peer.to_string()).unwrap_or_default()
    }

    fn note(&self, refused: RejectedItems<'_>, words: &str) {
        let RejectedItems { job, reason, unit, .. } = refused;
        let Some(count) = self.node.refusals.note(self.clock.now_ms(), refused, || words.to_owned()) else {
            return;
        };
        let (peer, unit) = (self.peer_text(), unit.as_str());
        silverback_host::info_limited!(peer, job, reason, count, "refused {unit}: {words}");
    }

    /// Counts a write request that was refused as a whole, of whichever protocol.
    fn count_rejected(&self, rejection: &WriteRejected) {
        self.count(|counts| match rejection.counted_as() {
            CountedAs::Malformed => counts.writes_malformed += 1,
            CountedAs::Overloaded => counts.writes_overloaded += 1,
            CountedAs::MemoryFull => counts.writes_memory_full += 1,
            CountedAs::NotDurable => counts.writes_not_durable += 1,
        });
    }
}

impl Deref for Caller {
    type Target = Ingest;

    fn deref(&self) -> &Ingest {
        &self.ingest
    }
}
