//! The series that one stream has defined: refs, their routes, and the labels for a shard that
//! doesn't know them. They end with the stream.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::routes::{RouteState, Routes, SeriesRoute};
use crate::api::ingest::remote_write::wire::{Tag, WireReader, WireType};
use crate::api::ingest::remote_write::{CollectedLabels, MalformedError, collect_labels};
use crate::routing::{Reservation, ReservationError, SharedReservation};
use silverback_model::SeriesIdHasher;
use silverback_model::limits::{STREAM_DEFINITION_BYTES_MAX, STREAM_REFS_MAX};
use silverback_storage::message::{
    CachedRef, DefinitionBlock, Definitions, LabelSpan, RejectedRef, WriteBody,
};

const LABELS: Tag = Tag::new(1, WireType::Len);
const REF: Tag = Tag::new(2, WireType::Varint);
const DEFINITION_KNOWN_MAX: u32 = 2;

/// What is wrong with a definition, so that the stream can't go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// Not a definition at all.
    #[error(transparent)]
    Malformed(#[from] MalformedError),
    /// The ref has a series.
    #[error("the ref {0} is defined already: a ref stands for one series as long as the stream lives")]
    Redefined(u32),
    /// The ref is too high.
    #[error("the ref {0} is beyond what a stream may define: refs lie below {STREAM_REFS_MAX}")]
    RefTooHigh(u32),
    /// The labels are too many.
    #[error(
        "the stream's definitions take more than {STREAM_DEFINITION_BYTES_MAX} bytes: open another one for \
         further series"
    )]
    TooMuch,
    /// The memory for all streams' definitions is taken.
    #[error("the memory for the series that streams define is full: define fewer, or raise --memory-limit")]
    Full,
}

/// The series of one stream.
#[derive(Debug)]
pub struct StreamSeries {
    /// Shared with the batches, whose answers say where the series are.
    routes: Rc<RefCell<Routes>>,
    /// Of each series at first.
    cached_at_first: CachedRef,
    /// What its batches carry: nothing but the definitions.
    body: Arc<WriteBody>,
    labels: CollectedLabels,
    /// Shared with the batches: a shard may have one when the stream has ended.
    reserved: Rc<RefCell<Reservation>>,
}

impl StreamSeries {
    /// Of a lone request, which has none yet; what it defines takes room in `reserved`.
    pub fn new(reserved: Reservation) -> Self {
        Self {
            routes: Rc::default(),
            cached_at_first: CachedRef::NONE,
            body: Arc::default(),
            labels: CollectedLabels::default(),
            reserved: Rc::new(RefCell::new(reserved)),
        }
    }

    /// Of a stream, which caches where its series are.
    pub fn caching_refs(reserved: Reservation) -> Self {
        Self { cached_at_first: CachedRef::NOT_YET, ..Self::new(reserved) }
    }

