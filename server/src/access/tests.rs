//! What the files come to, whole: good ones and bad ones, as Prometheus' toolkit takes and refuses them, what each user
//! and token may do, and how a password is checked.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use futures::FutureExt;
use futures::executor::block_on;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rcgen::KeyPair;
use silverback_model::limits::CREDENTIAL_CHECKS_MAX;
use silverback_runtime::Peer;
use silverback_test_support::Scratch;

use super::gate::{CredentialsLook, CredentialsRejected, Gate, PasswordThread};
use super::scope::{Scope, Scopes};
use super::{Access, Doors, Sources};

/// bcrypt's lowest cost.
const COST: u32 = 4;

const READ: Scopes = Scopes::of(&[Scope::Read]);
const WRITE: Scopes = Scopes::of(&[Scope::Write]);

fn hash(password: &str) -> String {
    bcrypt::hash(password, COST).unwrap()
}

/// A directory with a certificate, its key, a CA and a token.
fn files() -> Scratch {
    let dir = Scratch::new();
    let key = KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    write(&dir, "server.crt", &certificate.pem());
    write(&dir, "ca.pem", &certificate.pem());
    write(&dir, "server.key", &key.serialize_pem());
    write(&dir, "other.key", &KeyPair::generate().unwrap().serialize_pem());
    write(&dir, "agents.token", "a-token-of-the-agents\n");
    write(&dir, "short.token", "short\n");
    dir
}

fn write(dir: &Scratch, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).unwrap();
}

fn load(dir: &Scratch, web: Option<&str>, access: Option<&str>) -> Result<Doors, String> {
    let path = |name: &str, text: Option<&str>| {
        text.map(|text| {
            write(dir, name, text);
            dir.join(name)
        })
    };
    let sources = Sources { web: path("web.yml", web), access: path("access.yml", access) };
    Access::check(&sources).map_err(|fault| fault.to_string())
}

fn check_good(dir: &Scratch, web: &str) -> Doors {
    load(dir, Some(web), None).unwrap_or_else(|fault| panic!("{web}\n{fault}"))
}

fn check_bad(dir: &Scratch, web: &str, words: &[&str]) {
    let fault = load(dir, Some(web), None).expect_err(web);
    assert!(words.iter().all(|word| fault.contains(word)), "{web}\n{fault}");
}

/// The section with a certificate and its key, and more lines.
fn tls(lines: &str) -> String {
    format!("tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n{lines}")
}

#[test]
fn what_the_toolkit_takes_is_taken() {
    let dir = files();
    assert!(check_good(&dir, "").are_open());
    for web in [
        tls(""),
        tls("  client_auth_type: VerifyClientCertIfGiven\n"),
        tls("  client_auth_type: RequireAnyClientCert\n"),
        tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n"),
        tls(
            "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  client_allowed_sans: [a, b]\n",
        ),
        tls(
            "  min_version: TLS12\n  max_version: TLS12\n  prefer_server_cipher_suites: false\n  cipher_suites:\n  \
             - TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384\n  - TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n",
        ),
        tls("  curve_preferences: [CurveP256, CurveP384, CurveP521, X25519]\n"),
        tls("  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]\n\
             http_server_config:\n  http2: false\n"),
        tls("  min_version: TLS10\n"),
    ] {
        assert!(check_good(&dir, &web).tls.is_some(), "{web}");
    }
    let headers = "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection: 1\n    \
        Strict-Transport-Security: max-age=31536000; includeSubDomains\n    X-Content-Type-Options: nosniff\n    \
        Content-Security-Policy: \"default-src 'self' *.test.example.net\"\n";
    assert_eq!(check_good(&dir, headers).headers.len(), 5);
    // As in Prometheus the section without any of these counts as none.
    assert!(check_good(&dir, "tls_server_config:\n  min_version: TLS13\n").tls.is_none());
    let inline = |name: &str| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        text.lines().map(|line| format!("    {line}\n")).collect::<String>()
    };
    let web =
        format!("tls_server_config:\n  cert: |\n{}  key: |\n{}", inline("server.crt"), inline("server.key"));
    assert!(check_good(&dir, &web).tls.is_some());
    // What isn't spoken here can be done without, and is reported.
    let both =
        tls("  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]\n");
    assert!(check_good(&dir, &both).cautions[0].contains("CBC"));
}

