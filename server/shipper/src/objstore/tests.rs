//! Files as Thanos documents them, and such that hold something wrong: each says what, and no secret.

use std::fmt::Debug;
use std::fs;

use proptest::prelude::*;
use rcgen::CertifiedKey;
use silverback_test_support::Scratch;

use super::*;

/// A token that isn't a credential of anybody.
const HUNTER: &str = "hunter2";

fn no_environment(_: &str) -> Option<String> {
    None
}

fn parse(text: &str) -> Result<BucketConfig, ObjstoreConfigError> {
    BucketConfig::parse(text, &no_environment)
}

fn check(text: &str, name: &str, ignored: &[&str]) {
    let config = parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert_eq!(
        (&*config.name, &config.ignored),
        (name, &ignored.iter().map(ToString::to_string).collect()),
        "{text}"
    );
}

fn check_refused(text: &str, words: &[&str]) {
    let fault = parse(text).expect_err(text).to_string();
    assert!(words.iter().all(|word| fault.contains(word)), "{text}: {fault}");
    assert!(!fault.contains(HUNTER), "a secret is repeated: {fault}");
}

/// As Thanos' own document has them, with all fields at what they are if nobody sets them.
const S3: &str = "type: S3
config:
  bucket: 'thanos'
  endpoint: 's3.eu-central-1.amazonaws.com'
  region: ''
  disable_dualstack: false
  aws_sdk_auth: false
  access_key: 'id'
  insecure: false
  signature_version2: false
  secret_key: 'hunter2'
  session_token: ''
  put_user_metadata: {}
  http_config:
    idle_conn_timeout: 1m30s
    response_header_timeout: 2m
    insecure_skip_verify: false
    tls_handshake_timeout: 10s
    expect_continue_timeout: 1s
    max_idle_conns: 100
    max_idle_conns_per_host: 100
    max_conns_per_host: 0
    tls_config:
      ca_file: ''
      cert_file: ''
      key_file: ''
      server_name: ''
      insecure_skip_verify: false
    disable_compression: false
  trace:
    enable: false
  list_objects_version: ''
  bucket_lookup_type: auto
  send_content_md5: true
  disable_multipart: false
  part_size: 67108864
  sse_config:
    type: ''
    kms_key_id: ''
    kms_encryption_context: {}
    encryption_key: ''
  sts_endpoint: ''
prefix: ''
";

const AZURE: &str = "type: AZURE
config:
  storage_account: 'acc'
  storage_account_key: 'aHVudGVyMg=='
  storage_connection_string: ''
  container: 'blocks'
  endpoint: ''
  user_assigned_id: ''
  max_retries: 0
  reader_config:
    max_retry_requests: 0
  pipeline_config:
    max_tries: 0
    try_timeout: 0s
    retry_delay: 0s
    max_retry_delay: 0s
  http_config:
    idle_conn_timeout: 0s
    response_header_timeout: 0s
    insecure_skip_verify: false
    tls_handshake_timeout: 0s
    expect_continue_timeout: 0s
    max_idle_conns: 0
    max_idle_conns_per_host: 0
    max_conns_per_host: 0
    tls_config:
      ca_file: ''
      cert_file: ''
      key_file: ''
      server_name: ''
      insecure_skip_verify: false
    disable_compression: false
  msi_resource: ''
prefix: ''
";

#[test]
fn what_thanos_documents_is_taken() {
    let ignored = [
        "config.send_content_md5",
        "config.part_size",
        "config.http_config.expect_continue_timeout",
        "config.http_config.max_idle_conns",
        "config.http_config.max_idle_conns_per_host",
    ];
    check(S3, "S3 bucket thanos at s3.eu-central-1.amazonaws.com", &ignored);
    check(AZURE, "Azure container blocks of acc", &[]);
    let gcs = "type: GCS\nconfig:\n  bucket: b\n  service_account: ''\n  use_grpc: false\n  grpc_conn_pool_size: 3\n  \
        http_config: {}\nprefix: ''\n";
    check(gcs, "GCS bucket b", &["config.grpc_conn_pool_size"]);
    let scratch = Scratch::new();
    let directory = scratch.join("made/here");
    check(
        &format!("type: filesystem\nconfig: {{directory: {directory:?}}}\n"),
        &format!("directory {}", directory.display()),
        &[],
    );
    assert!(directory.is_dir());
}

