//! How far an import is: a small file beside what is imported, so that a later run goes on there.
//!
//! It says of each block how many of its series are done, and of a text how many of its lines, with
//! all their samples acknowledged. A file that is too old by one flush costs nothing but time: samples
//! that are sent again are accepted.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{CommandError, Context, Done};
use crate::write::TextPosition;

/// What was sent is flushed and noted so often.
pub(super) const NOTE_INTERVAL: Duration = Duration::from_secs(5);

/// The file, and what is in it.
#[derive(Debug)]
pub(super) struct ImportState {
    path: PathBuf,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Content {
    /// The node that is imported into.
    address: String,
    /// Which samples are imported.
    scope: String,
    /// By the block's name.
    #[serde(default)]
    blocks: BTreeMap<String, BlockState>,
    /// After the lines of a text that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<TextPosition>,
}

/// How far a block is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockState {
    /// Series that are done, in the order in which they are in the block.
    pub series_done: u64,
    /// Whether these are all.
    pub is_whole: bool,
}

impl ImportState {
    /// Reads the file, or begins without one. One of another import is refused: it would leave
    /// out what this one is to import.
    pub(super) fn open(path: &Path, address: &str, scope: &str) -> Done<Self> {
        let (address, scope) = (address.to_owned(), scope.to_owned());
        let fresh = Content { address, scope, blocks: BTreeMap::new(), text: None };
        let content = match std::fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => fresh.clone(),
            read => {
                let bytes = read.context(|| format!("can't read {}", path.display()))?;
                let parsed = serde_json::from_slice(&bytes);
                let remedy = "remove it to start over";
                parsed.context(|| format!("{} isn't the state of an import: {remedy}", path.display()))?
            }
        };
        if (&content.address, &content.scope) != (&fresh.address, &fresh.scope) {
            return Err(CommandError::Usage(format!(
                "{} is the state of an import to {} of {}; give another --state, or remove it to start over",
                path.display(),
                content.address,
                content.scope
            )));
        }
        Ok(Self { path: path.to_owned(), content })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How far a block is.
    pub(super) fn of(&self, block: &str) -> BlockState {
        self.content.blocks.get(block).copied().unwrap_or_default()
    }

    /// Notes how far a block is. Call it once its samples are acknowledged, not before.
    pub(super) fn note(&mut self, block: &str, state: BlockState) -> Done {
        match self.content.blocks.insert(block.to_owned(), state) == Some(state) {
            true => Ok(()),
            false => self.keep(),
        }
    }

    /// How far a text is.
    pub(super) fn of_text(&self) -> Option<TextPosition> {
        self.content.text
    }

    /// Notes how far a text is. Call it once the samples before are acknowledged, not before.
    pub(super) fn note_text(&mut self, place: TextPosition) -> Done {
        match self.content.text.replace(place) == Some(place) {
            true => Ok(()),
            false => self.keep(),
        }
    }

    fn keep(&self) -> Done {
        self.save().context(|| {
            format!("can't write {}, where it is noted how far the import is", self.path.display())
        })
    }

    /// A new file takes the old one's place, so that there is a whole one at any moment.
    fn save(&self) -> std::io::Result<()> {
        let mut next = self.path.clone().into_os_string();
        next.push(".next");
        let mut file = File::create(&next)?;
        serde_json::to_writer_pretty(&mut file, &self.content)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        std::fs::rename(&next, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_there_for_the_same_import_and_for_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.json");
        let noted = BlockState { series_done: 5, is_whole: false };
        let mut state = ImportState::open(&path, "http://a", "all").unwrap();
        assert_eq!(state.of("B"), BlockState::default());
        state.note("B", noted).unwrap();
        assert_eq!(ImportState::open(&path, "http://a", "all").unwrap().of("B"), noted);
        assert_eq!(state.of_text(), None);
        let place = TextPosition { lines: 3, bytes: 40 };
        state.note_text(place).unwrap();
        assert_eq!(ImportState::open(&path, "http://a", "all").unwrap().of_text(), Some(place));
        assert!(matches!(ImportState::open(&path, "http://b", "all"), Err(CommandError::Usage(_))));
        assert!(matches!(ImportState::open(&path, "http://a", "some"), Err(CommandError::Usage(_))));
        std::fs::write(&path, "{").unwrap();
        assert!(ImportState::open(&path, "http://a", "all").is_err());
    }

    #[test]
    fn a_place_that_can_not_be_written_is_told() {
        let mut state = ImportState::open(Path::new("/nowhere/state.json"), "http://a", "all").unwrap();
        assert!(state.note("B", BlockState { series_done: 1, is_whole: true }).is_err());
    }
}
