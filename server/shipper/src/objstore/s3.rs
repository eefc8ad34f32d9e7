//! `type: S3`: AWS and what speaks its protocol.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};

use super::fields::Fields;
use super::http::{Connector, retries};
use super::{Environment, ObjstoreConfigError, Opened, SecretField, given_by, unopened};

/// Those of Thanos that say how its own client is to work.
const IGNORED: [&str; 6] =
    ["list_objects_version", "send_content_md5", "part_size", "trace", "sts_endpoint", "disable_dualstack"];

/// Where credentials come from that aren't in the file, as AWS' own tools have them.
const OF_ENVIRONMENT: [(&str, Key); 11] = [
    ("AWS_ACCESS_KEY_ID", Key::AccessKeyId),
    ("AWS_SECRET_ACCESS_KEY", Key::SecretAccessKey),
    ("AWS_SESSION_TOKEN", Key::Token),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", Key::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", Key::RoleArn),
    ("AWS_ROLE_SESSION_NAME", Key::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", Key::StsEndpoint),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Key::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", Key::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", Key::ContainerAuthorizationTokenFile),
    ("AWS_EC2_METADATA_SERVICE_ENDPOINT", Key::MetadataEndpoint),
];

const REGION: &str = "us-east-1";

/// Opens it; the credentials are looked for when they are needed.
pub(super) fn open(
    mut config: Fields,
    environment: Environment<'_>,
    ignored: &mut Vec<String>,
) -> Result<Opened, ObjstoreConfigError> {
    let bucket = config.required("bucket")?;
    let endpoint = Endpoint::read(&mut config)?;
    let region = config.text("region")?;
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&bucket)
        .with_region(region.or_else(|| endpoint.region(environment)).unwrap_or_else(|| REGION.to_owned()))
        .with_retry(retries());
    builder = endpoint.set(&mut config, &bucket, builder)?;
    builder = credentials(&mut config, environment, builder)?;
    builder = encryption(&mut config, builder)?;
    config.refuse("signature_version2", "requests are signed by version 4 only")?;
    config.refuse("disable_multipart", "large files go in parts only")?;
    config.refuse(
        "put_user_metadata",
        "objects have no metadata of users, and no storage class but the bucket's",
    )?;
    config.ignore(&IGNORED, ignored);
    let connector = Connector::read(config.fields("http_config")?, ignored)?;
    config.end()?;
    let store = builder.with_http_connector(connector).build().map_err(|error| unopened(&error))?;
    Ok(Opened { store: Arc::new(store), name: format!("S3 bucket {bucket} at {}", endpoint.host) })
}

/// Where the service is.
struct Endpoint {
    host: String,
    scheme: &'static str,
}

impl Endpoint {
    fn read(config: &mut Fields) -> Result<Self, ObjstoreConfigError> {
        let host = config.required("endpoint")?;
        let scheme = if config.flag("insecure")? { "http" } else { "https" };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if !host.chars().all(is_host) {
            let wanted = "HOST or HOST:PORT is wanted, without https:// and path; insecure: true is for http";
            return Err(config.wrong("endpoint", wanted));
        }
        Ok(Self { host, scheme })
    }

    fn is_aws(&self) -> bool {
        self.host.ends_with(".amazonaws.com") || self.host.ends_with(".amazonaws.com.cn")
    }

    /// The one that AWS' names of hosts have in them, or the process' environment.
    fn region(&self, environment: Environment<'_>) -> Option<String> {
        let labels = self.host.strip_prefix("s3").filter(|_| self.is_aws())?;
        let labels = labels.trim_start_matches(['.', '-']).trim_start_matches("dualstack.");
        let region = labels.split('.').next().filter(|region| region.contains('-'));
        region
            .map(str::to_owned)
            .or_else(|| environment("AWS_REGION"))
            .or_else(|| environment("AWS_DEFAULT_REGION"))
    }

    /// AWS has a host for each bucket, most others have paths.
    fn set(
        &self,
        config: &mut Fields,
        bucket: &str,
        builder: AmazonS3Builder,
    ) -> Result<AmazonS3Builder, ObjstoreConfigError> {
        let Self { host, scheme } = self;
        let of_host = match config.text("bucket_lookup_type")?.as_deref() {
            // A name with dots is no name that a certificate for all buckets is for.
            None | Some("auto") => self.is_aws() && !bucket.contains('.'),
            Some("virtual-hosted") => true,
            Some("path") => false,
            Some(_unshown) => {
                return Err(config.wrong("bucket_lookup_type", "auto, virtual-hosted or path is wanted"));
            }
        };
        let url = if of_host { format!("{scheme}://{bucket}.{host}") } else { format!("{scheme}://{host}") };
        let builder = builder.with_virtual_hosted_style_request(of_host).with_endpoint(url);
        Ok(builder.with_allow_http(*scheme == "http"))
    }
}

/// The file's, both or none; else the environment's; else what the machine or the cluster gives.
fn credentials(
    config: &mut Fields,
    environment: Environment<'_>,
    builder: AmazonS3Builder,
) -> Result<AmazonS3Builder, ObjstoreConfigError> {
    let (id, secret) = (config.secret("access_key")?, config.secret("secret_key")?);
    let token = config.secret("session_token")?;
    let of_sdk = config.flag("aws_sdk_auth")?;
    let reveal = |secret: &SecretField| secret.reveal().to_owned();
    match (id, secret) {
        (Some(_), Some(_)) if of_sdk => {
            Err(config.wrong("aws_sdk_auth", "it is not set beside access_key and secret_key"))
        }
        (Some(id), Some(secret)) => {
            let builder = builder.with_access_key_id(reveal(&id)).with_secret_access_key(reveal(&secret));
            Ok(token.iter().fold(builder, |builder, token| builder.with_token(reveal(token))))
        }
        (None, None) => {
            let given = given_by(environment, OF_ENVIRONMENT)?.into_iter();
            Ok(given.fold(builder, |builder, (key, value)| builder.with_config(key, value)))
        }
        _one => Err(config.wrong("access_key", "it and secret_key are set together, or neither is")),
    }
}

fn encryption(config: &mut Fields, builder: AmazonS3Builder) -> Result<AmazonS3Builder, ObjstoreConfigError> {
    let mut sse = config.fields("sse_config")?;
    let kind = sse.text("type")?;
    let key_id = sse.text("kms_key_id")?;
    sse.refuse("kms_encryption_context", "no context but AWS' own is supported")?;
    sse.refuse("encryption_key", "keys of one's own (SSE-C) aren't supported")?;
    let builder = match kind.as_deref() {
        None => builder,
        Some("SSE-S3") => builder.with_config(server_side_encryption(), "AES256"),
        Some("SSE-KMS") => {
            let key_id = key_id.ok_or_else(|| sse.wrong("kms_key_id", "it is missing"))?;
            builder.with_sse_kms_encryption(key_id)
        }
        Some(_unshown) => return Err(sse.wrong("type", "SSE-S3 or SSE-KMS is wanted")),
    };
    sse.end()?;
    Ok(builder)
}

fn server_side_encryption() -> Key {
    "aws_server_side_encryption".parse().expect("a name of the library's own")
}