#[test]
fn what_is_wrong_is_told_by_its_field() {
    let s3 = |more: &str| format!("type: S3\nconfig:\n  bucket: b\n  endpoint: localhost:9000\n{more}");
    check_refused("", &["type: it is missing"]);
    check_refused("- hunter2", &["not a mapping"]);
    check_refused("type: [hunter2", &["not YAML"]);
    check_refused("type: SWIFT", &["S3, GCS, AZURE or FILESYSTEM"]);
    check_refused("type: hunter2", &["S3, GCS, AZURE or FILESYSTEM"]);
    check_refused("type: S3\nconfig: hunter2", &["config: fields"]);
    check_refused("type: S3\nbucket: b\n", &["bucket: there is no such field"]);
    check_refused("type: S3\nconfig: {endpoint: e}\n", &["config.bucket: it is missing"]);
    check_refused("type: S3\nconfig: {bucket: b}\n", &["config.endpoint: it is missing"]);
    check_refused(&s3("  acces_key: hunter2\n"), &["config.acces_key: there is no such field", "access_key"]);
    check_refused(&s3("  access_key: hunter2\n"), &["config.access_key", "together"]);
    check_refused(&s3("  secret_key: hunter2\n"), &["config.access_key", "together"]);
    check_refused(&s3("  access_key: a\n  secret_key: b\n  aws_sdk_auth: true\n"), &["aws_sdk_auth"]);
    check_refused(&s3("  secret_key: [hunter2]\n"), &["config.secret_key: plain text"]);
    check_refused(&s3("  insecure: hunter2\n"), &["config.insecure: true or false"]);
    check_refused(&s3("  signature_version2: true\n"), &["config.signature_version2: ", "version 4"]);
    check_refused(&s3("  disable_multipart: true\n"), &["config.disable_multipart"]);
    check_refused(&s3("  put_user_metadata: {a: hunter2}\n"), &["config.put_user_metadata"]);
    check_refused(&s3("  bucket_lookup_type: hunter2\n"), &["auto, virtual-hosted or path"]);
    check_refused(
        &s3("  sse_config: {type: SSE-C, encryption_key: hunter2}\n"),
        &["config.sse_config.encryption_key"],
    );
    check_refused(&s3("  sse_config: {type: SSE-KMS}\n"), &["config.sse_config.kms_key_id: it is missing"]);
    check_refused(&s3("  sse_config: {type: hunter2}\n"), &["SSE-S3 or SSE-KMS"]);
    check_refused(
        &s3("  http_config: {idle_conn_timeout: hunter2}\n"),
        &["config.http_config.idle_conn_timeout"],
    );
    check_refused(&s3("  http_config: {tls_config: {server_name: other}}\n"), &["tls_config.server_name"]);
    check_refused(
        &s3("  http_config: {tls_config: {cert_file: a}}\n"),
        &["tls_config.cert_file", "together"],
    );
    check_refused(
        &s3("  http_config: {tls_config: {ca_file: /nowhere/ca.pem}}\n"),
        &["tls_config.ca_file: /nowhere"],
    );
    check_refused(&s3("prefix: a/../b\n"), &["prefix: "]);
    check_refused(
        "type: S3\nconfig: {bucket: b, endpoint: 'https://host'}\n",
        &["config.endpoint", "without https://"],
    );
    check_refused("type: S3\nconfig: {bucket: b, endpoint: 'user:hunter2@host'}\n", &["config.endpoint"]);
    check_refused("type: GCS\nconfig: {}\n", &["config.bucket: it is missing"]);
    check_refused("type: GCS\nconfig: {bucket: b, service_account: hunter2}\n", &["config.service_account"]);
    check_refused(
        "type: GCS\nconfig: {bucket: b, service_account: '{\"private_key\": \"hunter2\"}'}\n",
        &["service account"],
    );
    let azure = |more: &str| format!("type: AZURE\nconfig: {{storage_account: a, container: c, {more}}}\n");
    check_refused("type: AZURE\nconfig: {container: c}\n", &["config.storage_account: it is missing"]);
    check_refused(&azure("storage_account_key: 'hunter2!'"), &["Base64"]);
    check_refused(&azure("storage_account_key: hunter2, user_assigned_id: x"), &["one of these is wanted"]);
    check_refused(&azure("client_id: x, client_secret: hunter2"), &["one of these is wanted"]);
    check_refused(&azure("storage_connection_string: hunter2"), &["storage_connection_string"]);
    check_refused(&azure("endpoint: https://x"), &["config.endpoint"]);
    check_refused("type: FILESYSTEM\nconfig: {}\n", &["config.directory: it is missing"]);
    check_refused("type: FILESYSTEM\nconfig: {directory: /dev/null/x}\n", &["config.directory: /dev/null/x"]);
}

#[test]
fn credentials_come_from_the_environment_where_the_file_has_none() {
    let s3 = |more: &str| format!("type: S3\nconfig:\n  bucket: b\n  endpoint: localhost:9000\n{more}");
    let environment = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "id".to_owned());
    let fault = BucketConfig::parse(&s3(""), &environment).unwrap_err().to_string();
    assert!(fault.contains("SecretAccessKey") || fault.contains("Secret"), "{fault}");
    let file = s3("  access_key: a\n  secret_key: b\n");
    BucketConfig::parse(&file, &environment).expect("the file has both");
    // What the machine or the cluster gives is asked for when it is needed.
    parse(&s3("")).unwrap();
    parse(&s3("  aws_sdk_auth: true\n")).unwrap();
    parse("type: AZURE\nconfig: {storage_account: a, container: c, user_assigned_id: x}\n").unwrap();
    parse("type: AZURE\nconfig: {storage_account: a, container: c, az_tenant_id: t, client_id: x, client_secret: y}\n").unwrap();
}

