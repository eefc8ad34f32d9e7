//! `type: GCS`: Google Cloud Storage.

use std::sync::Arc;

use object_store::gcp::GoogleCloudStorageBuilder;

use super::fields::Fields;
use super::http::{Connector, retries};
use super::{Environment, ObjstoreConfigError, Opened, check_named, unopened};

/// Opens it. Credentials: the service account that is in the file, the one in the file that
/// `GOOGLE_APPLICATION_CREDENTIALS` names, gcloud's own, or the machine's, workload identity included.
pub(super) fn open(
    mut config: Fields,
    environment: Environment<'_>,
    ignored: &mut Vec<String>,
) -> Result<Opened, ObjstoreConfigError> {
    let bucket = config.required("bucket")?;
    let mut builder = GoogleCloudStorageBuilder::new().with_bucket_name(&bucket).with_retry(retries());
    if let Some(account) = config.secret("service_account")? {
        let account = account.reveal();
        if serde_json::from_str::<serde_json::Map<_, _>>(account).is_err() {
            return Err(config.wrong("service_account", "a service account's JSON is wanted"));
        }
        builder = builder.with_service_account_key(account);
    } else if let Some(file) = environment("GOOGLE_APPLICATION_CREDENTIALS") {
        check_named("GOOGLE_APPLICATION_CREDENTIALS", &file)?;
        builder = builder.with_application_credentials(file);
    }
    config.ignore(&["use_grpc", "grpc_conn_pool_size", "max_retries", "chunk_size_bytes"], ignored);
    config.refuse("universe_domain", "no domain but googleapis.com is supported")?;
    let connector = Connector::read(config.fields("http_config")?, ignored)?;
    config.end()?;
    // What the library says of a service account that it can't read may repeat parts of it.
    let builder = builder.with_http_connector(connector);
    let store = builder.build().map_err(|error| match error {
        object_store::Error::Generic { .. } => ObjstoreConfigError::new(
            "config: the credentials for the bucket can't be read: a service account's JSON is wanted",
        ),
        error => unopened(&error),
    })?;
    Ok(Opened { store: Arc::new(store), name: format!("GCS bucket {bucket}") })
}