#[test]
fn what_the_toolkit_refuses_is_refused_with_its_field() {
    let dir = files();
    check_bad(&dir, &tls("  client_ca_file: ca.pem\n"), &["web.yml", "client_auth_type"]);
    check_bad(&dir, &tls("  client_ca_file: missing\n"), &["client_ca_file", "names no file"]);
    let required = "  client_auth_type: RequireAndVerifyClientCert\n";
    check_bad(&dir, &tls(&format!("{required}  client_ca_file: server.key\n")), &["client_ca"]);
    check_bad(&dir, &tls("  client_auth_type: x\n"), &["client_auth_type", "NoClientCert"]);
    check_bad(
        &dir,
        &tls("  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA2048]\n"),
        &["cipher_suites", "number 1"],
    );
    check_bad(
        &dir,
        &tls("  curve_preferences: [CurveP257]\n"),
        &["curve_preferences", "number 1", "CurveP256"],
    );
    check_bad(&dir, &tls("  min_version: TLS111\n"), &["min_version", "TLS11,"]);
    check_bad(&dir, &tls("  min_version: TLS13\n  max_version: TLS12\n"), &["min_version"]);
    check_bad(&dir, &tls("  max_version: TLS11\n"), &["max_version"]);
    let no_http2_s = "  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]\n";
    check_bad(&dir, &tls(no_http2_s), &["cipher_suites", "HTTP/2", "http2: false"]);
    check_bad(&dir, "tls_server_config:\n  cert_filse: server.crt\n", &["unknown field", "line 2"]);
    check_bad(&dir, "tls_server_config:\n  cert_file: server.crt\n  key_file: \"\"\n", &["key_file"]);
    check_bad(&dir, "tls_server_config:\n  cert_file: \"\"\n  key_file: server.key\n", &["cert_file"]);
    check_bad(
        &dir,
        "tls_server_config:\n  cert_file: \"\"\n  key_file: \"\"\n  client_auth_type: x\n",
        &["cert_file"],
    );
    check_bad(
        &dir,
        "tls_server_config:\n  cert_file: nowhere\n  key_file: server.key\n",
        &["cert_file", "names no file"],
    );
    check_bad(
        &dir,
        "tls_server_config:\n  cert_file: server.crt\n  key_file: other.key\n",
        &["the key isn't that of the certificate"],
    );
    check_bad(&dir, "tls_server_config:\n  cert_file: server.crt\n  key_file: ca.pem\n", &["private key"]);
    check_bad(
        &dir,
        "http_server_config:\n  headers:\n    X-Frame-Options: foo\n",
        &["X-Frame-Options", "sameorigin"],
    );
    check_bad(
        &dir,
        "http_server_config:\n  headers:\n    Content-Type: foo\n",
        &["headers", "can't be set", "X-Frame-Options"],
    );
    check_bad(&dir, "basic_auth_users:\n  john: doe\n", &["basic_auth_users", "line 2", "bcrypt"]);
    check_bad(&dir, "rate_limit:\n  burst: 1\n  interval: 1s\n", &["rate_limit"]);
    assert!(
        load(&dir, Some("basic_auth_users:\n  john: hunter2\n"), None)
            .is_err_and(|fault| !fault.contains("hunter2"))
    );
}