    /// The routes by ref.
    pub fn routes(&self) -> Ref<'_, Routes> {
        self.routes.borrow()
    }

    /// The routes, where they cache where the series are: for a batch, whose acknowledgement says that.
    pub(crate) fn caching_routes(&self) -> Option<Rc<RefCell<Routes>>> {
        (self.cached_at_first != CachedRef::NONE).then(|| Rc::clone(&self.routes))
    }

    /// What a batch carries.
    pub fn body(&self) -> &Arc<WriteBody> {
        &self.body
    }

    /// All that a batch takes, which has `reserved` for its samples.
    pub(crate) fn room_with(&self, reserved: Reservation) -> SharedReservation {
        SharedReservation::from(reserved).with_definitions(&self.reserved)
    }

    /// Takes one definition in, its labels to the end of `block`. `Some`: its labels are refused.
    pub fn define(
        &mut self,
        definition: WireReader,
        block: &mut DefinitionBlock,
        hasher: &SeriesIdHasher,
    ) -> Result<Option<RejectedRef>, DefinitionError> {
        let stream_ref = read_ref(definition)?;
        self.check_free(stream_ref)?;
        collect_labels(definition, &mut self.labels)?;
        let bytes = definition.bytes();
        let checked = self.labels.check(bytes);
        // Before anything is made: what has no room leaves nothing.
        let canonical_bytes = if checked.is_ok() { self.labels.canonical_bytes_max() } else { 0 };
        self.make_room(stream_ref, block.bytes_with(canonical_bytes))?;
        if let Err(reason) = checked {
            self.routes.borrow_mut().set(stream_ref, SeriesRoute::refused(reason));
            return Ok(Some(RejectedRef { stream_ref, reason, samples: 0 }));
        }
        let number = self.body.definitions.len() + block.len() as u32;
        let ((), canonical) = block.push(|out| self.labels.write_canonical(bytes, out));
        let labels = LabelSpan::of_definition(number, stream_ref);
        let id = hasher.hash_canonical(canonical);
        let route = SeriesRoute { id, labels, cached: self.cached_at_first, state: RouteState::Series };
        self.routes.borrow_mut().set(stream_ref, route);
        Ok(None)
    }

    /// Lets batches use what is defined up to the end of `block`.
    pub fn add(&mut self, block: DefinitionBlock) {
        if !block.is_empty() {
            let mut definitions: Definitions = self.body.definitions.clone();
            definitions.push(block);
            self.body = Arc::new(WriteBody { definitions, ..WriteBody::default() });
        }
    }

    fn check_free(&self, stream_ref: u32) -> Result<(), DefinitionError> {
        if stream_ref as usize >= STREAM_REFS_MAX {
            return Err(DefinitionError::RefTooHigh(stream_ref));
        }
        match self.routes().get(stream_ref).map(|route| route.state) {
            None | Some(RouteState::Undefined) => Ok(()),
            Some(RouteState::Series | RouteState::Refused(_)) => Err(DefinitionError::Redefined(stream_ref)),
        }
    }

    fn make_room(&mut self, stream_ref: u32, of_block: usize) -> Result<(), DefinitionError> {
        let definition_bytes = self.body.definitions.bytes() + of_block;
        if definition_bytes > STREAM_DEFINITION_BYTES_MAX {
            return Err(DefinitionError::TooMuch);
        }
        let bytes = definition_bytes + self.routes().bytes_with(stream_ref);
        self.reserved.borrow_mut().grow_to(bytes).map_err(|no_room| match no_room {
            ReservationError::Full | ReservationError::TooMuch { .. } => DefinitionError::Full,
        })
    }
}

