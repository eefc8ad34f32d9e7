//! The series of one block that match, one after the other, in the order in which they are seen.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use roaring::RoaringBitmap;
use silverback_block::{ChunkPlace, DeletedRange, LabelNumbers, Meta, OpenBlock};
use silverback_model::{LabelBlock, encode_label};
use silverback_storage::message::ExternalView;

use super::label_set_list::LabelSetList;
use super::threads::{BlockJob, BlockJobError, ask};

/// Series that are passed over between two looks whether anybody waits.
const STEP: usize = 64;
/// What a series takes beside its labels and places, in bytes.
const HEAD_BYTES: usize = 160;

/// A series of a block: its labels, and those of its chunks that are read.
#[derive(Debug)]
pub(super) struct SeriesHead {
    pub(super) series: u32,
    /// Its labels, canonical.
    pub(super) own: Vec<u8>,
    /// As they are seen, where that is otherwise.
    seen: Option<Vec<u8>>,
    pub(super) chunks: Vec<ChunkPlace>,
}

impl SeriesHead {
    pub(super) fn seen(&self) -> &[u8] {
        self.seen.as_deref().unwrap_or(&self.own)
    }

    /// By what is seen; those that are the same then by their own.
    pub(super) fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let by = |left: &[u8], right: &[u8]| LabelBlock(left).compare(LabelBlock(right));
        by(self.seen(), other.seen()).then_with(|| by(&self.own, &other.own))
    }

    fn bytes(&self) -> usize {
        HEAD_BYTES
            + self.own.capacity()
            + self.seen.as_ref().map_or(0, Vec::capacity)
            + self.chunks.capacity() * size_of::<ChunkPlace>()
    }
}

/// Which chunks and blocks are read: those that have a sample from the first of these times to the last, by their own
/// times.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkRange {
    pub(super) min_ms: i64,
    pub(super) max_ms: i64,
}

impl ChunkRange {
    /// Whether a block may have anything to be read, as it says of itself.
    pub(super) fn meets(self, block: &Meta) -> bool {
        block.end_ms > self.min_ms && block.min_ms <= self.max_ms
    }

    /// Whether a chunk has anything to be read, of whose series this was deleted.
    pub(super) fn reads(self, chunk: &ChunkPlace, deleted: &[DeletedRange]) -> bool {
        let is_deleted = |range: &DeletedRange| range.holds(chunk.min_ms) && range.holds(chunk.max_ms);
        chunk.max_ms >= self.min_ms && chunk.min_ms <= self.max_ms && !deleted.iter().any(is_deleted)
    }
}

/// The rows of one block.
pub(super) struct BlockRows {
    pub(super) block: Arc<OpenBlock>,
    view: Option<Arc<ExternalView>>,
    range: ChunkRange,
    order: Order,
    /// What the order takes until its end, in bytes.
    order_bytes: usize,
    texts: BlockTexts,
    /// Those that may have to come after one that isn't read yet.
    waiting: Vec<SeriesHead>,
    ready: VecDeque<SeriesHead>,
    /// The labels of the series that was read last.
    last: Vec<u8>,
    /// The next row.
    pub(super) head: Option<SeriesHead>,
}

/// In which order series are read.
enum Order {
    /// As the block has them.
    Own(roaring::bitmap::IntoIter),
    /// As they are seen.
    Seen(std::vec::IntoIter<u32>),
}

impl BlockRows {
    /// Of these series of a block. `texts_bytes` is what it may keep of their texts, `has_room` is asked as memory is taken.
    pub(super) fn open(
        job: &BlockJob,
        block: &Arc<OpenBlock>,
        series: RoaringBitmap,
        view: Option<Arc<ExternalView>>,
        range: ChunkRange,
        texts_bytes: usize,
        has_room: impl FnMut(usize) -> Result<(), BlockJobError>,
    ) -> Result<Self, BlockJobError> {
        let mut rows = Self {
            block: Arc::clone(block),
            view,
            range,
            order: Order::Own(RoaringBitmap::new().into_iter()),
            order_bytes: set_bytes(&series),
            texts: BlockTexts::new(texts_bytes),
            waiting: Vec::new(),
            ready: VecDeque::new(),
            last: Vec::new(),
            head: None,
        };
        let drops_labels = match &rows.view {
            Some(view) => has_any_name(block, view)?,
            None => false,
        };
        rows.order = Order::Own(series.into_iter());
        if drops_labels {
            let sorted = rows.sorted(job, has_room)?;
            rows.order_bytes = sorted.capacity() * size_of::<u32>();
            rows.order = Order::Seen(sorted.into_iter());
        }
        rows.advance(job)?;
        Ok(rows)
    }

    /// All series, in the order of what is seen of them: labels that are left out lie anywhere among those that are not.
    fn sorted(
        &mut self,
        job: &BlockJob,
        mut has_room: impl FnMut(usize) -> Result<(), BlockJobError>,
    ) -> Result<Vec<u32>, BlockJobError> {
        let mut seen = LabelSetList::default();
        while let Some(head) = self.read_next(job)? {
            seen.push(head.series, head.seen());
            has_room(self.order_bytes + seen.bytes())?;
        }
        self.last.clear();
        job.check()?;
        Ok(seen.into_order())
    }

    /// Goes on to the next row.
    pub(super) fn advance(&mut self, job: &BlockJob) -> Result<(), BlockJobError> {
        while self.ready.is_empty() {
            match self.read_next(job)? {
                Some(head) => self.take_in(head),
                None if self.waiting.is_empty() => break,
                None => self.ready.extend(self.waiting.drain(..).rev()),
            }
        }
        self.head = self.ready.pop_front();
        Ok(())
    }

