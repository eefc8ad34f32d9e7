//! Which blocks are shipped, in a file beside them that Thanos' shipper has as well: `thanos.shipper.json`. It only
//! spares questions to the bucket: one that is lost or damaged is started over.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use silverback_block::{Ulid, put_file};

const FILE: &str = "thanos.shipper.json";
/// Of some hundred thousand blocks.
const FILE_BYTES_MAX: u64 = 4 << 20;
const VERSION: u32 = 1;

/// The file.
#[derive(Debug, Deserialize, Serialize)]
struct Content {
    version: u32,
    /// Thanos writes `null` where there are none.
    uploaded: Option<Vec<String>>,
}

/// Reads the one in a directory; none is an empty one. An error says why one that is there can't be used.
pub(crate) fn read(dir: &Path) -> io::Result<BTreeSet<Ulid>> {
    let mut text = Vec::new();
    match File::open(dir.join(FILE)) {
        Ok(file) => file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    parse(&text).map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))
}

fn parse(text: &[u8]) -> Result<BTreeSet<Ulid>, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if content.version != VERSION {
        return Err(format!("its version is {}, not {VERSION}", content.version));
    }
    let uploaded = content.uploaded.unwrap_or_default();
    uploaded.iter().map(|name| Ulid::from_string(name).map_err(|_| "it names no block".to_owned())).collect()
}

/// Writes it, so that after a crash it is the one or the other.
pub(crate) fn write(dir: &Path, uploaded: &BTreeSet<Ulid>) -> io::Result<()> {
    let uploaded = Some(uploaded.iter().map(Ulid::to_string).collect());
    let mut text = serde_json::to_vec_pretty(&Content { version: VERSION, uploaded })?;
    text.push(b'\n');
    put_file(dir, FILE, &text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use silverback_test_support::Scratch;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_no_file_is_an_empty_one() {
        let dir = Scratch::new();
        assert_eq!(read(dir.path()).unwrap(), BTreeSet::new());
        let uploaded = BTreeSet::from([Ulid::from_parts(1, 2), Ulid::from_parts(3, 4)]);
        write(dir.path(), &uploaded).unwrap();
        assert_eq!(read(dir.path()).unwrap(), uploaded);
        let names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [FILE], "nothing else is left");
    }

    #[test]
    fn the_file_is_thanos_own() {
        let text = "{\n\t\"version\": 1,\n\t\"uploaded\": [\n\t\t\"01DTVP434PA9VFXSW2JKB3392D\"\n\t]\n}\n";
        let expect = BTreeSet::from([Ulid::from_string("01DTVP434PA9VFXSW2JKB3392D").unwrap()]);
        assert_eq!(parse(text.as_bytes()).unwrap(), expect);
        assert_eq!(parse(br#"{"version":1,"uploaded":null}"#).unwrap(), BTreeSet::new());
    }

    #[test]
    fn a_damaged_file_is_an_error_that_tells_why() {
        let check = |text: &[u8], word: &str| {
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(word), "{fault}");
        };
        check(b"", "EOF");
        check(br#"{"version":2,"uploaded":[]}"#, "version is 2");
        check(br#"{"version":1,"uploaded":["../../x"]}"#, "names no block");
        check(&vec![b' '; FILE_BYTES_MAX as usize + 1], "larger than");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _no_panic = parse(&text);
        }
    }
}
