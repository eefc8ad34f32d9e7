//! `type: AZURE`: Azure's blob storage.

use std::sync::Arc;

use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};

use super::fields::Fields;
use super::http::{Connector, retries};
use super::{Environment, ObjstoreConfigError, Opened, given_by, unopened};

const ENDPOINT: &str = "blob.core.windows.net";

/// Those of Thanos that say how often its own client tries again, or what it makes at its start.
const IGNORED: [&str; 6] = [
    "max_retries",
    "reader_config",
    "pipeline_config",
    "storage_create_container",
    "azure_storage_account_type",
    "msi_resource",
];

/// What workloads of a cluster are given, and what services are known by.
const OF_ENVIRONMENT: [(&str, Key); 6] = [
    ("AZURE_CLIENT_ID", Key::ClientId),
    ("AZURE_TENANT_ID", Key::AuthorityId),
    ("AZURE_CLIENT_SECRET", Key::ClientSecret),
    ("AZURE_FEDERATED_TOKEN_FILE", Key::FederatedTokenFile),
    ("AZURE_AUTHORITY_HOST", Key::AuthorityHost),
    ("IDENTITY_ENDPOINT", Key::MsiEndpoint),
];

/// Opens it. Credentials: the account's key, a client's secret, a managed identity by its id, the environment's, the
/// machine's own.
pub(super) fn open(
    mut config: Fields,
    environment: Environment<'_>,
    ignored: &mut Vec<String>,
) -> Result<Opened, ObjstoreConfigError> {
    let account = config.required("storage_account")?;
    let container = config.required("container")?;
    let endpoint = config.text("endpoint")?.unwrap_or_else(|| ENDPOINT.to_owned());
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    if !endpoint.chars().all(is_host) || !account.chars().all(is_host) {
        return Err(
            config.wrong("endpoint", "a host such as blob.core.windows.net is wanted, without the account")
        );
    }
    config.refuse("storage_connection_string", "set storage_account and storage_account_key instead")?;
    let mut builder = MicrosoftAzureBuilder::new()
        .with_account(&account)
        .with_container_name(&container)
        .with_endpoint(format!("https://{account}.{endpoint}"))
        .with_retry(retries());
    let key = config.secret("storage_account_key")?;
    let user = config.text("user_assigned_id")?;
    let client = (config.text("az_tenant_id")?, config.text("client_id")?, config.secret("client_secret")?);
    builder = match (key, user, client) {
        (Some(key), None, (None, None, None)) => builder.with_access_key(key.reveal()),
        (None, Some(user), (None, None, None)) => builder.with_client_id(user),
        (None, None, (Some(tenant), Some(id), Some(secret))) => {
            builder.with_client_secret_authorization(id, secret.reveal(), tenant)
        }
        (None, None, (None, None, None)) => {
            let given = given_by(environment, OF_ENVIRONMENT)?.into_iter();
            given.fold(builder, |builder, (key, value)| builder.with_config(key, value))
        }
        _some => {
            let wanted = "one of these is wanted: storage_account_key, user_assigned_id, or az_tenant_id with client_id \
                          and client_secret";
            return Err(config.wrong("storage_account_key", wanted));
        }
    };
    config.ignore(&IGNORED, ignored);
    let connector = Connector::read(config.fields("http_config")?, ignored)?;
    config.end()?;
    let builder = builder.with_http_connector(connector);
    // What the library says of a key that it can't read may repeat it.
    let store = builder.build().map_err(|error| match error {
        object_store::Error::Generic { .. } => ObjstoreConfigError::new(
            "config: the credentials for the container can't be used: the key is Base64",
        ),
        error => unopened(&error),
    })?;
    Ok(Opened { store: Arc::new(store), name: format!("Azure container {container} of {account}") })
}