    /// Of label sets that all get the same labels, one comes after those that have its labels and more, where these begin
    /// with a lesser name than an added one. In a block they follow it at once.
    fn take_in(&mut self, head: SeriesHead) {
        if self.view.is_none() || matches!(self.order, Order::Seen(_)) {
            self.ready.push_back(head);
            return;
        }
        while let Some(before) = self.waiting.pop_if(|before| before.compare(&head).is_lt()) {
            self.ready.push_back(before);
        }
        self.waiting.push(head);
    }

    /// The next series that has a chunk in the range, as it is read.
    fn read_next(&mut self, job: &BlockJob) -> Result<Option<SeriesHead>, BlockJobError> {
        for passed in 0_usize.. {
            if passed.is_multiple_of(STEP) {
                job.check()?;
            }
            let next = match &mut self.order {
                Order::Own(series) => series.next(),
                Order::Seen(series) => series.next(),
            };
            let Some(series) = next else { return Ok(None) };
            let (labels, mut chunks) = ask(&self.block, |block| block.series(series))?;
            let deleted = self.block.deleted(series);
            chunks.retain(|chunk| self.range.reads(chunk, deleted));
            if chunks.is_empty() {
                continue;
            }
            let mut own = Vec::new();
            self.put_labels(series, &labels, &mut own)?;
            if let Some(head) = self.seen(SeriesHead { series, own, seen: None, chunks }) {
                return Ok(Some(head));
            }
        }
        unreachable!("a block has fewer series than there are numbers")
    }

    /// Appends a series' labels in canonical form. In the block's own order each comes after the one before.
    fn put_labels(
        &mut self,
        series: u32,
        labels: &[LabelNumbers],
        own: &mut Vec<u8>,
    ) -> Result<(), BlockJobError> {
        let block = &self.block;
        let wrong = |what| BlockJobError::Damaged(Arc::clone(block), block.series_error(series, what));
        let mut before = None;
        for (name, value) in labels {
            // Symbols are sorted: numbers are compared as their texts.
            if before.is_some_and(|before| before >= *name) {
                return Err(wrong("a series whose labels are in the order of their names"));
            }
            before = Some(*name);
            self.texts.put_label(block, (*name, *value), own)?;
        }
        if matches!(self.order, Order::Own(_)) {
            if !self.last.is_empty() && LabelBlock(&self.last).compare(LabelBlock(own)).is_ge() {
                return Err(wrong("a series that comes after the one before it"));
            }
            self.last.clone_from(own);
        }
        Ok(())
    }

    /// As it is seen; `None` where it isn't.
    fn seen(&self, mut head: SeriesHead) -> Option<SeriesHead> {
        let Some(view) = &self.view else { return Some(head) };
        let mut seen = Vec::with_capacity(head.own.len() + 32);
        view.put_labels(LabelBlock(&head.own).texts(), &mut seen);
        let is_held = view.holds(LabelBlock(&seen));
        head.seen = Some(seen);
        is_held.then_some(head)
    }

    /// What it holds, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let heads = self.ready.iter().chain(&self.waiting).chain(&self.head);
        self.order_bytes
            + self.texts.bytes()
            + self.last.capacity()
            + heads.map(SeriesHead::bytes).sum::<usize>()
    }
}

/// What a set of series takes, in bytes: the statistics have of its lists what they have room for, and take the two
/// bytes of an entry for four.
fn set_bytes(series: &RoaringBitmap) -> usize {
    const CONTAINER_BYTES: usize = 64;

    let found = series.statistics();
    let lists = found.n_bytes_array_containers / 2;
    (lists + found.n_bytes_bitset_containers + found.n_bytes_run_containers) as usize
        + found.n_containers as usize * CONTAINER_BYTES
}

/// Whether a series of a block has a label that isn't seen.
fn has_any_name(block: &Arc<OpenBlock>, view: &ExternalView) -> Result<bool, BlockJobError> {
    let mut has_any = false;
    ask(block, |block| block.label_names(|name| has_any |= view.dropped().any(|dropped| dropped == name)))?;
    Ok(has_any)
}

/// Labels by the numbers of their symbols, those that were read recently.
#[derive(Debug)]
pub(super) struct BlockTexts {
    kept: HashMap<u64, Box<str>>,
    bytes: usize,
    bytes_max: usize,
    scratch: String,
}

/// What a text takes beside itself, in bytes.
const TEXT_BYTES: usize = 48;

impl BlockTexts {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { kept: HashMap::new(), bytes: 0, bytes_max, scratch: String::new() }
    }

    /// Appends a label in canonical form.
    fn put_label(
        &mut self,
        block: &Arc<OpenBlock>,
        (name, value): LabelNumbers,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockJobError> {
        self.keep_few();
        self.keep(block, name)?;
        self.keep(block, value)?;
        encode_label(out, self.kept[&name].as_bytes(), self.kept[&value].as_bytes());
        Ok(())
    }

    /// The text of a symbol.
    pub(super) fn get(&mut self, block: &Arc<OpenBlock>, number: u64) -> Result<&str, BlockJobError> {
        self.keep_few();
        self.keep(block, number)?;
        Ok(&self.kept[&number])
    }

    fn keep_few(&mut self) {
        if self.bytes > self.bytes_max {
            self.kept.clear();
            self.bytes = 0;
        }
    }

    fn keep(&mut self, block: &Arc<OpenBlock>, number: u64) -> Result<(), BlockJobError> {
        if !self.kept.contains_key(&number) {
            self.scratch.clear();
            ask(block, |block| block.symbol(number, &mut self.scratch))?;
            self.bytes += TEXT_BYTES + self.scratch.len();
            self.kept.insert(number, self.scratch.as_str().into());
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
