//! The batches of one stream that are in flight, and their acknowledgement in the order of their
//! numbers.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use silverback_proto::v1;

use super::super::status::refusal;
use super::routes::Routes;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::write::{acknowledged, follow_moved};
use crate::routing::{ReplyFuture, SharedReservation, take_moved};
use silverback_model::Epoch;
use silverback_model::limits::{STREAM_BATCHES_MAX, STREAM_REFUSALS_MAX, STREAM_SAMPLES_MAX};
use silverback_storage::message::{MovedSeries, RejectedRef, WritePart, WriteReply};

/// The series of a batch that are sent on, because their cells have moved.
type Following = Pin<Box<dyn Future<Output = Result<Vec<WriteReply>, WriteRejected>>>>;

/// What a message has in flight.
pub(super) struct Sent {
    /// 0: it had definitions alone.
    number: u64,
    /// When the batch arrived.
    began: Option<Instant>,
    /// In the batch, of both kinds.
    samples: usize,
    answers: Vec<ReplyFuture<WritePart>>,
    /// Of the table that the batch was split by.
    epoch: Epoch,
    /// What came back of it.
    moved: Vec<MovedSeries>,
    following: Option<Following>,
    samples_written: u64,
    refused_definitions: Vec<RejectedRef>,
    refused: Vec<RejectedRef>,
    /// The stream's, which cache where its series are.
    routes: Option<Rc<RefCell<Routes>>>,
    /// A shard that did not take its part in.
    failed: Option<WriteRejected>,
    /// Given back once the batch is answered.
    room: SharedReservation,
}

impl Sent {
    /// Definitions alone, some of them refused.
    pub(crate) fn definitions(refused_definitions: Vec<RejectedRef>) -> Self {
        Self {
            number: 0,
            began: None,
            samples: 0,
            answers: Vec::new(),
            epoch: Epoch::FIRST,
            moved: Vec::new(),
            following: None,
            samples_written: 0,
            refused_definitions,
            refused: Vec::new(),
            routes: None,
            failed: None,
            room: SharedReservation::default(),
        }
    }

    /// A batch that its shards have still to answer, split by the table of an epoch; `refused` are
    /// samples that none was asked for.
    pub(crate) fn batch(
        (number, began): (u64, Instant),
        samples: usize,
        refused_definitions: Vec<RejectedRef>,
        refused: Vec<RejectedRef>,
        (epoch, answers): (Epoch, Vec<ReplyFuture<WritePart>>),
        (routes, room): (Option<Rc<RefCell<Routes>>>, SharedReservation),
    ) -> Self {
        let definitions = Self::definitions(refused_definitions);
        Self { number, began: Some(began), samples, refused, epoch, answers, routes, room, ..definitions }
    }

    /// Whether there is nothing to wait for and nothing to report.
    pub(crate) fn is_nothing(&self) -> bool {
        self.number == 0 && self.answers.is_empty() && self.refused_definitions.is_empty()
    }

    /// The batch's number; 0 if there was none.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether every shard has answered. An error: some samples are not acknowledged. What came
    /// back is sent on once all of it is known: asked of a stream's oldest batch alone, this keeps
    /// each series in order.
    pub(crate) fn poll_answered(
        &mut self,
        caller: &Caller,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), WriteRejected>> {
        while let Some(answer) = self.answers.last_mut() {
            let Poll::Ready(mut reply) = Pin::new(answer).poll(context) else { return Poll::Pending };
            self.answers.pop();
            self.moved.extend(take_moved(&mut reply));
            self.add(caller, reply);
        }
        if !self.moved.is_empty() && self.failed.is_none() {
            let (ingest, moved) = (Rc::clone(caller.ingest()), std::mem::take(&mut self.moved));
            let room = self.room.clone();
            self.following = Some(Box::pin(async move { follow_moved(&ingest, moved, &room).await }));
        }
        if let Some(following) = &mut self.following {
            let Poll::Ready(followed) = following.as_mut().poll(context) else { return Poll::Pending };
            self.following = None;
            match followed {
                Ok(replies) => replies.into_iter().for_each(|reply| self.add(caller, reply)),
                Err(rejection) => self.failed = Some(rejection),
            }
        }
        self.room = SharedReservation::default();
        Poll::Ready(self.failed.clone().map_or(Ok(()), Err))
    }