#[test]
fn what_the_environment_names_is_a_regular_file_or_not_there_yet() {
    let s3 = "type: S3\nconfig: {bucket: b, endpoint: localhost:9000}\n";
    let gcs = "type: GCS\nconfig: {bucket: b}\n";
    let azure = "type: AZURE\nconfig: {storage_account: a, container: c}\n";
    for (text, variable) in [
        (s3, "AWS_WEB_IDENTITY_TOKEN_FILE"),
        (gcs, "GOOGLE_APPLICATION_CREDENTIALS"),
        (azure, "AZURE_FEDERATED_TOKEN_FILE"),
    ] {
        let environment = |name: &str| (name == variable).then(|| "/dev/zero".to_owned());
        let fault = BucketConfig::parse(text, &environment).unwrap_err().to_string();
        assert_eq!(fault, format!("{variable}: /dev/zero: it is a device, not a regular file"));
    }
    let environment = |name: &str| match name {
        "AWS_WEB_IDENTITY_TOKEN_FILE" => Some("/nowhere/token".to_owned()),
        "AWS_ROLE_ARN" => Some("arn:aws:iam::1:role/a".to_owned()),
        _other => None,
    };
    BucketConfig::parse(s3, &environment).unwrap();
}

#[test]
fn aws_has_a_host_for_each_bucket_and_a_region_in_its_name() {
    let check = |endpoint: &str, more: &str, url: &str, region: &str| {
        let text = format!(
            "type: S3\nconfig: {{bucket: b, endpoint: '{endpoint}', access_key: i, secret_key: s{more}}}"
        );
        let shown = format!("{:?}", parse(&text).unwrap().store);
        assert!(shown.contains(&format!("bucket_endpoint: \"{url}\"")), "{shown}");
        assert!(shown.contains(&format!("region: \"{region}\"")), "{shown}");
        assert!(!shown.contains("secret_key: \"s\""), "{shown}");
    };
    let aws = "https://b.s3.eu-central-1.amazonaws.com";
    check("s3.eu-central-1.amazonaws.com", "", aws, "eu-central-1");
    check("s3.eu-central-1.amazonaws.com", ", region: other-1", aws, "other-1");
    check(
        "s3.dualstack.eu-west-1.amazonaws.com",
        "",
        "https://b.s3.dualstack.eu-west-1.amazonaws.com",
        "eu-west-1",
    );
    check("s3.amazonaws.com", "", "https://b.s3.amazonaws.com", "us-east-1");
    check(
        "s3.eu-west-1.amazonaws.com",
        ", bucket_lookup_type: path",
        "https://s3.eu-west-1.amazonaws.com/b",
        "eu-west-1",
    );
    check("minio:9000", ", insecure: true", "http://minio:9000/b", "us-east-1");
    check("minio:9000", ", bucket_lookup_type: virtual-hosted", "https://b.minio:9000", "us-east-1");
}

#[test]
fn certificates_are_read_and_what_is_none_is_told() {
    let scratch = Scratch::new();
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = scratch.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (cert, key) = (write("cert", cert.pem()), write("key", signing_key.serialize_pem()));
    let none = write("none", HUNTER.to_owned());
    let with = |tls: String| {
        format!("type: S3\nconfig: {{bucket: b, endpoint: e, http_config: {{tls_config: {{{tls}}}}}}}\n")
    };
    check(&with(format!("ca_file: {cert}, cert_file: {cert}, key_file: {key}")), "S3 bucket b at e", &[]);
    check(&with("insecure_skip_verify: true".to_owned()), "S3 bucket b at e", &[]);
    check_refused(&with(format!("ca_file: {none}")), &["tls_config.ca_file: there are no certificates"]);
    check_refused(&with(format!("cert_file: {cert}, key_file: {none}")), &["tls_config.cert_file"]);
}

#[test]
fn a_file_is_read_up_to_a_bound() {
    let scratch = Scratch::new();
    let path = scratch.join("objstore.yaml");
    let told = |fault: Result<BucketConfig, ObjstoreConfigError>| fault.unwrap_err().to_string();
    assert!(told(BucketConfig::read(&path)).contains("No such file"));
    fs::write(&path, format!("type: S3\n#{}\n", "x".repeat(FILE_BYTES_MAX as usize))).unwrap();
    assert!(told(BucketConfig::read(&path)).contains("larger than"));
    fs::write(&path, [0xFF, 0xFE]).unwrap();
    assert!(told(BucketConfig::read(&path)).contains("UTF-8"));
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n\
        d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n\
        g: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    check_refused(bomb, &[""]);
    check_refused(&"[".repeat(100_000), &["not YAML"]);
}

fn shown(value: &impl Debug) -> String {
    format!("{value:?}")
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(type: (S3|GCS|AZURE)\n)?(config:\n)?( {0,2}[a-z_]{1,9}: [a-z0-9\\[\\]{}:, '&*-]{0,12}\n){0,8}") {
        let _no_panic = parse(&text);
    }

    #[test]
    fn no_secret_is_shown(secret in "[a-z]{12}") {
        let text = S3.replace(HUNTER, &secret);
        let config = parse(&text).unwrap();
        prop_assert!(!shown(&config).contains(&secret) && !shown(&config.store).contains(&secret));
    }
}
