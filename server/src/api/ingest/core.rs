//! What taking samples in needs of its core: buffers, bounds, the decoder that knows its senders' label sets.
//! The refusals of one client are its [`Caller`](super::caller::Caller)'s.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use crate::api::core::CoreContext;
use crate::api::ingest::known_metadata::KnownMetadata;
use crate::api::ingest::remote_write::{Decoder, IdCache};
use crate::routing::{BodyPool, ByteBudget};
use silverback_model::SeriesIdHasher;
use silverback_model::limits::MemoryPlan;
use silverback_storage::message::PartPool;

/// A core, as what accepts samples has it.
pub struct Ingest {
    core: Rc<CoreContext>,
    /// Buffers for the parts that requests are split into.
    pub parts: PartPool,
    /// Buffers for decompressed bodies.
    pub bodies: BodyPool,
    /// Bytes for the series that gRPC streams define.
    pub definitions: ByteBudget,
    /// Labels → series id.
    pub hasher: SeriesIdHasher,
    /// What OTLP and lines said of metrics recently.
    pub(crate) known_metadata: RefCell<KnownMetadata>,
    /// Keeps its buffers and known label sets from request to request.
    pub decoder: RefCell<Decoder>,
}

impl Ingest {
    /// With the bounds of the node's memory plan.
    pub(crate) fn new(core: Rc<CoreContext>, hasher: SeriesIdHasher) -> Self {
        let plan = core.node.memory;
        Self {
            core,
            parts: PartPool::new(plan.part_pool_bytes()),
            bodies: BodyPool::new(plan.in_flight_bytes, MemoryPlan::body_pool_bytes_of(plan.in_flight_bytes)),
            definitions: ByteBudget::new(plan.definition_bytes),
            hasher,
            known_metadata: RefCell::default(),
            decoder: RefCell::new(Decoder::new(IdCache::with_entries_max(plan.id_cache_entries))),
        }
    }
}

impl Deref for Ingest {
    type Target = CoreContext;

    fn deref(&self) -> &CoreContext {
        &self.core
    }
}
