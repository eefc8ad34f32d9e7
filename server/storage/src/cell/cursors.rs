//! Where samples that are sent again were found last: a sender that repeats scrape after scrape asks many series for one
//! sample each, and later for the next one, which is read from there on rather than from the chunk's begin. A cache: what
//! it forgot is found the long way. Knows neither chunks' bytes nor what is made of what is found.

use silverback_model::SeriesRef;
use silverback_model::gorilla::XorCursor;
use silverback_model::limits::{RESUMED_BYTES_MAX, RESUMED_PAGE_SERIES, RESUMED_PAGES};

use crate::cell::heap::heap_bytes;

/// What the reader of a series' chunk had come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkPosition {
    pub(super) cursor: XorCursor,
    /// The block with the word that it reads next, while the chunk is open; [`NONE`](crate::cell::blocks::NONE) where that
    /// wasn't there yet.
    pub(super) block: u32,
}

/// Likewise, and whose chunk it is.
#[derive(Debug, Clone, Copy)]
struct Resumed {
    series: SeriesRef,
    /// The chunk's first sample, in ms: no other chunk of the series has it.
    chunk_from_ms: i64,
    found: ChunkPosition,
    /// The pass in which it was of use last.
    pass: u8,
}

/// Each in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Page([Option<Resumed>; RESUMED_PAGE_SERIES]);
const _: () = assert!(size_of::<Option<Resumed>>() == 64);
const _: () = assert!(RESUMED_PAGES * size_of::<Page>() <= RESUMED_BYTES_MAX);

/// The cursors of some series. Of those whose refs end alike one has the place, as long as it is of use: so that of
/// more series than there are places as many as there are places are found here, and not none.
#[derive(Debug, Default)]
pub(super) struct ChunkCursors {
    /// Made as they are needed.
    pages: Vec<Option<Box<Page>>>,
    held: usize,
    /// Whether any was of use since [`Self::release_unused`].
    is_used: bool,
    /// Counts the calls of that.
    pass: u8,
}

impl ChunkCursors {
    /// A reader's state in a series' chunk that begins at a time, where it is at a time, in ms, or before it.
    pub(super) fn before(
        &mut self,
        series: SeriesRef,
        chunk_from_ms: i64,
        timestamp_ms: i64,
    ) -> Option<ChunkPosition> {
        let (page, line) = place(series);
        let resumed = self.pages.get_mut(page)?.as_mut()?.0[line].as_mut()?;
        let is_its = resumed.series == series && resumed.chunk_from_ms == chunk_from_ms;
        if !is_its || resumed.found.cursor.last().timestamp_ms > timestamp_ms {
            return None;
        }
        (resumed.pass, self.is_used) = (self.pass, true);
        Some(resumed.found)
    }

    /// Keeps what a reader has come to, unless the place is another series' that needed it in this pass or the last.
    pub(super) fn keep(&mut self, series: SeriesRef, chunk_from_ms: i64, found: ChunkPosition) {
        let (page, line) = place(series);
        if self.pages.is_empty() {
            self.pages.resize_with(RESUMED_PAGES, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| {
            self.held += 1;
            Box::new(Page([None; RESUMED_PAGE_SERIES]))
        });
        let pass = self.pass;
        let is_anothers = |held: &Resumed| held.series != series && pass.wrapping_sub(held.pass) < 2;
        if !page.0[line].as_ref().is_some_and(is_anothers) {
            page.0[line] = Some(Resumed { series, chunk_from_ms, found, pass });
            self.is_used = true;
        }
    }

    /// The series' chunks are others, or the ref will name another one.
    pub(super) fn forget(&mut self, series: SeriesRef) {
        let (page, line) = place(series);
        if let Some(Some(page)) = self.pages.get_mut(page)
            && page.0[line].is_some_and(|resumed| resumed.series == series)
        {
            page.0[line] = None;
        }
    }

    /// Gives the memory back where nobody sent anything again since the last call.
    pub(super) fn release_unused(&mut self) {
        self.pass = self.pass.wrapping_add(1);
        if !std::mem::take(&mut self.is_used) {
            *self = Self::default();
        }
    }

    /// What it takes, the allocator's rounding included.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.held * heap_bytes(size_of::<Page>())
    }
}

