//! Blocks to a node, one after the other, each noted in the state as far as the node has it; then the head, which is
//! read again each time.

use std::time::Instant;

use super::head::{Head, HeadFiles};
use super::pieces::{self, ImportPiece};
use super::report::{End, ImportReport};
use super::sources::{FoundBlock, Tsdb};
use super::state::{BlockState, ImportState, NOTE_INTERVAL};
use crate::error::Done;
use crate::figures::grouped;
use crate::filter::Filter;
use crate::interrupt::Interrupt;
use crate::sending::Sending;
use silverback_block::BlockError;
use tokio::sync::mpsc;

/// Faults that are reported one by one.
const TOLD_MAX: u64 = 20;

/// Imports what isn't imported yet. `head` is the data directory's, looked through.
pub(super) async fn import(
    tsdb: Tsdb,
    head: Option<Head>,
    filter: Filter,
    state: ImportState,
    sending: Sending,
    interrupt: Interrupt,
) -> Done<ImportReport> {
    let mut import = Import {
        filter,
        state,
        sending,
        interrupt,
        report: ImportReport::default(),
        series_before: 0,
        began: Instant::now(),
        noted: Instant::now(),
    };
    if let Err(failure) = import.all(&tsdb, head).await {
        // Even so it is worth to know what is written.
        import.sending.progress().tell(&import.report.with_sent(import.sending.report()).to_string());
        return Err(failure);
    }
    let Import { sending, state, report, .. } = import;
    let sent = sending.close().await?;
    Ok(report.with_sent(&sent).with_state(state.path()))
}

struct Import {
    filter: Filter,
    state: ImportState,
    sending: Sending,
    interrupt: Interrupt,
    report: ImportReport,
    /// Series of the blocks before.
    series_before: u64,
    began: Instant,
    noted: Instant,
}

impl Import {
    async fn all(&mut self, tsdb: &Tsdb, head: Option<Head>) -> Done {
        for block in &tsdb.blocks {
            self.block(block).await?;
            self.series_before += block.meta.stats.num_series;
            if self.report.end == End::Interrupt {
                return Ok(());
            }
        }
        match (&tsdb.head, head) {
            (Some(files), Some(head)) => self.head(files, head).await,
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// How far it is isn't noted: it goes on growing, and samples that are sent again are accepted.
    async fn head(&mut self, files: &HeadFiles, head: Head) -> Done {
        self.report.found_head(files);
        if files.segments.is_empty() {
            return Ok(());
        }
        let pieces = head.read(self.filter.clone());
        self.take_all(pieces, None, &mut BlockState::default()).await.map(drop)
    }

    async fn block(&mut self, block: &FoundBlock) -> Done {
        let name = block.meta.ulid.as_str();
        let mut done = self.state.of(name);
        if done.is_whole {
            self.report.blocks_before += 1;
            return Ok(());
        }
        if !self.filter.touches(block.meta.min_ms, block.meta.end_ms) {
            self.report.blocks_out_of_range += 1;
            return Ok(());
        }
        let pieces = pieces::read(&block.dir, done.series_done, self.filter.clone());
        let is_whole = self.take_all(pieces, Some(name), &mut done).await?;
        self.report.blocks_read += u64::from(is_whole);
        self.note(name, BlockState { is_whole, ..done }).await
    }

    /// Takes the pieces of a block, or of the head, and says whether it came to their end.
    async fn take_all(
        &mut self,
        mut pieces: mpsc::Receiver<Result<ImportPiece, BlockError>>,
        block: Option<&str>,
        done: &mut BlockState,
    ) -> Done<bool> {
        loop {
            let piece = tokio::select! {
                piece = pieces.recv() => piece,
                () = self.interrupt.come() => {
                    self.report.end = End::Interrupt;
                    return Ok(false);
                }
            };
            match piece {
                None => return Ok(true),
                Some(Ok(piece)) => self.take(piece, block, done).await?,
                Some(Err(fault)) => {
                    match block {
                        Some(_) => self.report.blocks_damaged += 1,
                        None => self.report.heads_damaged += 1,
                    }
                    self.tell(&fault);
                    return Ok(false);
                }
            }
        }
    }

    /// A piece of a block, or of the head.
    async fn take(&mut self, piece: ImportPiece, block: Option<&str>, done: &mut BlockState) -> Done {
        match piece {
            ImportPiece::Samples(labels, samples) => {
                let first_ms = samples.first().map(|(at_ms, _)| *at_ms);
                self.report.took(samples.len() as u64, first_ms);
                self.sending.send(&labels, samples).await?;
                self.show(done.series_done);
            }
            ImportPiece::Histograms(labels, histograms) => {
                let first_ms = histograms.first().map(|(at_ms, _)| *at_ms);
                self.report.took(histograms.len() as u64, first_ms);
                self.sending.send_histograms(&labels, &histograms).await?;
                self.show(done.series_done);
            }
            ImportPiece::OtherChunk => self.report.other_chunks += 1,
            ImportPiece::DamagedChunk(fault) => {
                self.report.chunks_damaged += 1;
                self.tell(&fault);
            }
            ImportPiece::BadSeries(why) => {
                self.report.series_bad += 1;
                let source = block.map_or("the head".to_owned(), |block| format!("block {block}"));
                self.sending.progress().tell(&format!("{source}: a series is left out: {why}"));
            }
            ImportPiece::HeadDone(counts) => {
                self.series_before += counts.series;
                self.report.head.add(counts);
            }
            ImportPiece::SeriesDone(number) => {
                done.series_done = number;
                self.report.series += 1;
                self.show(number);
                if let Some(block) = block
                    && self.noted.elapsed() >= NOTE_INTERVAL
                {
                    self.note(block, *done).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits for the node to have what was sent, and notes it.
    async fn note(&mut self, block: &str, done: BlockState) -> Done {
        self.sending.flush().await?;
        self.noted = Instant::now();
        self.state.note(block, done)
    }

    fn tell(&self, fault: &BlockError) {
        let told = self.report.faults();
        if told <= TOLD_MAX {
            self.sending.progress().tell(&format!("damaged: {fault}"));
        } else if told == TOLD_MAX + 1 {
            self.sending.progress().tell("further damage is counted only");
        }
    }

    fn show(&self, series_done: u64) {
        let samples = self.report.samples;
        let rate = samples as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let words = format!("{} samples, {}/s", grouped(samples), grouped(rate as u64));
        self.sending.progress().show(self.series_before + series_done, words);
    }
}
