//! `type: FILESYSTEM`: a directory, also one that other machines see.

use std::path::Path;
use std::sync::Arc;

use object_store::local::LocalFileSystem;

use super::fields::Fields;
use super::{ObjstoreConfigError, Opened, unopened};

/// Makes the directory where it isn't there, as Thanos does. What is uploaded is durable there: the local block may go
/// then.
pub(super) fn open(mut config: Fields) -> Result<Opened, ObjstoreConfigError> {
    let directory = config.required("directory")?;
    config.end()?;
    std::fs::create_dir_all(&directory)
        .map_err(|error| ObjstoreConfigError::new(format!("config.directory: {directory}: {error}")))?;
    let store = LocalFileSystem::new_with_prefix(Path::new(&directory)).map_err(|error| unopened(&error))?;
    Ok(Opened { store: Arc::new(store.with_fsync(true)), name: format!("directory {directory}") })
}
