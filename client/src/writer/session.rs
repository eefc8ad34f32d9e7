//! One open stream: its terms, its refs, and which batches are in flight on it.
//!
//! Holds no samples: those are kept by whatever may have to send them on another stream.

use std::collections::{HashMap, VecDeque};

use futures::channel::mpsc;
use silverback_proto::v1;
use tokio::time::Instant;
use tonic::Streaming;

use super::columns::{SeriesIndex, WriterColumns};
use super::definitions::StreamDefinitions;
use super::queue::Outcome;
use super::registry::Registry;
use super::terms::{BATCHES_IN_FLIGHT_MAX, Terms};
use crate::client::Client;
use crate::error::RequestError;
use crate::refusal::RefusalReason;

/// A stream to the node.
#[derive(Debug)]
pub(crate) struct Session {
    requests: mpsc::Sender<v1::StreamRequest>,
    responses: Streaming<v1::StreamResponse>,
    pub terms: Terms,
    definitions: StreamDefinitions,
    /// Every batch up to this number is acknowledged.
    acknowledged_number: u64,
    /// When each of the batches after it was sent.
    sent_at: VecDeque<Instant>,
}

/// What a response acknowledges.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    /// When each of the batches was sent; the oldest one in flight is the first.
    pub sent_at: Vec<Instant>,
    /// What became of them.
    pub outcome: Outcome,
}

/// What became of a batch that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// So many of its first samples, which is at least one, were sent as a batch.
    Samples(usize),
    /// The stream can't define its first series: a new one has to.
    NoRoom,
    /// The node takes no native histograms, and there are some.
    NoHistograms,
}

impl Session {
    /// Opens a stream and waits for its terms.
    pub(super) async fn open(client: &Client) -> Result<Self, RequestError> {
        // As long as no more batches are in flight than that, there is always room.
        let (requests, queued) = mpsc::channel(BATCHES_IN_FLIGHT_MAX);
        client
            .in_time(async {
                let mut responses = client.ingest().stream(queued).await?.into_inner();
                let first = responses.message().await?;
                let first = first.ok_or(RequestError::BrokenAnswer("a stream without any response"))?;
                let terms = first.terms.ok_or(RequestError::BrokenAnswer("a stream without terms"))?;
                Ok(Self {
                    requests,
                    responses,
                    terms: Terms::from_message(&terms),
                    definitions: StreamDefinitions::default(),
                    acknowledged_number: 0,
                    sent_at: VecDeque::new(),
                })
            })
            .await
    }

    /// How many batches are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.sent_at.len()
    }

    /// Whether another batch may be in flight.
    pub(super) fn has_window(&self) -> bool {
        self.in_flight() < self.terms.batches_in_flight_max
    }

    /// Whether it has defined nothing yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.definitions.is_empty()
    }

    /// Sends the first samples of a batch, as many as one message holds.
    pub(super) fn send(&mut self, columns: &WriterColumns, registry: &Registry) -> SendOutcome {
        if !columns.histograms.is_empty() && !self.terms.native_histograms {
            return SendOutcome::NoHistograms;
        }
        let number = self.acknowledged_number + self.in_flight() as u64 + 1;
        let (message, samples) = self.definitions.message(number, columns, &self.terms, registry);
        if samples == 0 {
            return SendOutcome::NoRoom;
        }
        self.sent_at.push_back(Instant::now());
        if let Err(error) = self.requests.try_send(message) {
            // The stream has ended on the other side: what it says is read next, and why it did.
            debug_assert!(error.is_disconnected(), "more batches in flight than the channel holds");
        }
        SendOutcome::Samples(samples)
    }

    /// The next response; `None` at the stream's end. Loses nothing when it is dropped.
    pub(super) async fn response(&mut self) -> Result<Option<v1::StreamResponse>, RequestError> {
        Ok(self.responses.message().await?)
    }

    /// Takes a response in: new terms, and what it acknowledges.
    pub(super) fn acknowledge(&mut self, response: v1::StreamResponse) -> Result<Acknowledged, RequestError> {
        if let Some(terms) = &response.terms {
            self.terms = Terms::from_message(terms);
        }
        // One that says no more than the last one does is no error.
        let number = response.acknowledged_number.max(self.acknowledged_number);
        let batches = (number - self.acknowledged_number) as usize;
        if batches > self.sent_at.len() {
            return Err(RequestError::BrokenAnswer("a batch was acknowledged that was never sent"));
        }
        self.acknowledged_number = number;
        let refused = self.refused(&response.refusals)?;
        let outcome =
            Outcome { samples_written: response.samples_written, refused, durability: self.terms.durability };
        Ok(Acknowledged { sent_at: self.sent_at.drain(..batches).collect(), outcome })
    }

    fn refused(
        &self,
        refusals: &[v1::Refusal],
    ) -> Result<HashMap<(SeriesIndex, RefusalReason), u64>, RequestError> {
        let mut refused = HashMap::new();
        for refusal in refusals {
            let series = self.definitions.series_of(refusal.r#ref);
            let series =
                series.ok_or(RequestError::BrokenAnswer("a ref was refused that was never defined"))?;
            let reason = RefusalReason::from_message(refusal.reason());
            *refused.entry((series, reason)).or_default() += refusal.samples;
        }
        Ok(refused)
    }

    /// Tells the node that nothing more comes, and waits for the stream's end.
    pub(super) async fn finish(mut self) -> Result<(), RequestError> {
        self.requests.close_channel();
        while self.response().await?.is_some() {}
        Ok(())
    }
}
