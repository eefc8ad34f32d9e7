//! Prepared requests in a file, and in memory for the replay. It knows nothing of what is in a body.
//!
//! The file: magic, length and JSON of the options, then each request as five little-endian `u32`
//! (connection, round, samples, raw length, length) and its body, until the end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use super::generate::{GenerateError, GenerateOptions, Request, generate};

const MAGIC: &[u8; 8] = b"SBLOAD1\n";
const REQUEST_HEAD_BYTES: usize = 20;

/// The requests of one file.
#[derive(Debug)]
pub struct Dataset {
    /// What they were generated from.
    pub options: GenerateOptions,
    /// Each connection's requests, in sending order.
    pub connections: Vec<Vec<Prepared>>,
    bytes: Vec<u8>,
}

/// One prepared request: where its body is, and what is in it.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    offset: usize,
    length: u32,
    /// The round that it is sent in.
    pub round: u32,
    /// Its samples.
    pub samples: u32,
    /// The body's length before compression.
    pub raw_bytes: u32,
}

/// Why a file can't be read.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The file itself.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// Not what `gen` writes, or cut short.
    #[error("not a data set, or damaged at byte {offset}")]
    Damaged {
        /// Where.
        offset: usize,
    },
}

/// Generates a file.
pub fn write(path: &Path, options: &GenerateOptions) -> Result<(), GenerateError> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let json = serde_json::to_vec(options).map_err(io::Error::other)?;
    file.write_all(MAGIC)?;
    file.write_all(&(json.len() as u32).to_le_bytes())?;
    file.write_all(&json)?;
    generate(options, |request| write_request(&mut file, request))?;
    Ok(file.flush()?)
}

fn write_request(file: &mut impl Write, request: Request<'_>) -> io::Result<()> {
    let Request { connection, round, samples, raw_bytes, body } = request;
    for word in [connection as u32, round, samples as u32, raw_bytes as u32, body.len() as u32] {
        file.write_all(&word.to_le_bytes())?;
    }
    file.write_all(body)
}

impl Dataset {
    /// Reads a file into memory.
    pub fn open(path: &Path) -> Result<Self, DatasetError> {
        Self::parse(std::fs::read(path)?)
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, DatasetError> {
        let damaged = |offset| DatasetError::Damaged { offset };
        let rest = bytes.strip_prefix(MAGIC).ok_or(damaged(0))?;
        let (length, rest) = rest.split_first_chunk().ok_or(damaged(MAGIC.len()))?;
        let json = rest.get(..u32::from_le_bytes(*length) as usize).ok_or(damaged(MAGIC.len()))?;
        let options: GenerateOptions = serde_json::from_slice(json).map_err(|_| damaged(MAGIC.len() + 4))?;
        let mut offset = MAGIC.len() + 4 + json.len();
        let mut connections = vec![Vec::new(); options.connections];
        while offset < bytes.len() {
            let head = bytes.get(offset..offset + REQUEST_HEAD_BYTES).ok_or(damaged(offset))?;
            let word = |i: usize| {
                u32::from_le_bytes([head[4 * i], head[4 * i + 1], head[4 * i + 2], head[4 * i + 3]])
            };
            let request = Prepared {
                offset: offset + REQUEST_HEAD_BYTES,
                length: word(4),
                round: word(1),
                samples: word(2),
                raw_bytes: word(3),
            };
            connections.get_mut(word(0) as usize).ok_or(damaged(offset))?.push(request);
            offset = request.offset + request.length as usize;
            if offset > bytes.len() {
                return Err(damaged(request.offset));
            }
        }
        Ok(Self { options, connections, bytes })
    }

    /// A request's body.
    pub fn body(&self, request: &Prepared) -> &[u8] {
        &self.bytes[request.offset..request.offset + request.length as usize]
    }

    /// All requests, one connection after another.
    pub fn requests(&self) -> impl Iterator<Item = &Prepared> {
        self.connections.iter().flatten()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::encode::RemoteWrite;
    use crate::replay::generate::tests::small;

    pub(crate) fn in_memory(options: &GenerateOptions) -> Dataset {
        Dataset::parse(file_bytes(options)).expect("a file that was just written")
    }

    fn file_bytes(options: &GenerateOptions) -> Vec<u8> {
        let name = format!("silverback-dataset-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        write(&path, options).expect("a file in the temporary directory");
        let bytes = std::fs::read(&path).expect("the file that was just written");
        std::fs::remove_file(&path).expect("the file that was just read");
        bytes
    }

    #[test]
    fn a_file_holds_what_was_generated() {
        let options = small(RemoteWrite::V2);
        let dataset = in_memory(&options);
        assert_eq!(dataset.options, options);
        let mut requests = dataset.requests();
        generate(&options, |generated| {
            let read = requests.next().expect("as many requests");
            assert_eq!(dataset.body(read), generated.body);
            assert_eq!((read.round, read.samples as usize), (generated.round, generated.samples));
            Ok(())
        })
        .expect("options that can be met");
        assert!(requests.next().is_none());
    }

    #[test]
    fn a_file_cut_short_is_refused() {
        let bytes = file_bytes(&small(RemoteWrite::V1));
        for length in [0, 7, 11, 40, bytes.len() - 1] {
            assert!(matches!(Dataset::parse(bytes[..length].to_vec()), Err(DatasetError::Damaged { .. })));
        }
    }
}
