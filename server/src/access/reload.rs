//! Reads the files again when they change, when a certificate of theirs begins or ceases to be valid, or when a signal
//! asks for it, on a thread of its own, and lets every core know. What can't be read leaves everything as it was.
#![expect(clippy::disallowed_methods, reason = "a thread of its own")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use futures::channel::mpsc;
use silverback_host::counters;
use silverback_model::clock::Clock;
use silverback_model::limits::SHARDS_MAX;
use silverback_runtime::signals::Hangups;
use silverback_runtime::tls::Role;

use super::doors::{Doors, Sources, load};
use super::error::AccessError;
use super::files::FileStamps;

/// How often the files are looked at. What has changed is read once it has been the same for two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Doors that wait for a core to take them.
const WAITING_MAX: usize = 1;

counters! {
    /// How often the files were read again, and with what success.
    #[derive(Debug)]
    pub struct Reloads {
        /// Changes of the files of users, tokens and certificates that were read.
        successes: AtomicU64 => Counter "silverback_web_config_reloads_total",
        /// Changes of these files that aren't valid: all stays as it was before.
        failures: AtomicU64 => Counter "silverback_web_config_reload_failures_total",
        /// Whether these files hold as they are.
        is_good: AtomicBool => Gauge "silverback_web_config_last_reload_successful",
        /// When these files were last read.
        last_success_ms: AtomicI64 => Gauge "silverback_web_config_last_reload_success_timestamp_seconds" / 1e3,
    } {
        /// When certificates expire, by [`Role`]; [`NEVER`] where there are none.
        not_after_ms: [AtomicI64; Role::ALL.len()],
    }
}

/// No certificate's end.
const NEVER: i64 = i64::MAX;

impl Reloads {
    fn new(now_ms: i64, doors: &Doors) -> Self {
        let reloads = Self {
            failures: AtomicU64::new(0),
            successes: AtomicU64::new(0),
            last_success_ms: AtomicI64::new(now_ms),
            is_good: AtomicBool::new(true),
            not_after_ms: [const { AtomicI64::new(NEVER) }; Role::ALL.len()],
        };
        reloads.note_certificates(doors);
        reloads
    }

    fn note_certificates(&self, doors: &Doors) {
        for (role, not_after_ms) in Role::ALL.into_iter().zip(&self.not_after_ms) {
            not_after_ms.store(doors.not_after_ms(role).unwrap_or(NEVER), Ordering::Relaxed);
        }
    }

    /// When the first certificate of each kind that there is expires, in ms since the Unix epoch.
    pub(crate) fn not_after_ms(&self) -> impl Iterator<Item = (Role, i64)> {
        let all = Role::ALL.into_iter().zip(&self.not_after_ms);
        let all = all.map(|(role, not_after_ms)| (role, not_after_ms.load(Ordering::Relaxed)));
        all.filter(|(_, not_after_ms)| *not_after_ms != NEVER)
    }
}

/// The doors of a node whose files say something, and the thread that keeps them.
#[derive(Debug)]
pub(crate) struct Access {
    /// As they were at the start.
    pub(crate) doors: Arc<Doors>,
    pub(crate) reloads: Arc<Reloads>,
    subscriptions: SyncSender<mpsc::Sender<Arc<Doors>>>,
}

impl Access {
    /// Reads the files.
    pub(crate) fn check(sources: &Sources) -> Result<Doors, AccessError> {
        load(sources, &mut FileStamps::default())
    }

    /// The doors that the files describe, and the thread that looks at these; it ends with this.
    pub(crate) fn start(sources: Sources, hangups: Hangups) -> Result<io::Result<Self>, AccessError> {
        let mut read = FileStamps::default();
        let doors = Arc::new(load(&sources, &mut read)?);
        let reloads = Arc::new(Reloads::new(Clock::System.now_ms(), &doors));
        let (subscriptions, subscribed) = sync_channel(SHARDS_MAX);
        let keeper = Keeper {
            sources,
            seen: read.clone(),
            read,
            hangups_seen: hangups.count(),
            hangups,
            fault: None,
            changes_at_ms: doors.changes_after(Clock::System.now_ms()),
            reloads: Arc::clone(&reloads),
            doors: Arc::clone(&doors),
            cores: Vec::new(),
        };
        let started =
            std::thread::Builder::new().name("web-config".into()).spawn(move || keeper.run(&subscribed));
        Ok(started.map(|_| Self { doors, reloads, subscriptions }))
    }

    /// What the doors become, for one core.
    pub(crate) fn subscribe(&self) -> mpsc::Receiver<Arc<Doors>> {
        let (sender, changes) = mpsc::channel(WAITING_MAX);
        // As many places as there are cores: it is never full, and the thread ends after its last user.
        drop(self.subscriptions.try_send(sender));
        changes
    }
}

