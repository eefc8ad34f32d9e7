//! Ctrl-C: the first asks a command to come to an end, the second ends the process.

use tokio::sync::watch;

use crate::error::{CommandError, Done};

/// What shells report for a process that Ctrl-C ended.
const EXIT_CODE: i32 = 130;

/// Tells a command that it should come to its end: to flush what it has accepted, and to say what
/// became of it. A command that has nothing to finish is dropped: see [`Interrupt::or`].
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Watches for Ctrl-C from now on. Call it within the runtime.
    pub(crate) fn watch() -> Self {
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_err() {
                // Without a handler Ctrl-C ends the process, which will do.
                return;
            }
            // Even where nobody listens any more, the second one must be waited for.
            sender.send_replace(true);
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(EXIT_CODE);
            }
        });
        Self(receiver)
    }

    /// Returns once Ctrl-C has come.
    pub(crate) async fn come(&mut self) {
        if self.0.wait_for(|come| *come).await.is_err() {
            // Nobody watches, so it never comes.
            std::future::pending().await
        }
    }

    /// What `command` comes to, or `Interrupted` if Ctrl-C is first.
    pub(crate) async fn or<T>(mut self, command: impl Future<Output = Done<T>>) -> Done<T> {
        tokio::select! {
            ended = command => ended,
            () = self.come() => Err(CommandError::Interrupted),
        }
    }
}
