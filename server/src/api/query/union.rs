//! What several selections find as one ascending sequence, each row once.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::api::query::Reader;
use crate::api::query::local_blocks::BlockBatch;
use crate::api::query::rows::{RowStream, close};
use crate::routing::ReadLease;
use crate::routing::fanout::FanoutError;
use silverback_runtime::Slice;
use silverback_storage::message::{Selection, SeriesBatch, SeriesView, TextBatch};

/// Streams that are merged; dropping this closes their cursors.
pub(crate) struct RowUnion<B: BlockBatch> {
    reader: Rc<Reader>,
    members: Vec<RowStream<B>>,
    /// The member that has the present row.
    present: Option<usize>,
}

impl<B: BlockBatch> RowUnion<B> {
    /// Opens every selection on every shard, and reads of blocks what is older than memory goes back.
    pub(crate) async fn open_all(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        selections: Vec<Selection>,
        wanted: B::Wanted,
    ) -> Result<Self, FanoutError> {
        let open = async |selection, streams| {
            RowStream::open_all(reader, lease, selection, wanted.clone(), streams).await
        };
        Self::open_each(reader, selections, open).await
    }

    /// Opens every selection on every shard: what memory has, and no block.
    pub(crate) async fn open(
        reader: &Rc<Reader>,
        lease: &ReadLease,
        selections: Vec<Selection>,
        wanted: B::Wanted,
    ) -> Result<Self, FanoutError> {
        let open = async |selection, streams| {
            RowStream::open(reader, lease, selection, wanted.clone(), streams).await
        };
        Self::open_each(reader, selections, open).await
    }

    async fn open_each(
        reader: &Rc<Reader>,
        selections: Vec<Selection>,
        open: impl AsyncFn(Selection, usize) -> Result<RowStream<B>, FanoutError>,
    ) -> Result<Self, FanoutError> {
        let streams = selections.len().max(1);
        let mut union =
            Self { reader: Rc::clone(reader), members: Vec::with_capacity(selections.len()), present: None };
        for selection in selections {
            union.members.push(open(selection, streams).await?);
        }
        Ok(union)
    }

    /// Goes on to the next row, in a slice that comes with it: the one that is held, or another. `None` after the
    /// last row.
    pub(crate) async fn advance(&mut self, held: Option<Slice>) -> Result<Option<Slice>, FanoutError> {
        let mut slice = self.reader.slicer.go_on(held).await;
        self.pass();
        if self.members.iter().any(RowStream::lacks_batch) {
            drop(slice);
            for member in &mut self.members {
                member.fetch().await?;
            }
            slice = self.reader.slicer.begin().await;
        }
        let has_row = self.step();
        if has_row {
            self.join(&mut slice).await;
        }
        Ok(has_row.then_some(slice))
    }

    /// Leaves the present row behind, in all members that have it.
    fn pass(&mut self) {
        let Some(present) = self.present.take() else { return };
        for at in (0..self.members.len()).filter(|at| *at != present) {
            if self.members[at].compare(&self.members[present]).is_eq() {
                self.members[at].pass();
            }
        }
        self.members[present].pass();
    }

    fn step(&mut self) -> bool {
        self.members.retain_mut(|member| member.is_at_row() || member.step());
        self.present = (0..self.members.len()).min_by(|a, b| self.members[*a].compare(&self.members[*b]));
        self.present.is_some()
    }

    /// Of the members that have the present row the first alone is looked at.
    async fn join(&mut self, slice: &mut Slice) {
        if let Some(present) = self.present {
            self.members[present].join(slice).await;
        }
    }

    fn member(&self) -> &RowStream<B> {
        &self.members[self.present.expect("the union was advanced to a row")]
    }
}

impl<B: BlockBatch> Drop for RowUnion<B> {
    fn drop(&mut self) {
        let mut open = BTreeMap::new();
        self.members.iter_mut().for_each(|member| member.give_cursors(&mut open));
        close(&self.reader, open);
    }
}

impl RowUnion<SeriesBatch> {
    /// The present series.
    ///
    /// # Panics
    /// Where none is, before the first and after the last.
    pub(crate) fn series(&self) -> SeriesView<'_> {
        self.member().series()
    }
}

impl RowUnion<TextBatch> {
    /// The present name or value.
    ///
    /// # Panics
    /// Where none is, before the first and after the last.
    pub(crate) fn text(&self) -> &str {
        self.member().text()
    }
}
