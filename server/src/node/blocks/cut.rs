//! One cut: a range of the memory to a block, which has its name once all of it is on disk.

use std::sync::Arc;

use super::{Keeper, StepFault};
use crate::api::query::range_blocks::{
    Orders, Shelf, Unfinished, WritingFault, check_room, failed, random, write_ranges,
};
use crate::blocks::{Blocks, CutOf, Range};
use crate::routing::Asker;
use silverback_block::{BlockWriter, Cut, FinishedBlock, Origin, Ulid, WriteError};
use silverback_runtime::now;
use silverback_storage::message::HeldSamples;

/// What is cut, and under which name.
struct Place {
    blocks: Arc<Blocks>,
    data_dir: std::path::PathBuf,
    ulid: Ulid,
    range: Range,
}

impl Keeper {
    /// Cuts a range; one without samples is noted as that.
    pub(super) async fn cut(&mut self, range: Range) -> Result<(), StepFault> {
        let began = now();
        let written = self.write(range).await;
        let took_us = began.elapsed().as_micros() as u64;
        self.blocks.counts.note_time(took_us);
        match written? {
            Some((ulid, FinishedBlock { meta, bytes })) => {
                let stats = meta.stats;
                tracing::info!(
                    %ulid,
                    series = stats.num_series,
                    samples = stats.num_samples,
                    bytes,
                    took_ms = took_us / 1000,
                    "a range of two hours was cut to a block"
                );
                self.blocks.counts.note_cut(CutOf::Range, range.end_ms(), bytes);
                self.blocks.changed.tell();
            }
            None => {
                self.empty.insert(range);
            }
        }
        Ok(())
    }

    async fn write(&self, range: Range) -> Result<Option<(Ulid, FinishedBlock)>, StepFault> {
        let reader = &self.reader;
        let read = reader.begin_read(&Asker::default()).await?;
        let ulid = Ulid::from_parts(reader.clock.now_ms().max(0) as u64, u128::from(random()));
        let place =
            Place { blocks: Arc::clone(&self.blocks), data_dir: reader.config.data_dir.clone(), ulid, range };
        let ranges = std::iter::once(range.times_ms());
        let write = move |orders| write(&place, orders);
        let written = write_ranges(reader, read, ranges, &self.blocks.thread, write).await?;
        Ok(written.map(|block| (ulid, block)))
    }
}

fn write(place: &Place, orders: Orders) -> Result<Option<FinishedBlock>, WritingFault> {
    let Place { blocks, data_dir, ulid, .. } = place;
    check_room(data_dir)?;
    blocks.dir.make().map_err(failed(blocks.dir.path()))?;
    let unfinished = Unfinished::new(blocks.dir.unfinished(*ulid));
    let mut shelf = CutShelf { place, block: None };
    orders.write(data_dir, &mut shelf)?;
    let Some(block) = shelf.block else { return Ok(None) };
    unfinished.rename(&blocks.dir.block(*ulid))?;
    Ok(Some(block))
}

struct CutShelf<'a> {
    place: &'a Place,
    block: Option<FinishedBlock>,
}

impl Shelf for CutShelf<'_> {
    fn begin(&mut self) -> Result<BlockWriter, WriteError> {
        BlockWriter::create_at(self.place.blocks.dir.unfinished(self.place.ulid), self.place.ulid)
    }

    fn origin(&self, held: &HeldSamples) -> Origin {
        let cut = Cut { begin_ms: self.place.range.begin_ms(), held: held.0.to_vec() };
        Origin { is_late: false, cut: Some(cut) }
    }

    fn put(&mut self, block: FinishedBlock) {
        self.block = Some(block);
    }
}