    fn add(&mut self, caller: &Caller, reply: WriteReply) {
        match acknowledged(caller, reply) {
            Ok(ack) => {
                self.samples_written += ack.written + u64::from(ack.histograms);
                if let (Some(updates), Some(routes)) = (ack.ref_updates, &self.routes) {
                    caller.count(|counts| counts.stream_refs += updates.len() as u64);
                    routes.borrow_mut().take_ref_updates(&updates);
                }
                if let Some(refusals) = ack.refusals {
                    caller.note_refused(&refusals.examples);
                    self.refused.extend(refusals.by_ref);
                }
            }
            Err(rejection) => self.failed = Some(rejection),
        }
    }

    /// Counts how long a batch took until now, where it is acknowledged.
    fn count_time(&self, ingest: &Ingest) {
        if let Some(began) = self.began {
            let took_us = began.elapsed().as_micros() as u64;
            ingest.count(|counts| counts.write_durations.add(took_us));
        }
    }

    /// Adds what became of it to a response.
    pub(crate) fn tell(self, response: &mut v1::StreamResponse) {
        let of_definitions = self.refused_definitions.into_iter().map(|refused| refusal(0, refused));
        let of_samples = self.refused.into_iter().map(|refused| refusal(self.number, refused));
        response.refusals.extend(of_definitions.chain(of_samples));
        response.acknowledged_number = response.acknowledged_number.max(self.number);
        response.samples_written += self.samples_written;
    }
}

/// Batches in the order in which they came.
#[derive(Default)]
pub(crate) struct BatchesInFlight {
    sent: VecDeque<Sent>,
    /// Of the batches in `sent`.
    samples: usize,
    acknowledged_number: u64,
}

impl BatchesInFlight {
    /// Whether another message may be accepted.
    pub(crate) fn has_room(&self) -> bool {
        self.sent.len() < STREAM_BATCHES_MAX && self.samples < STREAM_SAMPLES_MAX
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether a batch that is split by the table of this epoch may follow those in flight. Series of
    /// theirs may come back: by a newer table nothing may overtake them.
    pub(crate) fn lets_follow(&self, epoch: Epoch) -> bool {
        self.sent.iter().all(|sent| sent.number == 0 || sent.epoch == epoch)
    }

    /// Adds a message after the others.
    pub(crate) fn push(&mut self, sent: Sent) {
        self.samples += sent.samples;
        self.sent.push_back(sent);
    }

    /// One response for all that is answered by now, or the first that was not; pending while the
    /// first is still in flight, or if there is none.
    pub(crate) fn poll_completed(
        &mut self,
        caller: &Caller,
        context: &mut Context<'_>,
    ) -> Poll<Result<v1::StreamResponse, WriteRejected>> {
        let number = self.acknowledged_number;
        let mut response = v1::StreamResponse { acknowledged_number: number, ..Default::default() };
        let mut completed = 0;
        while response.refusals.len() < STREAM_REFUSALS_MAX
            && let Some(first) = self.sent.front_mut()
        {
            match first.poll_answered(caller, context) {
                Poll::Ready(Ok(())) => {}
                // What completed before it is reported first; it is asked again then.
                Poll::Ready(Err(_)) | Poll::Pending if completed > 0 => break,
                Poll::Ready(Err(rejection)) => return Poll::Ready(Err(rejection)),
                Poll::Pending => return Poll::Pending,
            }
            if let Some(sent) = self.sent.pop_front() {
                self.samples -= sent.samples;
                sent.count_time(caller);
                sent.tell(&mut response);
                completed += 1;
            }
        }
        self.acknowledged_number = response.acknowledged_number;
        if completed > 0 { Poll::Ready(Ok(response)) } else { Poll::Pending }
    }
}
