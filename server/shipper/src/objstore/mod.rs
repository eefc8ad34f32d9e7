//! Where blocks are shipped to: the file that Thanos' `--objstore.config-file` takes, read and checked.
//!
//! Every field of Thanos is known: it means what it means there, or makes no difference and is logged, or is refused
//! with the reason. What is unknown is refused by its name. No fault and no log repeats a value: many are secrets.

mod azure;
mod fields;
mod filesystem;
mod gcs;
mod http;
mod s3;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::prefix::PrefixStore;
use silverback_host::{open_named, read_named_text};

use fields::Fields;
pub(crate) use fields::SecretField;

/// The file in bytes: a GCS service account and certificates' paths take a few KiB.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Credentials and the like come from here besides: the environment of the process.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why the file can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ObjstoreConfigError(String);

impl ObjstoreConfigError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// A bucket that can be written to, as far as the file says; nothing has been asked of it yet.
#[derive(Clone)]
pub struct BucketConfig {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// What it is called in logs: its type and name.
    pub(crate) name: String,
    /// Fields of Thanos that are set and make no difference here.
    pub(crate) ignored: Vec<String>,
}

/// What a provider makes of its part of the file.
struct Opened {
    store: Arc<dyn ObjectStore>,
    name: String,
}

/// Without the store: not every provider's library hides its keys.
impl fmt::Debug for BucketConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store: _, name, ignored } = self;
        f.debug_struct("BucketConfig").field("name", name).field("ignored", ignored).finish_non_exhaustive()
    }
}

impl BucketConfig {
    /// Reads the file, and the files that it names. Blocks on the disk.
    pub fn read(path: &Path) -> Result<Self, ObjstoreConfigError> {
        let text = read_named_text(path, FILE_BYTES_MAX)
            .map_err(|error| ObjstoreConfigError::new(error.to_string()))?;
        Self::parse(&text, &|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    pub(crate) fn parse(text: &str, environment: Environment<'_>) -> Result<Self, ObjstoreConfigError> {
        let value = serde_yaml_ng::from_str(text)
            .map_err(|error| ObjstoreConfigError::new(format!("it is not YAML: {error}")))?;
        let mut top = Fields::of(value)?;
        let kind = top.required("type")?;
        let prefix = top.text("prefix")?.unwrap_or_default();
        let (config, mut ignored) = (top.fields("config")?, Vec::new());
        top.end()?;
        let Opened { store, name } = match &*kind.to_ascii_uppercase() {
            "S3" => s3::open(config, environment, &mut ignored),
            "GCS" => gcs::open(config, environment, &mut ignored),
            "AZURE" => azure::open(config, environment, &mut ignored),
            "FILESYSTEM" => filesystem::open(config),
            _unshown => Err(ObjstoreConfigError::new("type: S3, GCS, AZURE or FILESYSTEM is wanted")),
        }?;
        let prefix = parse_prefix(&prefix)?;
        let store: Arc<dyn ObjectStore> = match prefix.as_ref().is_empty() {
            true => store,
            false => Arc::new(PrefixStore::new(store, prefix)),
        };
        Ok(Self { store, name, ignored })
    }

    /// Fields of Thanos that are set and make no difference here, by their names.
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }
}

/// A file that the provider's library reads by itself, as the environment names it: what isn't a regular file would
/// hold it up. One that isn't there may come.
fn check_named(name: &str, file: &str) -> Result<(), ObjstoreConfigError> {
    match open_named(file.as_ref()) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            Err(ObjstoreConfigError::new(format!("{name}: {file}: {error}")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What the environment gives of these, by their names.
fn given_by<K>(
    environment: Environment<'_>,
    names: impl IntoIterator<Item = (&'static str, K)>,
) -> Result<Vec<(K, String)>, ObjstoreConfigError> {
    let mut given = Vec::new();
    for (name, key) in names {
        let Some(value) = environment(name) else { continue };
        if name.ends_with("_FILE") {
            check_named(name, &value)?;
        }
        given.push((key, value));
    }
    Ok(given)
}

/// As Thanos takes it: slashes at either end say nothing.
fn parse_prefix(text: &str) -> Result<object_store::path::Path, ObjstoreConfigError> {
    object_store::path::Path::parse(text.trim_matches('/'))
        .map_err(|_unshown| ObjstoreConfigError::new("prefix: a path such as blocks/eu-1 is wanted"))
}

/// What a provider's library says when it can't be opened. It knows places and no secrets; long ones are cut.
fn unopened(error: &object_store::Error) -> ObjstoreConfigError {
    ObjstoreConfigError::new(format!("config: {}", crate::bucket::told(error)))
}
