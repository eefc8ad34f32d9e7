//! Files that change while the node runs: what is new holds, connections go on, and what is broken changes nothing.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use silverback_test_support::http::{request, try_read_answer};
use silverback_test_support::{Binary, eventually};

use crate::certificates::{Authority, Encrypted, connect};
use crate::scene::{Scene, basic, bearer, get_on, sum, write};

const WEB: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
const KNOWN: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
const FAILURES: &str = "silverback_web_config_reload_failures_total";
const IS_GOOD: &str = "silverback_web_config_last_reload_successful";

fn user(name: &str, password: &str) -> String {
    format!("basic_auth_users:\n  {name}: {}\n", bcrypt::hash(password, 4).unwrap())
}

#[test]
fn users_and_tokens_that_change_hold_and_a_broken_file_keeps_the_old_ones() {
    let scene = Scene::start(&user("alice", "secret"));
    let status = |user: &str, password: &str| scene.ask("GET", "/", Some(&basic(user, password))).status;
    assert_eq!((status("alice", "secret"), status("bob", "other")), (200, 401));
    assert_eq!((scene.metric(FAILURES), scene.metric(IS_GOOD)), (0.0, 1.0));
    // Cut off in the middle of a hash.
    let whole = user("bob", "other");
    write(&scene.dir, "web.yml", &whole[..whole.len() - 20]);
    eventually("the broken file is counted", || scene.metric(FAILURES) >= 1.0);
    assert_eq!((status("alice", "secret"), scene.metric(IS_GOOD)), (200, 0.0));
    write(&scene.dir, "web.yml", &whole);
    eventually("bob comes in", || status("bob", "other") == 200);
    assert_eq!((status("alice", "secret"), scene.metric(IS_GOOD)), (401, 1.0));
    assert_eq!(scene.metric(FAILURES), 1.0, "a broken file is counted once");
    write(&scene.dir, "read.token", "another-token-of-reading");
    eventually("the new token comes in", || {
        scene.ask("GET", "/", Some("Bearer another-token-of-reading")).status == 200
    });
    assert_eq!(scene.ask("GET", "/", Some(&bearer("read"))).status, 401);
}

#[test]
fn files_that_are_emptied_open_no_door() {
    let authority = Authority::new();
    let web = |user: &str| format!("{WEB}{user}");
    let alice = user("alice", "secret");
    let scene = Scene::start_with(&web(&alice), |dir, config| {
        authority.write_server(dir);
        config.access_file = None;
    });
    let config = Arc::new(authority.client(None));
    let metrics = || {
        let mut stream = connect(scene.node.address, &config);
        let answer = get_on(&mut stream, "/metrics", &basic("alice", "secret"));
        assert_eq!(answer.status, 200);
        answer.text()
    };
    for (emptied, failures) in [("", 1.0), (WEB, 2.0), (alice.as_str(), 3.0)] {
        write(&scene.dir, "web.yml", emptied);
        eventually(format_args!("{emptied:?} is refused"), || sum(&metrics(), FAILURES) == failures);
        let mut stream = connect(scene.node.address, &config);
        assert_eq!(get_on(&mut stream, "/metrics", &basic("alice", "wrong")).status, 401);
    }
    write(&scene.dir, "web.yml", &web(&user("alice", "secret")));
    eventually("it holds again", || sum(&metrics(), IS_GOOD) == 1.0);
}

