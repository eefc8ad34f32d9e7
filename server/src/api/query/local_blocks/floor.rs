//! Since when memory is sure to have everything that the node accepted: the floor. Retention drops what is older than
//! its horizon, pass by pass; the floor is raised ahead of it, and is on disk before a pass goes by it, for a node that starts
//! again has in memory what its log has, which was dropped or not.
//!
//! Pure but for its file. Which blocks there are isn't known here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use silverback_block::put_file;
use silverback_model::limits::CHUNK_RANGE_MS;

/// In the data directory.
const FILE: &str = "memory-floor";
/// So far the floor stays ahead of retention: a read that began before it was raised has so long to end.
const AHEAD_MS: i64 = 30 * 60 * 1000;

/// The end of the range of two hours that a time is in, or the time itself where it is a border.
pub(super) fn border_after(at_ms: i64) -> i64 {
    let begin_ms = at_ms.div_euclid(CHUNK_RANGE_MS).saturating_mul(CHUNK_RANGE_MS);
    if begin_ms == at_ms { at_ms } else { begin_ms.saturating_add(CHUNK_RANGE_MS) }
}

/// The least floor for a pass of retention with this horizon.
pub(super) fn floor_for(horizon_ms: i64) -> i64 {
    border_after(horizon_ms.saturating_add(AHEAD_MS))
}

/// The least horizon that a floor may have been raised for.
pub(super) fn horizon_of(floor_ms: i64) -> i64 {
    floor_ms.saturating_sub(AHEAD_MS + CHUNK_RANGE_MS).saturating_add(1)
}

/// The floor's file.
#[derive(Debug)]
pub(super) struct FloorFile {
    dir: PathBuf,
}

impl FloorFile {
    pub(super) fn of(data_dir: &Path) -> Self {
        Self { dir: data_dir.to_owned() }
    }

    /// The floor that was written last; `None`: none was, or what is there isn't one.
    #[expect(clippy::disallowed_methods, reason = "before executors start")]
    pub(super) fn read(&self) -> io::Result<Option<i64>> {
        match fs::read_to_string(self.dir.join(FILE)) {
            Ok(text) => Ok(text.trim().parse().ok().filter(|floor_ms| border_after(*floor_ms) == *floor_ms)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it, durably.
    #[expect(clippy::disallowed_methods, reason = "a thread of its own")]
    pub(super) fn write(&self, floor_ms: i64) -> io::Result<()> {
        put_file(&self.dir, FILE, format!("{floor_ms}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_test_support::Scratch;

    #[test]
    fn a_floor_is_a_border_ahead_of_retention() {
        const H2: i64 = CHUNK_RANGE_MS;
        for (at_ms, border_ms) in [(0, 0), (1, H2), (H2, H2), (-1, 0), (-H2, -H2), (H2 + 1, 2 * H2)] {
            assert_eq!(border_after(at_ms), border_ms, "{at_ms}");
        }
        assert_eq!(floor_for(H2 - AHEAD_MS), H2);
        assert_eq!(floor_for(H2 - AHEAD_MS + 1), 2 * H2);
        assert!(floor_for(i64::MIN) < 0 && floor_for(i64::MAX) > 0);
        for horizon_ms in (0..3 * H2).step_by(77_777).chain([0, H2 - AHEAD_MS, H2 - AHEAD_MS + 1]) {
            let least_ms = horizon_of(floor_for(horizon_ms));
            assert!(least_ms <= horizon_ms && floor_for(least_ms) == floor_for(horizon_ms));
            assert!(floor_for(least_ms - 1) < floor_for(horizon_ms));
        }
    }

    #[test]
    fn a_floor_comes_back_and_what_is_none_does_not() {
        let scratch = Scratch::new();
        let file = FloorFile::of(scratch.path());
        assert_eq!(file.read().unwrap(), None);
        for floor_ms in [0, 17 * CHUNK_RANGE_MS, -CHUNK_RANGE_MS] {
            file.write(floor_ms).unwrap();
            assert_eq!(file.read().unwrap(), Some(floor_ms));
        }
        for text in ["", "soon", "17", "\u{0}"] {
            fs::write(scratch.join(FILE), text).unwrap();
            assert_eq!(file.read().unwrap(), None, "{text:?}");
        }
        fs::write(scratch.join(FILE), b"\xff").unwrap();
        assert_eq!(file.read().unwrap(), None);
    }
}