fn place(series: SeriesRef) -> (usize, usize) {
    let at = series.0 as usize;
    (at / RESUMED_PAGE_SERIES % RESUMED_PAGES, at % RESUMED_PAGE_SERIES)
}

#[cfg(test)]
mod tests {
    use silverback_model::Sample;
    use silverback_model::gorilla::{XorIter, XorPiece};

    use super::*;
    use crate::cell::blocks::NONE;
    use crate::cell::series::SeriesStore;

    /// What a reader has come to that has read two samples of a chunk, of which the second is at 15 s.
    fn cursor() -> ChunkPosition {
        let mut store = SeriesStore::default();
        let labels = Vec::new().into();
        let at = store.create(silverback_model::SeriesId(7), labels, Sample::new(0, 1.0)).unwrap();
        store.append(at, Sample::new(15_000, 2.0), 0).unwrap();
        store.append(at, Sample::new(30_000, 3.0), 0).unwrap();
        let chunk = store.open_chunk(at);
        let mut reader = XorIter::new(chunk.bytes());
        assert_eq!(reader.by_ref().take(2).filter(Result::is_ok).count(), 2);
        ChunkPosition { cursor: reader.cursor(XorPiece::whole(chunk.bytes())), block: NONE }
    }

    #[test]
    fn a_cursor_serves_its_own_chunk_from_its_time_on() {
        let mut cursors = ChunkCursors::default();
        cursors.keep(SeriesRef(3), 0, cursor());
        for (series, chunk_from_ms, timestamp_ms, expect) in [
            (3, 0, 15_000, true),
            (3, 0, i64::MAX, true),
            (3, 0, 14_999, false),
            (3, 1, 15_000, false),
            (4, 0, 15_000, false),
            (3 + (RESUMED_PAGES * RESUMED_PAGE_SERIES) as u32, 0, 15_000, false),
        ] {
            let found = cursors.before(SeriesRef(series), chunk_from_ms, timestamp_ms);
            assert_eq!(found.is_some(), expect, "{series} {chunk_from_ms} {timestamp_ms}");
        }
        cursors.forget(SeriesRef(4));
        assert!(cursors.before(SeriesRef(3), 0, 15_000).is_some());
        cursors.forget(SeriesRef(3));
        assert!(cursors.before(SeriesRef(3), 0, 15_000).is_none());
    }

    #[test]
    fn of_two_series_with_one_place_the_one_that_needs_it_has_it() {
        let (mut cursors, cursor) = (ChunkCursors::default(), cursor());
        let (one, other) = (SeriesRef(3), SeriesRef(3 + (RESUMED_PAGES * RESUMED_PAGE_SERIES) as u32));
        let has = |cursors: &mut ChunkCursors, series| cursors.before(series, 0, 15_000).is_some();
        for _ in 0..10 {
            [one, other].into_iter().for_each(|series| cursors.keep(series, 0, cursor));
            assert!(has(&mut cursors, one) && !has(&mut cursors, other));
            cursors.release_unused();
        }
        for _ in 0..3 {
            cursors.keep(other, 0, cursor);
            cursors.release_unused();
        }
        cursors.keep(other, 0, cursor);
        assert!(!has(&mut cursors, one) && has(&mut cursors, other), "who stays away loses it");
    }

    #[test]
    fn its_memory_is_bounded_and_comes_back() {
        let mut cursors = ChunkCursors::default();
        let cursor = cursor();
        for series in (0..u32::MAX).step_by(100).take(1_000_000) {
            cursors.keep(SeriesRef(series), 0, cursor);
        }
        assert_eq!(cursors.bytes(), RESUMED_PAGES * heap_bytes(size_of::<Page>()));
        assert!(cursors.bytes() <= RESUMED_BYTES_MAX * 9 / 8, "{} bytes", cursors.bytes());
        cursors.release_unused();
        assert!(cursors.bytes() > 0, "it was used since");
        cursors.release_unused();
        assert_eq!(cursors.bytes(), 0);
    }
}
