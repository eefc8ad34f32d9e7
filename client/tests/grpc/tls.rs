//! TLS, credentials and compression.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use silverback_client::{
    Client, ClientBuilder, Compression, ConnectError, RequestError, Series, WriterError,
};
use tonic::transport::server::ServerTlsConfig;
use tonic::transport::{Certificate, Identity};

use crate::fake::Fake;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for a name, and its key.
fn issue(authority: &Issuer, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn start(authority: &Issuer) -> Fake {
    let (certificate, key) = issue(authority, "node.test");
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(authority.pem()));
    Fake::start_with([], Some(tls))
}

fn builder(fake: &Fake, authority: &Issuer) -> ClientBuilder {
    let (certificate, key) = issue(authority, "client.test");
    Client::builder(format!("https://{}", fake.address))
        .ca_certificate(authority.pem())
        .client_identity(certificate, key)
        .domain_name("node.test")
}

#[tokio::test]
async fn a_client_and_a_node_show_their_certificates_to_each_other() {
    let authority = authority();
    let fake = start(&authority);
    let client = builder(&fake, &authority).connect().await.unwrap();
    let series = Series::new("t", [("a", "b")]).sample(1, 1.0);
    assert_eq!(client.write(&[series]).await.unwrap().samples_written, 1);
}

#[tokio::test]
async fn a_node_that_nobody_vouches_for_is_not_trusted() {
    let (one, other) = (authority(), authority());
    let fake = start(&one);
    let error = builder(&fake, &one).ca_certificate(other.pem()).connect().await.unwrap_err();
    assert!(matches!(&error, ConnectError::Connection { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
    let error = builder(&fake, &one).domain_name("other.test").connect().await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn credentials_go_with_every_request() {
    let fake = Fake::start([]);
    fake.state().authorization = Some("Bearer secret".to_owned());
    let address = format!("http://{}", fake.address);
    let client = Client::builder(&address).bearer_token("secret").connect().await.unwrap();
    client.admin().shards().await.unwrap();
    let writer = client.writer();
    let series = writer.series("t", [("a", "b")]).unwrap();
    writer.write(&series, 1, 1.0).await.unwrap();
    assert_eq!(writer.close().await.unwrap().samples_written, 1);

    fake.state().authorization = Some("Basic dXNlcjpwYXNz".to_owned());
    let basic = Client::builder(&address).basic_auth("user", "pass").connect().await.unwrap();
    basic.admin().shards().await.unwrap();

    assert!(matches!(client.admin().shards().await, Err(RequestError::Denied(_))));
    let writer = client.writer();
    let series = writer.series("t", [("a", "b")]).unwrap();
    writer.write(&series, 2, 1.0).await.unwrap();
    assert!(matches!(writer.close().await, Err(WriterError::Refused(RequestError::Denied(_)))));
}

#[tokio::test]
async fn messages_are_compressed() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let fake = Fake::start([]);
        let builder = Client::builder(format!("http://{}", fake.address)).compression(compression);
        let writer = builder.connect().await.unwrap().writer();
        let series = writer.series("t", [("a", "b")]).unwrap();
        for n in 0..1000 {
            writer.write(&series, n, 1.0).await.unwrap();
        }
        assert_eq!(writer.close().await.unwrap().samples_written, 1000, "{compression:?}");
    }
}
