//! The index, out of what a writer has collected: symbols, series, postings and their table, the table of contents.

use std::path::Path;

use super::output::Output;
use super::postings::{self, PostingsSource};
use super::spool::Spool;
use super::texts::{Pairs, Texts};
use super::{WriteError, put_uvarint};
use crate::cursor::Cursor;
use crate::fault::Misread;
use crate::series::ALIGNMENT;
use crate::toc::{MAGIC, VERSION};

/// After so many series it is asked whether to go on.
pub const ASK_EVERY: u64 = 4096;

/// What the index is made of.
pub struct Source {
    pub texts: Texts,
    pub pairs: Pairs,
    /// Series, in their order.
    pub spool: Spool,
    pub series: u64,
    /// Labels of all series.
    pub pairs_used: u64,
}

/// Writes `index` into the block's directory, and says how long it is in bytes.
pub fn write(dir: &Path, source: Source, is_wanted: &dyn Fn() -> bool) -> Result<u64, WriteError> {
    let Source { mut texts, pairs, spool, series, pairs_used } = source;
    texts.forget_numbers();
    let pairs = pairs.into_pairs();
    let sorted = texts.sorted();
    let mut ordinals = vec![0; sorted.len()];
    for (ordinal, id) in (0..).zip(&sorted) {
        ordinals[*id as usize] = ordinal;
    }
    let mut index = Output::create(&dir.join("index"))?;
    index.put(&MAGIC.to_be_bytes())?;
    index.put(&[VERSION])?;
    let symbols_at = index.at();
    put_symbols(&mut index, &texts, &sorted)?;
    drop(sorted);
    let series_at = index.at();
    let spool = spool.finish()?;
    let mut references = Spool::create(&dir.join("references.spool"))?;
    let (mut records, mut done, mut content, mut head) = (spool.read()?, 0_u64, Vec::new(), Vec::new());
    while let Some(record) = records.next()? {
        index.align(ALIGNMENT)?;
        let reference = u32::try_from(index.at() / ALIGNMENT);
        let max = u64::from(u32::MAX) * ALIGNMENT;
        let reference =
            reference.map_err(|_far| WriteError::TooMuch { what: "the bytes of the series", max })?;
        let mut cursor = Cursor::new(record, 0, "a record");
        let labels = cursor.uvarint().map_err(|misread| misread.of(spool.path()))?;
        content.clear();
        head.clear();
        put_uvarint(&mut content, labels);
        for _label in 0..labels {
            let id = read_pair(&mut cursor, pairs.len()).map_err(|misread| misread.of(spool.path()))?;
            let pair = pairs[id as usize];
            put_uvarint(&mut content, u64::from(ordinals[pair.name as usize]));
            put_uvarint(&mut content, u64::from(ordinals[pair.value as usize]));
            head.extend_from_slice(&id.to_be_bytes());
        }
        references.put(&[&reference.to_be_bytes(), &head])?;
        content.extend_from_slice(cursor.rest());
        head.clear();
        put_uvarint(&mut head, content.len() as u64);
        index.put(&head)?;
        index.begin_sum();
        index.put(&content)?;
        index.put_sum()?;
        done += 1;
        if done.is_multiple_of(ASK_EVERY) && !is_wanted() {
            return Err(WriteError::Unwanted);
        }
    }
    drop(records);
    spool.remove()?;
    let references = references.finish()?;
    let source = PostingsSource {
        texts: &texts,
        pairs: &pairs,
        ordinals: &ordinals,
        references: &references,
        series,
        pairs_used,
    };
    let placed = postings::put(&mut index, &source, is_wanted)?;
    references.remove()?;
    index.begin_sum();
    // There are no lists of label values, nor a table of them: nobody reads them any more.
    for offset in [symbols_at, series_at, placed.lists_at, placed.table_at, placed.lists_at, placed.table_at]
    {
        index.put(&offset.to_be_bytes())?;
    }
    index.put_sum()?;
    index.finish()
}

fn read_pair(cursor: &mut Cursor<'_>, pairs: usize) -> Result<u32, Misread> {
    let misread = cursor.misread(crate::fault::Problem::Overflows { what: "a pair's number" });
    let id = cursor.uvarint()?;
    let id = u32::try_from(id).ok().filter(|id| (*id as usize) < pairs);
    id.ok_or(misread)
}

fn put_symbols(index: &mut Output, texts: &Texts, sorted: &[u32]) -> Result<(), WriteError> {
    let mut head = Vec::new();
    let mut len = 4_u64;
    for id in sorted {
        head.clear();
        put_uvarint(&mut head, texts.get(*id).len() as u64);
        len += (head.len() + texts.get(*id).len()) as u64;
    }
    let max = u64::from(u32::MAX);
    let len =
        u32::try_from(len).map_err(|_large| WriteError::TooMuch { what: "the bytes of all symbols", max })?;
    index.put(&len.to_be_bytes())?;
    index.begin_sum();
    index.put(&(sorted.len() as u32).to_be_bytes())?;
    for id in sorted {
        head.clear();
        put_uvarint(&mut head, texts.get(*id).len() as u64);
        index.put(&head)?;
        index.put(texts.get(*id))?;
    }
    index.put_sum()
}