fn read_ref(mut definition: WireReader) -> Result<u32, MalformedError> {
    let mut stream_ref = 0;
    while !definition.is_empty() {
        match definition.tag()? {
            // As protobuf has it: a number too large for its type is cut to it.
            REF => stream_ref = definition.varint()? as u32,
            LABELS => definition.skip(LABELS)?,
            other => definition.skip_unknown(other, DEFINITION_KNOWN_MAX)?,
        }
    }
    Ok(stream_ref)
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use silverback_proto::v1;

    use super::*;
    use crate::routing::ByteBudget;
    use silverback_model::RefusedReason;

    fn definition(stream_ref: u32, labels: &[(&str, &str)]) -> Vec<u8> {
        let label = |(name, value): &(&str, &str)| v1::Label { name: (*name).into(), value: (*value).into() };
        v1::SeriesDefinition { labels: labels.iter().map(label).collect(), r#ref: stream_ref }.encode_to_vec()
    }

    fn hasher() -> SeriesIdHasher {
        SeriesIdHasher::new(7, "tenant")
    }

    struct Stream(StreamSeries);

    impl Stream {
        fn new(bytes_max: usize) -> Self {
            Self(StreamSeries::new(ByteBudget::new(bytes_max).begin()))
        }

        fn define(
            &mut self,
            stream_ref: u32,
            labels: &[(&str, &str)],
        ) -> Result<Option<RejectedRef>, DefinitionError> {
            let bytes = definition(stream_ref, labels);
            let mut block = DefinitionBlock::default();
            let defined = self.0.define(WireReader::new(&bytes, 0), &mut block, &hasher());
            self.0.add(block);
            defined
        }

        fn labels(&self, stream_ref: u32) -> Vec<(String, String)> {
            let mut labels = Vec::new();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let route = *self.0.routes().get(stream_ref).unwrap();
            self.0.body().for_each_label(route.labels, |n, v| labels.push((text(n), text(v))));
            labels
        }
    }

    #[test]
    fn a_definition_is_a_series_by_its_labels_in_any_order() {
        let mut stream = Stream::new(1 << 20);
        assert_eq!(stream.define(0, &[("__name__", "up"), ("job", "a"), ("x", "")]), Ok(None));
        assert_eq!(stream.define(9, &[("job", "a"), ("__name__", "up")]), Ok(None));
        let [first, ninth] = [0, 9].map(|stream_ref| *stream.0.routes().get(stream_ref).unwrap());
        assert_eq!(first.id, ninth.id);
        assert_eq!((first.labels.stream_ref(), ninth.labels.stream_ref()), (Some(0), Some(9)));
        let expect = [("__name__".to_owned(), "up".to_owned()), ("job".to_owned(), "a".to_owned())];
        assert_eq!(stream.labels(0), expect);
        assert_eq!(stream.labels(9), expect);
        assert_eq!(stream.0.routes().get(5).unwrap().state, RouteState::Undefined);
    }

    #[test]
    fn refused_labels_cost_their_ref_alone() {
        let mut stream = Stream::new(1 << 20);
        let reason = RefusedReason::MissingName;
        assert_eq!(
            stream.define(0, &[("job", "a")]),
            Ok(Some(RejectedRef { stream_ref: 0, reason, samples: 0 }))
        );
        assert_eq!(stream.0.routes().get(0).unwrap().state, RouteState::Refused(reason));
        assert_eq!(stream.define(1, &[("__name__", "up")]), Ok(None));
        assert_eq!(stream.labels(1), [("__name__".to_owned(), "up".to_owned())]);
    }

    #[test]
    fn a_refused_definition_of_a_high_ref_takes_little_and_that_is_counted() {
        let budget = ByteBudget::new(1 << 20);
        let mut streams: Vec<_> = (0..100).map(|_| Stream(StreamSeries::new(budget.begin()))).collect();
        let high = STREAM_REFS_MAX as u32 - 1;
        let defined: Vec<_> = streams.iter_mut().map(|stream| stream.define(high, &[])).collect();
        let refused = defined.iter().filter(|defined| matches!(defined, Ok(Some(_)))).count();
        assert!((15..30).contains(&refused), "{refused} of 40 KiB each");
        assert!(defined[refused..].iter().all(|defined| *defined == Err(DefinitionError::Full)));
        assert!(budget.taken_bytes() > 900 << 10 && budget.taken_bytes() <= 1 << 20);
    }

    #[test]
    fn what_the_stream_can_t_go_on_from_is_told() {
        let mut stream = Stream::new(10_000);
        stream.define(0, &[("__name__", "up")]).unwrap();
        stream.define(1, &[]).unwrap();
        assert_eq!(stream.define(0, &[("__name__", "up")]), Err(DefinitionError::Redefined(0)));
        assert_eq!(stream.define(1, &[("__name__", "up")]), Err(DefinitionError::Redefined(1)));
        let high = STREAM_REFS_MAX as u32;
        assert_eq!(stream.define(high, &[("__name__", "up")]), Err(DefinitionError::RefTooHigh(high)));
        assert_eq!(
            stream.define(5000, &[("__name__", "up")]),
            Err(DefinitionError::Full),
            "its table is counted"
        );
        assert!(stream.0.routes().get(5000).is_none(), "what has no room leaves nothing");
        let bytes = [0x0a, 9, 1];
        let defined = stream.0.define(WireReader::new(&bytes, 0), &mut DefinitionBlock::default(), &hasher());
        assert!(matches!(defined, Err(DefinitionError::Malformed(_))));
    }
}