#[test]
fn a_ca_that_is_replaced_shuts_the_others_out_with_their_tickets_and_connections_go_on() {
    let (authority, next) = (Authority::new(), Authority::new());
    let scene = Scene::start_with(&format!("{WEB}{KNOWN}"), |dir, _| {
        authority.write_server(dir);
        write(dir, "ca.pem", &authority.pem());
    });
    let old = Arc::new(authority.client(Some(&authority.issue("agent.test"))));
    let new = Arc::new(authority.client(Some(&next.issue("agent.test"))));
    let status = |config| {
        let mut stream = connect(scene.node.address, config);
        let asked = request("GET", "/metrics", &[("authorization", &bearer("metrics"))], b"");
        let sent = stream.get_mut().write_all(&asked);
        sent.and_then(|()| try_read_answer(&mut stream)).map(|answer| answer.status).ok()
    };
    let mut connected = connect(scene.node.address, &old);
    assert_eq!(get_on(&mut connected, "/metrics", &bearer("metrics")).status, 200);
    assert_eq!((status(&old), status(&new)), (Some(200), None));
    write(&scene.dir, "ca.pem", &next.pem());
    eventually("the new CA's clients come in", || status(&new) == Some(200));
    assert_eq!(status(&old), None, "its ticket is of no use");
    let answer = get_on(&mut connected, "/metrics", &bearer("metrics"));
    assert_eq!(answer.status, 200, "who is connected goes on");
    // A certificate without its key, as between two writes.
    authority.write_server(&scene.dir);
    let key = std::fs::read_to_string(scene.dir.join("server.key")).unwrap();
    write(&scene.dir, "server.key", &Authority::new().issue("localhost").key);
    eventually("the pair that is none is counted", || {
        sum(&get_on(&mut connected, "/metrics", &bearer("metrics")).text(), FAILURES) >= 1.0
    });
    assert_eq!(status(&new), Some(200), "the old certificate serves on");
    write(&scene.dir, "server.key", &key);
    eventually("the new pair holds", || {
        sum(&get_on(&mut connected, "/metrics", &bearer("metrics")).text(), IS_GOOD) == 1.0
    });
}

#[test]
fn a_hangup_reads_the_files_again_and_ends_nothing() {
    let dir = silverback_test_support::Scratch::new();
    // No credentials are asked for, so that the node can be waited for.
    write(&dir, "web.yml", "http_server_config:\n  headers: {X-Frame-Options: deny}\n");
    let web = dir.join("web.yml");
    let mut node = Binary::start(
        env!("CARGO_BIN_EXE_silverback"),
        &["--shards", "1", "--web-config-file", web.to_str().unwrap()],
    );
    let reloads = |node: &Binary| sum(&node.get("/metrics").text(), "silverback_web_config_reloads_total");
    assert_eq!((reloads(&node), node.get("/").header("x-frame-options")), (0.0, "deny"));
    node.signal(1);
    eventually("the files are read again", || reloads(&node) >= 1.0);
    assert_eq!(node.ended(), None);
    node.signal(15);
    assert_eq!(node.wait().code(), Some(0));
}

#[test]
fn an_access_file_that_is_cut_off_gives_no_user_more_than_it_did() {
    let scene = Scene::start(&user("alice", "secret"));
    let access = std::fs::read_to_string(scene.dir.join("access.yml")).unwrap();
    let bound = format!("{access}users:\n  alice: [metrics]\n");
    write(&scene.dir, "access.yml", &bound);
    let status = |path: &str| scene.ask("GET", path, Some(&basic("alice", "secret"))).status;
    eventually("alice is held to her scope", || status("/") == 403);
    for cut in [access.as_str(), ""] {
        let failures = scene.metric(FAILURES);
        write(&scene.dir, "access.yml", cut);
        eventually("what is cut off is refused", || scene.metric(FAILURES) > failures);
        assert_eq!((status("/"), status("/metrics")), (403, 200));
    }
}

#[test]
fn a_file_that_asks_clients_for_less_than_it_did_is_refused_though_there_are_tokens() {
    let authority = Authority::new();
    let sans = "  client_allowed_sans: [agent.test]\n";
    let scene = Scene::start_with(&format!("{WEB}{KNOWN}{sans}"), |dir, _| {
        authority.write_server(dir);
        write(dir, "ca.pem", &authority.pem());
    });
    let known = Arc::new(authority.client(Some(&authority.issue("agent.test"))));
    let others =
        [authority.client(None), authority.client(Some(&authority.issue("other.test")))].map(Arc::new);
    let metrics = |config| {
        let mut stream = connect(scene.node.address, config);
        let asked = request("GET", "/metrics", &[("authorization", &bearer("metrics"))], b"");
        let sent = stream.get_mut().write_all(&asked);
        sent.and_then(|()| try_read_answer(&mut stream)).map(|answer| answer.text()).ok()
    };
    let any = "  client_auth_type: RequireAnyClientCert\n";
    for (loosened, failures) in [(String::new(), 1.0), (any.into(), 2.0), (KNOWN.into(), 3.0)] {
        write(&scene.dir, "web.yml", &format!("{WEB}{loosened}"));
        eventually(format_args!("{loosened:?} is refused"), || {
            sum(&metrics(&known).expect("it is let in"), FAILURES) == failures
        });
        assert!(others.iter().all(|other| metrics(other).is_none()), "{loosened:?}");
    }
}

