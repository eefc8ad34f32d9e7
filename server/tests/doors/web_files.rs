//! Web configuration files of many kinds, beside what Prometheus' exporter toolkit makes of each (`web_files/`): taken or
//! refused as there, and whoever comes gets the same answer. Where the node differs, it is named here, and why is in
//! the document on who may do what.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{default_provider, kx_group::SECP384R1};
use rustls::{ClientConfig, NamedGroup};
use silverback::access;
use silverback::config::Config;
use silverback_node_test_support::Node;
use silverback_test_support::http::{request, try_read_answer};
use silverback_test_support::{Scratch, TEST_TIMEOUT};

use crate::certificates::{Authority, Issued, connect};
use crate::scene::{basic, write};

/// Where the node does something else: the words of the document that say so, what it does, and in which cases.
const DIFFERENT: &[(&str, &str, &[&str])] = &[
    ("more than one YAML document", "refused", &["two documents"]),
    (
        "a client CA file without a certificate",
        "refused",
        &[
            "VerifyClientCertIfGiven by a file of nothing",
            "VerifyClientCertIfGiven by a file of junk",
            "VerifyClientCertIfGiven by a file that is good in part",
            "RequireAndVerifyClientCert by a file of nothing",
            "RequireAndVerifyClientCert by a file of junk",
            "RequireAndVerifyClientCert by a file that is good in part",
        ],
    ),
    ("As `max_version` they are refused", "refused", &["max_version TLS10", "max_version TLS11"]),
    ("`min_version` above `max_version`", "refused", &["the least above the most"]),
    (
        "TLS 1.3 alone is spoken",
        "taken plain=- plain-alice=- tls=200 tls-alice=200 tls-guess=200 known=200 itself=200 stranger=200 h2=- tls12=- \
         tls13=200 p384=200",
        &[
            "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA without HTTP/2",
            "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA without HTTP/2",
        ],
    ),
    (
        "with `max_version: TLS12` it is refused",
        "refused",
        &["suites with CBC and TLS12", "suites of TLS13 and TLS12"],
    ),
    ("a list of these curves alone is refused", "refused", &["CurveP521 alone"]),
    (
        "a hash that bcrypt's versions",
        "refused",
        &[
            "a hash of version 2 without a letter",
            "a hash of version 2 and another letter",
            "a hash of version 1",
            "a hash that is cut off",
            "a hash with more behind it",
            "a hash with a sign that is none of base64",
        ],
    ),
    (
        "`rate_limit`",
        "refused",
        &[
            "a rate's interval of a second",
            "a rate's interval of a number",
            "a rate's interval of less than nothing",
        ],
    ),
];

/// A case's name, whether clients come, and its file.
struct Case {
    name: &'static str,
    has_clients: bool,
    text: String,
}

fn cases() -> Vec<Case> {
    let one = |case: &'static str| {
        let (head, text) = case.split_once('\n').unwrap_or((case, ""));
        let name = head.strip_suffix(", clients");
        Case { name: name.unwrap_or(head), has_clients: name.is_some(), text: text.to_owned() }
    };
    include_str!("web_files/cases.txt").split("=== ").skip(1).map(one).collect()
}

/// What the toolkit makes of each case.
fn verdicts() -> BTreeMap<&'static str, &'static str> {
    let lines = include_str!("web_files/verdicts.txt").lines();
    lines.map(|line| line.rsplit_once(": ").expect("a name and a verdict")).collect()
}

/// Who issues certificates, and the directory with them.
struct Files {
    dir: Scratch,
    ca: Authority,
    own: Authority,
    other: Authority,
}

impl Files {
    fn write() -> Self {
        let files = Self {
            dir: Scratch::new(),
            ca: Authority::new(),
            own: Authority::new(),
            other: Authority::new(),
        };
        let Issued { certificate, key } = files.ca.issue("localhost");
        let (ca, own) = (files.ca.pem(), files.own.pem());
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (name, text) in [
            ("server.crt", &certificate),
            ("server.key", &key),
            ("both.pem", &format!("{certificate}{key}")),
            ("chain.crt", &format!("{certificate}{ca}")),
            ("other.key", &files.other.itself().key),
            ("ca.crt", &ca),
            ("own.crt", &own),
            ("bundle.crt", &format!("of two\n{own}and\n{ca}")),
            ("nothing.crt", &String::new()),
            ("junk.crt", &"junk\n".to_owned()),
            ("partly.crt", &format!("{ca}{broken}")),
        ] {
            write(&files.dir, name, text);
        }
        files
    }

    /// A case's file, with the text of another file where a line is `@` and its name.
    fn web(&self, text: &str) -> String {
        let line = |line: &str| match line.split_once('@') {
            Some((inside, name)) if inside.trim().is_empty() => {
                let text = std::fs::read_to_string(self.dir.join(name.trim())).unwrap();
                text.lines().map(|line| format!("{inside}{line}\n")).collect()
            }
            _ => line.to_owned(),
        };
        text.split_inclusive('\n').map(line).collect()
    }