#[test]
fn a_key_that_stands_where_a_certificate_should_is_not_shown() {
    let dir = files();
    let key = std::fs::read_to_string(dir.join("server.key")).unwrap();
    write(&dir, "flat.key", &key.replace('\n', " "));
    write(&dir, "cut.key", &key[..key.len() / 2]);
    write(&dir, "odd.key", &key.replacen("-----BEGIN", "-----BEGIN -----", 1));
    let is_shown = |fault: &str| {
        let lines: Vec<&str> = key.lines().skip(1).collect();
        let decimal = |text: &str| format!("{:?}", text.as_bytes()).trim_matches(['[', ']']).to_owned();
        lines.iter().any(|line| fault.contains(&line[..8]) || fault.contains(&decimal(&line[..4])))
    };
    let required = "  client_auth_type: RequireAndVerifyClientCert\n";
    for name in ["server.key", "flat.key", "cut.key", "odd.key"] {
        for web in [
            format!("tls_server_config:\n  cert_file: {name}\n  key_file: server.key\n"),
            format!("tls_server_config:\n  cert_file: server.crt\n  key_file: {name}\n"),
            tls(&format!("{required}  client_ca_file: {name}\n")),
        ] {
            if let Err(fault) = load(&dir, Some(&web), None) {
                assert!(!is_shown(&fault), "{web}\n{fault}");
            }
        }
    }
}

#[test]
fn a_secret_that_stands_for_a_file_or_a_value_is_not_shown() {
    let dir = files();
    let list = |field: &str| tls(&format!("  {field}: [hunter2]\n"));
    let header = |header: &str| format!("http_server_config:\n  headers:\n    {header}\n");
    let webs = [
        "tls_server_config:\n  cert_file: hunter2\n  key_file: server.key\n".to_owned(),
        "tls_server_config:\n  cert_file: server.crt\n  key_file: hunter2\n".to_owned(),
        "tls_server_config:\n  cert: hunter2\n  key: hunter2\n".to_owned(),
        tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: hunter2\n"),
        tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca: hunter2\n"),
        tls("  client_auth_type: hunter2\n"),
        tls("  min_version: hunter2\n"),
        tls("  max_version: hunter2\n"),
        list("cipher_suites"),
        list("curve_preferences"),
        header("hunter2: a"),
        header("X-Frame-Options: hunter2"),
        header("X-XSS-Protection: \"hunter2\\u0001\""),
        "basic_auth_users:\n  hunter2: hunter2\n".to_owned(),
        "rate_limit:\n  interval: hunter2\n".to_owned(),
    ];
    let token = |rest: &str| format!("tokens:\n  - {{name: a, scopes: [read], {rest}}}\n");
    let accesses =
        ["token_file: hunter2", "token_sha256: hunter2", "token_file: hunter2, token_sha256: hunter2"]
            .map(token);
    let faults = webs.iter().map(|web| load(&dir, Some(web), None));
    for fault in faults.chain(accesses.iter().map(|access| load(&dir, None, Some(access)))) {
        let fault = fault.expect_err("it is refused");
        assert!(!fault.contains("hunter2"), "{fault}");
    }
}

#[test]
fn certificates_that_do_not_hold_are_taken_and_told_with_their_dates() {
    let dir = files();
    let check = |from: i32, to: i32, words: &[&str]| {
        let key = KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let certificate = params.self_signed(&key).unwrap().pem();
        write(&dir, "odd.crt", &certificate);
        write(&dir, "odd.key", &key.serialize_pem());
        let own = "tls_server_config:\n  cert_file: odd.crt\n  key_file: odd.key\n";
        let ca = tls("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: odd.crt\n");
        for (web, of) in [(own, "node's certificate"), (ca.as_str(), "client CA's")] {
            let cautions = check_good(&dir, web).cautions;
            let is_told =
                |caution: &String| caution.contains(of) && words.iter().all(|word| caution.contains(word));
            assert!(cautions.len() == 1 && is_told(&cautions[0]), "{cautions:?}");
        }
    };
    check(2010, 2020, &["expired", "2010-01-01T00:00:00Z", "2020-01-01T00:00:00Z"]);
    check(3000, 3001, &["isn't valid before", "3000-01-01T00:00:00Z", "3001-01-01T00:00:00Z"]);
    assert!(check_good(&dir, &tls("")).cautions.is_empty());
}