#[test]
fn a_web_file_that_is_cut_off_anywhere_lets_nobody_in_who_was_not_before() {
    let authority = Authority::new();
    let web = format!("{WEB}{KNOWN}{}", user("alice", "secret"));
    let scene = Scene::start_with(&web, |dir, _| {
        authority.write_server(dir);
        write(dir, "ca.pem", &authority.pem());
    });
    let known = Arc::new(authority.client(Some(&authority.issue("agent.test"))));
    let stranger = Arc::new(authority.client(None));
    let status = |config, path: &str, authorization: &str| {
        let mut stream = connect(scene.node.address, config);
        let sent =
            stream.get_mut().write_all(&request("GET", path, &[("authorization", authorization)], b""));
        sent.and_then(|()| try_read_answer(&mut stream)).map(|answer| answer.status).ok()
    };
    for cut in (0..web.len()).step_by(50) {
        write(&scene.dir, "web.yml", &web[..cut]);
        // It is looked at each second, and read once it has been the same for two looks.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        assert_eq!(
            status(&stranger, "/metrics", &bearer("metrics")),
            None,
            "without a certificate, at {cut}"
        );
        assert_eq!(status(&known, "/", &bearer("metrics")), Some(403), "beyond its scope, at {cut}");
        assert_eq!(status(&known, "/metrics", &basic("alice", "wrong")), Some(401), "at {cut}");
        assert_eq!(status(&known, "/metrics", &bearer("metrics")), Some(200), "at {cut}");
    }
}

#[test]
fn certificates_that_change_under_load_fail_no_request() {
    const CHANGES: usize = 4;
    let authority = Authority::new();
    let scene = Scene::start_with(WEB, |dir, _| authority.write_server(dir));
    let ends = AtomicBool::new(false);
    let config = Arc::new(authority.client(None));
    let ask = |stream: &mut Encrypted| {
        let lines = b"load 1\n";
        let asked =
            request("POST", "/api/v1/import/prometheus", &[("authorization", &bearer("write"))], lines);
        stream.get_mut().write_all(&asked).unwrap();
        let answer = try_read_answer(stream).unwrap();
        assert!(answer.status < 300, "{} {}", answer.status, answer.text());
    };
    // Half of them keep their connections, half connect again for each request.
    let load = |keeps: bool| {
        let mut stream = connect(scene.node.address, &config);
        let mut asked = 0;
        while !ends.load(Ordering::Relaxed) {
            if !keeps {
                stream = connect(scene.node.address, &config);
            }
            ask(&mut stream);
            asked += 1;
        }
        asked
    };
    let reloads = |watching: &mut Encrypted| {
        sum(&get_on(watching, "/metrics", &bearer("metrics")).text(), "silverback_web_config_reloads_total")
    };
    std::thread::scope(|threads| {
        let load = &load;
        let loads: Vec<_> = (0..6).map(|n| threads.spawn(move || load(n % 2 == 0))).collect();
        let mut watching = connect(scene.node.address, &config);
        for change in 1..=CHANGES {
            // Certificate and key lie together for longer than a look takes before they are read.
            authority.write_server(&scene.dir);
            eventually("it is read again", || reloads(&mut watching) >= change as f64);
        }
        ends.store(true, Ordering::Relaxed);
        for load in loads {
            let asked: usize = load.join().expect("no request fails");
            assert!(asked > 10, "{asked}");
        }
    });
}