struct Keeper {
    sources: Sources,
    /// The files as they were last read.
    read: FileStamps,
    /// The same at the last look.
    seen: FileStamps,
    hangups: Hangups,
    hangups_seen: u64,
    /// What is wrong with the files, where they aren't valid.
    fault: Option<AccessError>,
    /// When one of the certificates that were read begins or ceases to be valid.
    changes_at_ms: Option<i64>,
    reloads: Arc<Reloads>,
    doors: Arc<Doors>,
    cores: Vec<CoreDoors>,
}

struct CoreDoors {
    sender: mpsc::Sender<Arc<Doors>>,
    sent: Arc<Doors>,
}

impl Keeper {
    fn run(mut self, subscribed: &Receiver<mpsc::Sender<Arc<Doors>>>) {
        let at_start = Arc::clone(&self.doors);
        loop {
            match subscribed.recv_timeout(LOOK_INTERVAL) {
                Ok(sender) => self.cores.push(CoreDoors { sender, sent: Arc::clone(&at_start) }),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.publish();
        }
    }

    fn look(&mut self) {
        let hangups = self.hangups.count();
        let is_asked = std::mem::replace(&mut self.hangups_seen, hangups) != hangups;
        let is_due = self.changes_at_ms.is_some_and(|at_ms| at_ms <= Clock::System.now_ms());
        let now = self.read.looked_at_again();
        let is_settled = std::mem::replace(&mut self.seen, now.clone()) == now;
        if is_asked || is_settled && (is_due || now != self.read || self.fault.is_some()) {
            self.reload(is_asked);
        }
    }

    fn reload(&mut self, is_asked: bool) {
        let mut read = FileStamps::default();
        let loaded = load(&self.sources, &mut read).and_then(|doors| self.refuse_opening(doors));
        if loaded.is_err() {
            read.add_missing(&self.read);
        }
        let is_new = std::mem::replace(&mut self.read, read.clone()) != read;
        self.seen = read;
        match loaded {
            Ok(doors) => self.succeed(doors),
            // What isn't valid is read again at each look, and reported once.
            Err(fault) if !is_new && !is_asked && self.fault.as_ref() == Some(&fault) => {}
            Err(fault) => {
                self.reloads.failures.fetch_add(1, Ordering::Relaxed);
                self.reloads.is_good.store(false, Ordering::Relaxed);
                tracing::error!(%fault, "users, tokens and certificates stay as they were: their files aren't valid");
                self.fault = Some(fault);
            }
        }
    }

    /// What names nobody any more, or encrypts nothing any more, is rather a file that was emptied than a wish: a
    /// start takes it, a change doesn't.
    fn refuse_opening(&self, doors: Doors) -> Result<Doors, AccessError> {
        let freed = doors.rules.freed_user(&self.doors.rules);
        let asks_less = doors
            .tls
            .as_ref()
            .zip(self.doors.tls.as_ref())
            .is_some_and(|(tls, former)| tls.asks_less_than(former));
        let opens = if doors.are_open() && !self.doors.are_open() {
            "no credentials would be asked for any more"
        } else if freed.is_some() {
            "a user who was held to some scopes would have all of them"
        } else if doors.tls.is_none() && self.doors.tls.is_some() {
            "nothing would be encrypted any more"
        } else if asks_less {
            "clients without the certificates that are wanted now would come in"
        } else {
            return Ok(doors);
        };
        let path = self.sources.web.as_ref().or(self.sources.access.as_ref());
        let path = path.map_or(Path::new(""), PathBuf::as_path);
        Err(AccessError::new(path, format_args!("{opens}: that takes a restart of the node")))
    }

    fn succeed(&mut self, doors: Doors) {
        for caution in &doors.cautions {
            tracing::warn!(caution, "web configuration");
        }
        tracing::info!("users, tokens and certificates were read again");
        self.fault = None;
        self.changes_at_ms = doors.changes_after(Clock::System.now_ms());
        self.reloads.note_certificates(&doors);
        self.doors = Arc::new(doors);
        self.reloads.successes.fetch_add(1, Ordering::Relaxed);
        self.reloads.last_success_ms.store(Clock::System.now_ms(), Ordering::Relaxed);
        self.reloads.is_good.store(true, Ordering::Relaxed);
    }

    /// Lets the cores know that don't yet. One that takes nothing now is offered it at the next look.
    fn publish(&mut self) {
        for core in &mut self.cores {
            if !Arc::ptr_eq(&core.sent, &self.doors) && core.sender.try_send(Arc::clone(&self.doors)).is_ok()
            {
                core.sent = Arc::clone(&self.doors);
            }
        }
        self.cores.retain(|core| !core.sender.is_closed());
    }
}