#[test]
fn what_is_wrong_with_tokens_is_told_with_their_names() {
    let dir = files();
    let check = |access: &str, words: &[&str]| {
        let fault = load(&dir, None, Some(access)).expect_err(access);
        assert!(words.iter().all(|word| fault.contains(word)), "{access}\n{fault}");
    };
    let entry = |name: &str, rest: &str| format!("  - {{name: {name}, scopes: [read], {rest}}}\n");
    let tokens = |entries: &[String]| format!("tokens:\n{}", entries.concat());
    let file = "token_file: agents.token";
    check(&tokens(&[entry("a", "token_file: short.token")]), &["\"a\"", "token_file", "16"]);
    check(&tokens(&[entry("a", "token_file: nowhere")]), &["\"a\"", "token_file", "names no file"]);
    check(&tokens(&[entry("a", "token_sha256: abc")]), &["\"a\"", "token_sha256", "64"]);
    check(&tokens(&[entry("a", &format!("{file}, token_sha256: abc"))]), &["\"a\"", "either"]);
    check(&tokens(&[entry("a", file), entry("a", file)]), &["\"a\"", "name"]);
    check(&tokens(&[entry("a", file), entry("b", file)]), &["\"b\"", "same token"]);
    check("users:\n  nobody: [read]\n", &["\"nobody\"", "no password"]);
    assert!(!load(&dir, None, Some(&tokens(&[entry("a", file)]))).unwrap().are_open());
}

fn gate(dir: &Scratch, web: &str, access: Option<&str>) -> Gate {
    Gate::new(Arc::new(load(dir, Some(web), access).unwrap()), Arc::new(PasswordThread::start().unwrap()))
}

fn headers(authorization: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, authorization.parse().unwrap())])
}

fn basic(name: &str, password: &str) -> HeaderMap {
    headers(&format!("Basic {}", BASE64.encode(format!("{name}:{password}"))))
}

fn from(address: &str) -> Peer {
    Peer::of(Some(address.parse().unwrap()))
}

/// What becomes of a request, whether it is known at once or not.
fn decide(gate: &Gate, headers: &HeaderMap, needs: Scopes) -> Result<(), CredentialsRejected> {
    match gate.look(headers, needs) {
        CredentialsLook::Decided(decided) => decided,
        CredentialsLook::Unknown(check) => block_on(gate.verify(check, from("10.0.0.1"))),
    }
}

fn is_known(gate: &Gate, headers: &HeaderMap) -> bool {
    matches!(gate.look(headers, READ), CredentialsLook::Decided(_))
}

fn users(users: &[(&str, &str)]) -> String {
    let lines = users.iter().map(|(name, password)| format!("  {name}: {}\n", hash(password)));
    format!("basic_auth_users:\n{}", lines.collect::<String>())
}

#[test]
fn a_user_s_password_is_hashed_once_and_then_known_on_that_core() {
    let dir = files();
    let gate = gate(&dir, &users(&[("alice", "secret"), ("bob", "other")]), None);
    let alice = basic("alice", "secret");
    assert!(!is_known(&gate, &alice));
    assert_eq!(decide(&gate, &alice, WRITE), Ok(()));
    assert!(is_known(&gate, &alice));
    for wrong in [basic("alice", "other"), basic("alice", ""), basic("nobody", "secret"), basic("", "")] {
        assert_eq!(decide(&gate, &wrong, READ), Err(CredentialsRejected::Wrong));
        assert!(is_known(&gate, &wrong), "it is hashed once, too");
    }
    assert_eq!(decide(&gate, &HeaderMap::new(), READ), Err(CredentialsRejected::Missing));
    assert_eq!(
        decide(&gate, &headers("Bearer a-token-of-the-agents"), READ),
        Err(CredentialsRejected::Wrong)
    );
    assert_eq!(decide(&gate, &headers("Basic !"), READ), Err(CredentialsRejected::Wrong));
    assert_eq!(gate.name_of(&alice).as_deref(), Some("alice"));
}

