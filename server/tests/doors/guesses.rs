//! Guesses of passwords from dozens of connections, as fast as they are answered, beside users with the right ones.

use std::io::{BufReader, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use silverback_test_support::eventually;
use silverback_test_support::http::{request, try_read_answer};

use crate::handshakes::connect_from;
use crate::scene::{Scene, basic, write};

/// More than passwords may wait.
const CONNECTIONS: u64 = 80;
/// What the node takes for a guess is long beside a connection's turn.
const COST: u32 = 9;

const OWN: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const ANOTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn users() -> String {
    let user = |name| format!("  {name}: {}\n", bcrypt::hash("secret", COST).unwrap());
    format!("basic_auth_users:\n{}{}", user("alice"), user("bob"))
}

/// Guesses on one connection after the other, until it ends.
fn guess(scene: &Scene, from: Ipv4Addr, next: &AtomicU64, ends: &AtomicBool) {
    while !ends.load(Ordering::Relaxed) {
        let Ok(stream) = connect_from(from, scene.node.address) else { continue };
        let mut stream = BufReader::new(stream);
        while !ends.load(Ordering::Relaxed) {
            let guess = basic("alice", &next.fetch_add(1, Ordering::Relaxed).to_string());
            let asked = request("GET", "/", &[("authorization", &guess)], b"");
            if stream.get_mut().write_all(&asked).is_err() || try_read_answer(&mut stream).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Does something while guesses come from there, as many as there is room for and more.
fn beside_guesses(scene: &Scene, from: Ipv4Addr, check: impl FnOnce()) {
    let (next, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    /// Ends the guesses, also where the check fails.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|threads| {
        let _ends = Ends(&ends);
        for _ in 0..CONNECTIONS {
            threads.spawn(|| guess(scene, from, &next, &ends));
        }
        let refused = || scene.metric("silverback_http_requests_refused_total{reason=\"unchecked\"}");
        eventually("guesses have all the room that they get", || refused() > 100.0);
        check();
    });
}

#[test]
fn users_who_are_known_go_on_beside_guesses_when_the_files_are_read_again() {
    let users = users();
    let scene = Scene::start(&users);
    let status = || scene.ask("GET", "/", Some(&basic("alice", "secret"))).status;
    assert_eq!(status(), 200);
    beside_guesses(&scene, OWN, || {
        write(
            &scene.dir,
            "web.yml",
            &format!("{users}http_server_config:\n  headers: {{X-Frame-Options: deny}}\n"),
        );
        eventually("the file is read again", || {
            scene.metric("silverback_web_config_reloads_total") >= 1.0
                && scene.ask("GET", "/", None).header("x-frame-options") == "deny"
        });
        for _ in 0..10 {
            assert_eq!(status(), 200);
        }
        write(&scene.dir, "read.token", "another-token-of-reading");
        eventually("another file is read again", || {
            scene.ask("GET", "/", Some("Bearer another-token-of-reading")).status == 200
        });
        assert_eq!(status(), 200);
    });
}

#[test]
fn guesses_from_one_address_leave_room_for_the_right_password_from_another() {
    let scene = Scene::start(&users());
    beside_guesses(&scene, ANOTHER, || {
        for user in ["alice", "bob"] {
            assert_eq!(scene.ask("GET", "/", Some(&basic(user, "secret"))).status, 200, "{user}");
        }
    });
}
