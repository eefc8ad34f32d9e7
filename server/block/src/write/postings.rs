//! Which series have each label: a list for each pair of name and value, and the table of where the lists are.
//!
//! The lists are filled some at a time, in a pass over all series for each piece of them, so that memory has a bound.

use super::index::ASK_EVERY;
use super::output::Output;
use super::spool::WrittenSpool;
use super::texts::{Pair, Texts};
use super::{WriteError, put_uvarint};

/// Entries of lists that are filled in one pass, where that takes no more passes than [`PASSES`].
const POSTINGS_AT_ONCE: usize = if cfg!(test) { 8 } else { 1 << 20 };
/// Passes over the series: above so many, more is filled in each.
const PASSES: u64 = 16;
/// A list's length, its count and its checksum.
const LIST_BYTES: u64 = 12;
const ENTRY_BYTES: u64 = 4;

/// What the lists are made of.
pub struct PostingsSource<'a> {
    pub texts: &'a Texts,
    pub pairs: &'a [Pair],
    /// Of texts, by their numbers.
    pub ordinals: &'a [u32],
    /// For each series its reference and the numbers of its pairs, 32 bits each.
    pub references: &'a WrittenSpool,
    pub series: u64,
    pub pairs_used: u64,
}

/// Where they begin in the index.
pub struct Placed {
    pub lists_at: u64,
    pub table_at: u64,
}

/// Entries that are filled in one pass, where series have so many labels in all. One list may exceed it.
pub fn at_once(pairs_used: u64) -> usize {
    POSTINGS_AT_ONCE.max(usize::try_from(pairs_used / PASSES).unwrap_or(usize::MAX))
}

/// Writes the lists and their table.
pub fn put(
    index: &mut Output,
    source: &PostingsSource<'_>,
    is_wanted: &dyn Fn() -> bool,
) -> Result<Placed, WriteError> {
    let entries_max = at_once(source.pairs_used);
    let order = order(source);
    index.align(ENTRY_BYTES)?;
    let lists_at = index.at();
    put_all_series(index, source)?;
    let mut ranks = vec![0; order.len()];
    for (rank, pair) in (0_u32..).zip(&order) {
        ranks[*pair as usize] = rank;
    }
    let mut from = 0;
    while from < order.len() {
        from = put_piece(index, source, &order, &ranks, from, entries_max, is_wanted)?;
    }
    drop(ranks);
    let table_at = index.at();
    put_table(index, source, &order, lists_at)?;
    Ok(Placed { lists_at, table_at })
}

/// Pairs by name and value.
fn order(source: &PostingsSource<'_>) -> Vec<u32> {
    let key = |pair: &u32| {
        let Pair { name, value, .. } = source.pairs[*pair as usize];
        (source.ordinals[name as usize], source.ordinals[value as usize])
    };
    let mut order: Vec<u32> = (0..source.pairs.len() as u32).collect();
    order.sort_unstable_by_key(key);
    order
}

fn put_all_series(index: &mut Output, source: &PostingsSource<'_>) -> Result<(), WriteError> {
    begin_list(index, source.series)?;
    let mut records = source.references.read()?;
    while let Some(record) = records.next()? {
        index.put(&record[..4])?;
    }
    index.put_sum()
}

fn begin_list(index: &mut Output, series: u64) -> Result<(), WriteError> {
    let len = 4 + ENTRY_BYTES * series;
    let max = u64::from(u32::MAX);
    let len =
        u32::try_from(len).map_err(|_long| WriteError::TooMuch { what: "the bytes of postings", max })?;
    index.put(&len.to_be_bytes())?;
    index.begin_sum();
    index.put(&(series as u32).to_be_bytes())
}

/// Writes lists from that rank on, as many as one pass fills, and gives the rank after them.
fn put_piece(
    index: &mut Output,
    source: &PostingsSource<'_>,
    order: &[u32],
    ranks: &[u32],
    from: usize,
    entries_max: usize,
    is_wanted: &dyn Fn() -> bool,
) -> Result<usize, WriteError> {
    let series_of = |rank: usize| source.pairs[order[rank] as usize].series as usize;
    let (mut to, mut entries, mut filled) = (from, 0, Vec::new());
    while to < order.len() && (to == from || entries + series_of(to) <= entries_max) {
        filled.push(entries);
        entries += series_of(to);
        to += 1;
    }
    let (mut lists, mut records, mut done) = (vec![0_u32; entries], source.references.read()?, 0_u64);
    while let Some(record) = records.next()? {
        let mut words =
            record.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let reference = words.next().unwrap_or_default();
        for pair in words {
            let rank = ranks[pair as usize] as usize;
            if (from..to).contains(&rank) {
                lists[filled[rank - from]] = reference;
                filled[rank - from] += 1;
            }
        }
        done += 1;
        if done.is_multiple_of(ASK_EVERY) && !is_wanted() {
            return Err(WriteError::Unwanted);
        }
    }
    let mut lists = &lists[..];
    for rank in from..to {
        let (list, others) = lists.split_at(series_of(rank));
        begin_list(index, list.len() as u64)?;
        list.iter().try_for_each(|reference| index.put(&reference.to_be_bytes()))?;
        index.put_sum()?;
        lists = others;
    }
    Ok(to)
}

/// The lists follow each other, so that the length of each tells where the next one begins.
fn put_table(
    index: &mut Output,
    source: &PostingsSource<'_>,
    order: &[u32],
    lists_at: u64,
) -> Result<(), WriteError> {
    let entries = || {
        let all = std::iter::once((&b""[..], &b""[..], source.series));
        let pairs = order.iter().map(|pair| {
            let Pair { name, value, series } = source.pairs[*pair as usize];
            (source.texts.get(name), source.texts.get(value), u64::from(series))
        });
        all.chain(pairs).scan(lists_at, |at, (name, value, series)| {
            let own_at = *at;
            *at += LIST_BYTES + ENTRY_BYTES * series;
            Some((name, value, own_at))
        })
    };
    let mut entry = Vec::new();
    let mut len = 4_u64;
    for (name, value, at) in entries() {
        put_entry(&mut entry, name, value, at);
        len += entry.len() as u64;
    }
    let max = u64::from(u32::MAX);
    let len =
        u32::try_from(len).map_err(|_large| WriteError::TooMuch { what: "the bytes of the table", max })?;
    index.put(&len.to_be_bytes())?;
    index.begin_sum();
    index.put(&(order.len() as u32 + 1).to_be_bytes())?;
    for (name, value, at) in entries() {
        put_entry(&mut entry, name, value, at);
        index.put(&entry)?;
    }
    index.put_sum()
}

fn put_entry(out: &mut Vec<u8>, name: &[u8], value: &[u8], at: u64) {
    out.clear();
    out.push(2);
    for text in [name, value] {
        put_uvarint(out, text.len() as u64);
        out.extend_from_slice(text);
    }
    put_uvarint(out, at);
}