    fn verdict(&self, case: &Case, clients: &[Client]) -> String {
        write(&self.dir, "web.yml", &self.web(&case.text));
        let config = Config { web_config_file: Some(self.dir.join("web.yml")), ..Config::default() };
        if let Err(fault) = access::check(&config) {
            let dir = self.dir.path().to_str().unwrap();
            assert!(fault.to_string().starts_with(dir), "{}: it names no file: {fault}", case.name);
            return "refused".to_owned();
        }
        if !case.has_clients {
            return "taken".to_owned();
        }
        let node = Node::start_with(1, |config| {
            config.web_config_file = Some(self.dir.join("web.yml"));
            config.probe_listen = vec!["127.0.0.1:0".parse().unwrap()];
        });
        let come = clients.iter().map(|client| format!(" {}={}", client.name, client.comes(node.address)));
        format!("taken{}", come.collect::<String>())
    }

    fn clients(&self) -> Vec<Client> {
        let tls = |name, issued: Option<&Issued>, change: &dyn Fn(&mut CryptoProvider)| {
            let mut provider = default_provider();
            change(&mut provider);
            let mut config = self.ca.client_of(provider, issued);
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Client { name, tls: Some(Arc::new(config)), password: None }
        };
        let plain = |name, password| Client { name, tls: None, password };
        let any = |_: &mut CryptoProvider| {};
        let of_version = |tls13: bool| {
            move |provider: &mut CryptoProvider| {
                provider.cipher_suites.retain(|suite| suite.tls13().is_some() == tls13);
            }
        };
        let mut http2 = self.ca.client(None);
        http2.alpn_protocols = vec![b"h2".to_vec()];
        vec![
            plain("plain", None),
            plain("plain-alice", Some("secret")),
            tls("tls", None, &any),
            Client { password: Some("secret"), ..tls("tls-alice", None, &any) },
            Client { password: Some("guess"), ..tls("tls-guess", None, &any) },
            tls("known", Some(&self.ca.issue("agent.test")), &any),
            tls("itself", Some(&self.own.itself()), &any),
            tls("stranger", Some(&self.other.issue("agent.test")), &any),
            Client { name: "h2", tls: Some(Arc::new(http2)), password: None },
            tls("tls12", None, &of_version(false)),
            tls("tls13", None, &of_version(true)),
            tls("p384", None, &|provider| {
                provider.kx_groups = vec![SECP384R1];
                assert_eq!(provider.kx_groups[0].name(), NamedGroup::secp384r1);
            }),
        ]
    }
}

/// Who comes to a node.
struct Client {
    name: &'static str,
    tls: Option<Arc<ClientConfig>>,
    /// Of `alice`.
    password: Option<&'static str>,
}

impl Client {
    /// The status of its answer, or the protocol where HTTP/2 is asked for; `-`: it gets none.
    fn comes(&self, to: SocketAddr) -> String {
        match &self.tls {
            Some(config) if config.alpn_protocols == [b"h2"] => protocol(to, config),
            Some(config) => self.status(connect(to, config)),
            None => {
                let stream = TcpStream::connect(to).unwrap();
                stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
                self.status(BufReader::new(stream))
            }
        }
    }

    fn status(&self, mut stream: BufReader<impl io::Read + Write>) -> String {
        let credentials = self.password.map(|password| basic("alice", password));
        let headers: Vec<_> = credentials.iter().map(|value| ("authorization", value.as_str())).collect();
        let sent = stream.get_mut().write_all(&request("GET", "/-/healthy", &headers, b""));
        let answer = sent.and_then(|()| try_read_answer(&mut stream));
        answer.map_or_else(|_| "-".to_owned(), |answer| answer.status.to_string())
    }
}

fn protocol(to: SocketAddr, config: &Arc<ClientConfig>) -> String {
    let mut stream = connect(to, config).into_inner();
    while stream.conn.is_handshaking() {
        if stream.conn.complete_io(&mut stream.sock).is_err() {
            return "-".to_owned();
        }
    }
    let protocol = stream.conn.alpn_protocol().unwrap_or_default();
    String::from_utf8_lossy(protocol).into_owned()
}

#[test]
fn a_web_configuration_file_is_taken_or_refused_as_the_toolkit_does_and_lets_in_whom_it_does() {
    let document = include_str!("../../../docs/security.md");
    let (files, theirs) = (Files::write(), verdicts());
    let (clients, cases) = (files.clients(), cases());
    assert!(cases.len() > 200 && cases.len() == theirs.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let (our, their) = (files.verdict(case, &clients), theirs[case.name]);
        let different = DIFFERENT.iter().find(|(_, _, cases)| cases.contains(&case.name));
        let expect = different.map_or(their, |(_, expect, _)| expect);
        if our != expect || different.is_some() && our == their {
            wrong.push(format!("{}\n  here    {our}\n  toolkit {their}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    for (why, _, cases) in DIFFERENT {
        assert!(document.contains(why), "the document doesn't say {why:?}");
        assert!(cases.iter().all(|name| theirs.contains_key(name)), "{cases:?}");
    }
}