#[test]
fn a_refusal_takes_as_long_whoever_is_named() {
    let dir = files();
    let (cheap, dear) = (hash("secret"), bcrypt::hash("secret", COST + 4).unwrap());
    let gate = gate(&dir, &format!("basic_auth_users:\n  cheap: {cheap}\n  dear: {dear}\n"), None);
    let took = |name: &str, n: u32| {
        let (guess, began) = (basic(name, &n.to_string()), std::time::Instant::now());
        assert_eq!(decide(&gate, &guess, READ), Err(CredentialsRejected::Wrong));
        began.elapsed()
    };
    // In turn, the least of each, because the machine may do other work meanwhile. The two users'
    // hashes are sixteen times apart.
    let names = ["cheap", "dear", "nobody", "another"];
    let mut times = [std::time::Duration::MAX; 4];
    for n in 0..15 {
        times = std::array::from_fn(|at| times[at].min(took(names[at], n)));
    }
    let (least, most) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    assert!(*most < *least * 3, "{times:?}");
}

#[test]
fn users_and_tokens_may_do_what_the_access_file_says_and_other_users_everything() {
    let dir = files();
    let access =
        "users:\n  alice: [read]\ntokens:\n  - {name: agents, token_file: agents.token, scopes: [write]}\n";
    let gate = gate(&dir, &users(&[("alice", "secret"), ("bob", "other")]), Some(access));
    let of = |name: &str| CredentialsRejected::Scope { name: name.into(), needs: WRITE };
    assert_eq!(decide(&gate, &basic("alice", "secret"), READ), Ok(()));
    assert_eq!(decide(&gate, &basic("alice", "secret"), WRITE), Err(of("alice")));
    assert_eq!(decide(&gate, &basic("bob", "other"), WRITE), Ok(()));
    let agents = headers("Bearer a-token-of-the-agents");
    assert_eq!(decide(&gate, &agents, WRITE), Ok(()));
    let refused = CredentialsRejected::Scope { name: "agents".into(), needs: READ };
    assert_eq!(decide(&gate, &agents, READ), Err(refused));
    assert_eq!(
        decide(&gate, &headers("Bearer a-token-of-the-agent"), WRITE),
        Err(CredentialsRejected::Wrong)
    );
    assert_eq!(gate.challenges().count(), 2);
}

/// Gives a gate what other files say.
fn replace(gate: &Gate, dir: &Scratch, web: &str, access: Option<&str>) {
    gate.replace(Arc::new(load(dir, Some(web), access).unwrap()));
}

#[test]
fn what_is_known_of_a_user_whose_hash_is_the_same_goes_on_with_other_files() {
    let dir = files();
    let alices = users(&[("alice", "secret")]);
    let gate = gate(&dir, &alices, None);
    let (alice, guess) = (basic("alice", "secret"), basic("alice", "guess"));
    assert_eq!(decide(&gate, &alice, WRITE), Ok(()));
    assert_eq!(decide(&gate, &guess, READ), Err(CredentialsRejected::Wrong));
    let bob =
        format!("  bob: {}\nhttp_server_config:\n  headers: {{X-Frame-Options: deny}}\n", hash("other"));
    replace(&gate, &dir, &format!("{alices}{bob}"), Some("users:\n  alice: [read]\n"));
    assert!(is_known(&gate, &alice) && is_known(&gate, &guess));
    assert_eq!(decide(&gate, &guess, READ), Err(CredentialsRejected::Wrong));
    assert_eq!(decide(&gate, &alice, READ), Ok(()));
    let refused = CredentialsRejected::Scope { name: "alice".into(), needs: WRITE };
    assert_eq!(decide(&gate, &alice, WRITE), Err(refused), "her scopes are the new ones");
}

