//! The buffers of one request, kept from request to request by the worker that ended the last one.

use std::cell::RefCell;

use silverback::api::ingest::remote_write::SeriesSink;
use silverback_model::limits::{BODIES_KEPT, BODY_KEPT_BYTES_MAX};
use silverback_model::{Sample, SeriesId};
use silverback_storage::message::part::PartBuffer;
use silverback_storage::message::{LabelSpan, PartSeries, WriteBody};

use super::Stripes;

thread_local!(static KEPT: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) });

/// A decompressed body, and one part of it for each stripe.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The request.
    pub body: WriteBody,
    /// By stripe; empty where the request has nothing for it.
    pub parts: Vec<PartBuffer>,
}

impl Scratch {
    /// Empty parts for so many stripes.
    pub(super) fn take(stripes: usize) -> Self {
        let mut scratch = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
        scratch.parts.resize_with(stripes, PartBuffer::default);
        scratch
    }

    /// Keeps the buffers, unless they grew beyond the usual.
    pub(super) fn give_back(mut self) {
        if self.body.capacity_bytes() > BODY_KEPT_BYTES_MAX {
            return;
        }
        for part in &mut self.parts {
            part.series.clear();
            part.samples.clear();
        }
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < BODIES_KEPT {
                kept.push(self);
            }
        });
    }
}

/// Splits a request over the parts as it is decoded.
#[derive(Debug)]
pub(super) struct Split<'a> {
    stripes: &'a Stripes,
    parts: &'a mut [PartBuffer],
    current: usize,
}

impl<'a> Split<'a> {
    /// Into empty parts, one for each stripe.
    pub(super) fn new(stripes: &'a Stripes, parts: &'a mut [PartBuffer]) -> Self {
        Self { stripes, parts, current: 0 }
    }
}

impl SeriesSink for Split<'_> {
    #[inline]
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        self.current = self.stripes.stripe_of(id);
        self.parts[self.current].series.push(PartSeries::new(id, labels, samples));
    }

    #[inline]
    fn sample(&mut self, sample: Sample) {
        self.parts[self.current].samples.push(sample);
    }
}
