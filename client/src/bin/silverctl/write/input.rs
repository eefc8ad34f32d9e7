//! A text that samples are read from, line by line, on a thread of its own.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::error::{Context, Done};
use crate::formats::{Format, InputLine, LineEntry, LineError, Lines, Parser};

const BUFFER_BYTES: usize = 256 << 10;
/// Entries that are handed over at once.
const BATCH_ENTRIES_MAX: usize = 1000;
/// A batch ends after the line with which it has so many samples.
const BATCH_SAMPLES_MAX: usize = 10_000;
/// Batches that are read ahead.
const BATCHES_MAX: usize = 4;

/// A text, not read yet.
pub(crate) struct Input {
    lines: Lines<BufReader<Box<dyn Read + Send>>>,
    parser: Option<Parser>,
    is_at_end: bool,
    /// In bytes, if it is known.
    pub size: Option<u64>,
}

/// A place in a text, after a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextPosition {
    /// Lines before it.
    pub lines: u64,
    /// Bytes before it.
    pub bytes: u64,
}

/// What some lines held.
#[derive(Debug, Default)]
pub(crate) struct LineBatch {
    /// What they say, each with its line's number.
    pub entries: Vec<(u64, LineEntry)>,
    /// What is wrong with the others.
    pub faults: Vec<NumberedLineError>,
    /// What was read so far, from the text's begin on.
    pub end: TextPosition,
    samples: usize,
}

/// A line that holds no samples though it should.
#[derive(Debug)]
pub(crate) struct NumberedLineError {
    /// Its number, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub fault: LineError,
}

impl Input {
    /// Opens a file; `-` or none is standard input.
    pub(crate) fn open(path: Option<&Path>, format: Option<Format>) -> Done<Self> {
        let parser = format.map(Parser::new);
        let (source, size): (Box<dyn Read + Send>, _) = match path {
            Some(path) if path != Path::new("-") => {
                let open = || {
                    let file = File::open(path)?;
                    let metadata = file.metadata()?;
                    Ok((file, metadata.is_file().then_some(metadata.len())))
                };
                let opened: io::Result<_> = open();
                let (file, size) = opened.context(|| format!("can't open {}", path.display()))?;
                (Box::new(file), size)
            }
            Some(_) | None => (Box::new(io::stdin()), None),
        };
        let lines = Lines::new(BufReader::with_capacity(BUFFER_BYTES, source));
        Ok(Self { lines, parser, is_at_end: false, size })
    }

    /// Goes to a place where an earlier run ended. Returns whether these lines end there: else it is
    /// another text by now.
    pub(crate) fn go_to(&mut self, place: TextPosition) -> Done<bool> {
        while self.lines.number < place.lines {
            let line = self.lines.next_line().context(|| "can't read on".to_owned())?;
            match line {
                None => return Ok(false),
                // The first line may say how the others are to be read.
                Some(InputLine::Whole(line)) if self.parser.is_none() && !line.trim_ascii().is_empty() => {
                    let parser = self.parser.insert(Parser::guess(line));
                    parser.note_header(line);
                }
                Some(InputLine::Whole(line)) => {
                    if let Some(parser) = &mut self.parser {
                        parser.note_header(line);
                    }
                }
                Some(InputLine::TooLong) => {}
            }
        }
        Ok(self.place() == place)
    }

    fn place(&self) -> TextPosition {
        TextPosition { lines: self.lines.number, bytes: self.lines.bytes }
    }

    /// Reads it, as far as what was read is taken. Ends with an error where the text can't be read
    /// any further.
    pub(crate) fn read(mut self) -> mpsc::Receiver<io::Result<LineBatch>> {
        let (sender, receiver) = mpsc::channel(BATCHES_MAX);
        // Not one of the runtime's: a wait for standard input has no end that it could wait for.
        std::thread::spawn(move || {
            loop {
                let batch = self.next_batch().transpose();
                let Some(batch) = batch else { return };
                // Nobody reads any more: Ctrl-C, or the node is gone.
                if batch.is_err() | sender.blocking_send(batch).is_err() {
                    return;
                }
            }
        });
        receiver
    }

    fn next_batch(&mut self) -> io::Result<Option<LineBatch>> {
        let mut batch = LineBatch::default();
        while !self.is_at_end {
            let parsed = match self.lines.next_line()? {
                // Noted, because a terminal would have to end its input a second time.
                None => {
                    self.is_at_end = true;
                    break;
                }
                Some(InputLine::TooLong) => Err(LineError::TooLong),
                Some(InputLine::Whole(line)) if self.parser.is_none() && line.trim_ascii().is_empty() => {
                    Ok(None)
                }
                Some(InputLine::Whole(line)) => {
                    self.parser.get_or_insert_with(|| Parser::guess(line)).parse(line)
                }
            };
            batch.take(parsed, self.lines.number);
            // What is to come from a pipe isn't waited for: what came before it goes out first.
            if batch.is_full() || self.lines.is_drained() {
                break;
            }
        }
        batch.end = self.place();
        Ok((!self.is_at_end || !batch.is_empty()).then_some(batch))
    }
}

impl LineBatch {
    fn take(&mut self, parsed: Result<Option<LineEntry>, LineError>, line: u64) {
        match parsed {
            Ok(None) => {}
            Ok(Some(entry)) => {
                self.samples += entry.samples.len();
                self.entries.push((line, entry));
            }
            Err(fault) => self.faults.push(NumberedLineError { line, fault }),
        }
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.faults.is_empty()
    }

    fn is_full(&self) -> bool {
        self.entries.len() + self.faults.len() >= BATCH_ENTRIES_MAX || self.samples >= BATCH_SAMPLES_MAX
    }
}