#[test]
fn a_user_who_is_removed_or_has_another_hash_is_forgotten_at_once() {
    let dir = files();
    let (both, secret) = (users(&[("alice", "secret"), ("bob", "other")]), hash("secret"));
    let gate = gate(&dir, &both, None);
    let (alice, bob) = (basic("alice", "secret"), basic("bob", "other"));
    assert_eq!((decide(&gate, &alice, READ), decide(&gate, &bob, READ)), (Ok(()), Ok(())));
    replace(&gate, &dir, &users(&[("alice", "changed"), ("carol", "secret")]), None);
    for former in [&alice, &bob] {
        assert!(!is_known(&gate, former));
        assert_eq!(decide(&gate, former, READ), Err(CredentialsRejected::Wrong));
    }
    assert_eq!(decide(&gate, &basic("alice", "changed"), READ), Ok(()));
    // The same hash again, for two users: what one of them is says nothing of one who isn't there.
    let [one, two] = ["carol", "dave"].map(|name| format!("  {name}: {secret}\n"));
    let dave = basic("dave", "secret");
    replace(&gate, &dir, &format!("basic_auth_users:\n{one}"), None);
    assert_eq!(decide(&gate, &dave, READ), Err(CredentialsRejected::Wrong));
    replace(&gate, &dir, &format!("basic_auth_users:\n{one}{two}"), None);
    assert_eq!(decide(&gate, &dave, READ), Ok(()));
    replace(&gate, &dir, &format!("basic_auth_users:\n{one}"), None);
    assert_eq!(decide(&gate, &dave, READ), Err(CredentialsRejected::Wrong));
    replace(&gate, &dir, "", None);
    assert_eq!(decide(&gate, &HeaderMap::new(), WRITE), Ok(()), "nobody is asked any more");
}

#[test]
fn passwords_that_wait_are_bounded_for_each_address_and_the_same_one_waits_once() {
    let dir = files();
    let web = format!("basic_auth_users:\n  alice: {}\n", bcrypt::hash("secret", 12).unwrap());
    let gate = gate(&dir, &web, None);
    let check = |headers: &HeaderMap, address| match gate.look(headers, READ) {
        CredentialsLook::Unknown(check) => Box::pin(gate.verify(check, from(address))),
        CredentialsLook::Decided(decided) => panic!("{decided:?}"),
    };
    let alice = basic("alice", "secret");
    let mut same: Vec<_> = (0..4 * CREDENTIAL_CHECKS_MAX).map(|_| check(&alice, "10.0.0.1")).collect();
    assert!(same.iter_mut().all(|check| check.now_or_never().is_none()), "all wait for one");
    // The first of them leaves, and another one leads.
    drop(same.remove(0));
    assert!(block_on(futures::future::join_all(same)).iter().all(Result::is_ok));
    let guesses: Vec<_> = (0..2 * CREDENTIAL_CHECKS_MAX).map(|n| basic("alice", &n.to_string())).collect();
    let mut others: Vec<_> = guesses.iter().map(|guess| check(guess, "10.0.0.1")).collect();
    let at_once: Vec<_> = others.iter_mut().filter_map(|check| check.now_or_never()).collect();
    // Of the others some may have been checked meanwhile.
    assert!(at_once.len() >= 3 * CREDENTIAL_CHECKS_MAX / 2 - 2, "{}", at_once.len());
    assert!(at_once.iter().all(|decided| *decided == Err(CredentialsRejected::Busy)));
    assert!(is_known(&gate, &alice), "who is known waits for nobody");
    // Whoever leaves has its place until its turn comes, so that it takes no more of them by coming again.
    drop(others);
    assert_eq!(
        check(&basic("alice", "again"), "10.0.0.1").now_or_never(),
        Some(Err(CredentialsRejected::Busy))
    );
    assert!(check(&basic("alice", "another"), "10.0.0.2").now_or_never().is_none());
}
