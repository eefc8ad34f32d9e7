//! Blocks to a node: one after the other, each noted in the state as far as the node has it.

use std::time::Instant;

use super::block::BlockFault;
use super::pieces::{self, Piece};
use super::report::{End, ImportReport};
use super::sources::FoundBlock;
use super::state::{BlockState, NOTE_INTERVAL, State};
use crate::failure::Failure;
use crate::figures::grouped;
use crate::filter::Filter;
use crate::interrupt::Interrupt;
use crate::sending::Sending;

/// Faults that are told one by one.
const TOLD_MAX: u64 = 20;

/// Imports what isn't imported yet.
pub async fn import(
    found: Vec<FoundBlock>,
    filter: Filter,
    state: State,
    sending: Sending,
    interrupt: Interrupt,
) -> Result<ImportReport, Failure> {
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
    for block in &found {
        let ended = import.block(block).await;
        if let Err(failure) = ended {
            // Even so it is worth to know what is written.
            import.sending.progress().tell(&import.report.with_sent(import.sending.report()).to_string());
            return Err(failure);
        }
        import.series_before += block.meta.stats.num_series;
        if import.report.end == End::Interrupt {
            break;
        }
    }
    let Import { sending, state, report, .. } = import;
    let sent = sending.close().await?;
    Ok(report.with_sent(&sent).with_state(state.path()))
}

struct Import {
    filter: Filter,
    state: State,
    sending: Sending,
    interrupt: Interrupt,
    report: ImportReport,
    /// Series of the blocks before.
    series_before: u64,
    began: Instant,
    noted: Instant,
}

impl Import {
    async fn block(&mut self, block: &FoundBlock) -> Result<(), Failure> {
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
        let mut pieces = pieces::read(&block.dir, done.series_done, self.filter.clone());
        let is_whole = loop {
            let piece = tokio::select! {
                piece = pieces.recv() => piece,
                () = self.interrupt.come() => {
                    self.report.end = End::Interrupt;
                    break false;
                }
            };
            match piece {
                None => break true,
                Some(Ok(piece)) => self.take(piece, name, &mut done).await?,
                Some(Err(fault)) => {
                    self.report.blocks_damaged += 1;
                    self.tell(&fault);
                    break false;
                }
            }
        };
        self.report.blocks_read += u64::from(is_whole);
        self.note(name, BlockState { is_whole, ..done }).await
    }

    async fn take(&mut self, piece: Piece, block: &str, done: &mut BlockState) -> Result<(), Failure> {
        match piece {
            Piece::Samples(labels, samples) => {
                let first_ms = samples.first().map(|(at_ms, _)| *at_ms);
                self.report.took(samples.len() as u64, first_ms);
                self.sending.send(&labels, samples).await?;
            }
            Piece::OtherChunk => self.report.other_chunks += 1,
            Piece::DamagedChunk(fault) => {
                self.report.chunks_damaged += 1;
                self.tell(&fault);
            }
            Piece::BadSeries(why) => {
                self.report.series_bad += 1;
                self.sending.progress().tell(&format!("block {block}: a series is left out: {why}"));
            }
            Piece::SeriesDone(number) => {
                done.series_done = number;
                self.report.series += 1;
                self.show(number);
                if self.noted.elapsed() >= NOTE_INTERVAL {
                    self.note(block, *done).await?;
                }
            }
        }
        Ok(())
    }

    /// Waits for the node to have what was sent, and notes it.
    async fn note(&mut self, block: &str, done: BlockState) -> Result<(), Failure> {
        self.sending.flush().await?;
        self.noted = Instant::now();
        self.state.note(block, done)
    }

    fn tell(&self, fault: &BlockFault) {
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
