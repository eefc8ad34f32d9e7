//! How a command ends other than well: reported once on standard error, with its causes, and as an exit
//! code.

use std::error::Error;
use std::io;
use std::process::ExitCode;

use silverback_model::printable::Printable;

/// Why a command did not do all that it was asked to.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// It was called wrongly; in words.
    Usage(String),
    /// What went wrong was reported where it happened; only the exit code is left to give.
    Told,
    /// Ctrl-C came before the end.
    Interrupted,
    /// Anything else.
    Because(Box<dyn Error + Send + Sync>),
}

/// What a command, or a step of one, gives; or why it can't.
pub(crate) type Done<T = ()> = Result<T, CommandError>;

/// Whatever is an error is a failure, so that `?` makes one of it.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::Because(error.into())
    }
}

/// What was being done when an error came.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Doing {
    what: String,
    #[source]
    cause: Box<dyn Error + Send + Sync>,
}

/// Says what could not be done, in front of why.
pub(crate) trait Context<T> {
    /// The error becomes the cause of one that says `what`.
    fn context(self, what: impl FnOnce() -> String) -> Done<T>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Done<T> {
        self.map_err(|error| Doing { what: what(), cause: error.into() }.into())
    }
}

/// Reports a failure, and gives the code to exit with.
pub(crate) fn exit_code(ended: Done) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(CommandError::Usage(words)) => {
            eprintln!("error: {}\n\nFor more, try '--help'.", Printable(&words));
            ExitCode::from(2)
        }
        Err(CommandError::Told) => ExitCode::FAILURE,
        Err(CommandError::Interrupted) => {
            eprintln!("interrupted");
            ExitCode::FAILURE
        }
        // Whoever reads the output has seen enough: `silverctl … | head` did what it should.
        Err(CommandError::Because(error)) if is_closed_output(&*error) => ExitCode::SUCCESS,
        Err(CommandError::Because(error)) => {
            eprint!("{}", told(&*error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, a printable line each: a node's words are in them. Many errors repeat their cause in
/// their own text, and some the innermost one: what is between says nothing then.
fn told(error: &(dyn Error + 'static)) -> String {
    let words = |error: &dyn Error| Printable(&error.to_string()).to_string();
    let causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let causes: Vec<String> = causes.map(&words).collect();
    let mut text = format!("error: {}\n", words(error));
    if causes.last().is_some_and(|innermost| text.contains(innermost)) {
        return text;
    }
    for cause in causes {
        if !text.contains(&cause) {
            text.push_str(&format!("  because: {cause}\n"));
        }
    }
    text
}

/// Standard output's reader is gone. A type of its own, because a connection to a node can end with a
/// broken pipe too.
#[derive(Debug, thiserror::Error)]
#[error("standard output is closed")]
struct OutputClosedError;

/// Standard output, behind a buffer. Flush it before the end.
pub(crate) fn output() -> io::BufWriter<StandardOutput> {
    io::BufWriter::with_capacity(64 << 10, StandardOutput)
}

/// Standard output.
#[derive(Debug)]
pub(crate) struct StandardOutput;

impl io::Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().lock().write(bytes).map_err(mark_closed)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush().map_err(mark_closed)
    }
}

fn mark_closed(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, OutputClosedError),
        _other => error,
    }
}

fn is_closed_output(error: &(dyn Error + 'static)) -> bool {
    let io_error = error.downcast_ref::<io::Error>();
    let inner = io_error.and_then(io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<OutputClosedError>()) || error.source().is_some_and(is_closed_output)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn because(failure: CommandError) -> Box<dyn Error + Send + Sync> {
        match failure {
            CommandError::Because(error) => error,
            CommandError::Usage(_) | CommandError::Told | CommandError::Interrupted => panic!("{failure:?}"),
        }
    }

    #[test]
    fn causes_are_told_in_order_and_none_twice() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused");
        let failed = Err::<(), _>(refused).context(|| "can't connect".to_owned()).unwrap_err();
        let told = told(&*because(failed));
        assert_eq!(told, "error: can't connect\n  because: connection refused\n");
        let repeats = io::Error::other("read: connection refused");
        let doing = Doing { what: "read: connection refused".to_owned(), cause: repeats.into() };
        assert_eq!(super::told(&doing), "error: read: connection refused\n");
    }

    #[test]
    fn a_node_s_words_stay_printable_and_on_their_line() {
        let told = told(&*because("said \x1b[2J\nerror: forged\u{202e}".into()));
        assert_eq!(told, "error: said \\u001b[2J\\nerror: forged\\u202e\n");
    }

    #[test]
    fn a_closed_output_is_told_from_a_broken_connection() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_output(&mark_closed(broken())));
        let within = Err::<(), _>(mark_closed(broken())).context(|| "writing".to_owned()).unwrap_err();
        assert!(is_closed_output(&*because(within)));
        assert!(!is_closed_output(&broken()));
    }
}
