//! The log: lines to stderr, for people or as JSON, and a limit on warnings that repeat. Each event is
//! one line of printable text, whatever clients have brought into it.
//!
//! Log where a thing is handled, not where it is passed on. What may happen for each request is
//! logged through [`warn_limited!`](silverback_host::warn_limited), so that a broken sender can't fill a disk.

use std::io::{self, Write};

use silverback_model::printable::printable;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogFormat;

/// Why the log couldn't be started.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// `--log-level` isn't a level, nor directives.
    #[error("log level: {0}")]
    Directives(#[from] tracing_subscriber::filter::ParseError),
    /// Somebody else has set the process' subscriber.
    #[error("the log was started already")]
    StartedAlready(#[from] tracing::subscriber::SetGlobalDefaultError),
}

/// What h2 warns of clients bring about as often as they like, and the node counts; what object_store says of requests
/// that it tries again the shipper says where they fail. Directives that name them say otherwise.
const QUIET: &str = "h2=error,object_store=error";

/// Starts the process' log, to stderr.
pub fn start(format: LogFormat, directives: &str) -> Result<(), LoggingError> {
    tracing::subscriber::set_global_default(subscriber(format, directives, std::io::stderr)?)?;
    Ok(())
}

fn subscriber<W>(
    format: LogFormat,
    directives: &str,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(format!("{QUIET},{directives}"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(PrintableLines(writer));
    Ok(match format {
        // Colours would be escapes in whatever collects stderr.
        LogFormat::Text => Box::new(lines.with_ansi(false).finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).finish()),
    })
}

/// Makes writers of printable lines.
struct PrintableLines<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for PrintableLines<W> {
    type Writer = PrintableLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        PrintableLine(self.0.make_writer())
    }

    fn make_writer_for(&'a self, metadata: &tracing::Metadata<'_>) -> Self::Writer {
        PrintableLine(self.0.make_writer_for(metadata))
    }
}

/// Writes what it is given at once as one line: an event comes whole, and ends its line itself. In JSON the
/// escapes mean what was there.
struct PrintableLine<W>(W);

impl<W: Write> Write for PrintableLine<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (line, end) = match bytes.strip_suffix(b"\n") {
            Some(line) => (line, "\n"),
            None => (bytes, ""),
        };
        let line = String::from_utf8_lossy(line);
        let mut printed = printable(&line).into_owned();
        printed.push_str(end);
        self.0.write_all(printed.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What `act` logs.
    fn logged(format: LogFormat, directives: &str, act: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(format, directives, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, act);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_is_a_line_without_colours() {
        let text = logged(LogFormat::Text, "info", || tracing::warn!(shard = 3, "torn tail"));
        assert!(text.contains("WARN") && text.contains("torn tail shard=3"), "{text:?}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn json_is_one_flat_object_a_line() {
        let text = logged(LogFormat::Json, "info", || tracing::warn!(shard = 3, "torn tail"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "torn tail");
        assert_eq!(line["shard"], 3);
    }

    #[test]
    fn what_a_client_brings_into_an_event_stays_printable_and_on_its_line() {
        let foreign = "a\nINFO forged\u{1b}[2J\u{9b}\u{202e}\r";
        for format in [LogFormat::Text, LogFormat::Json] {
            let text = logged(format, "info", || tracing::warn!(foreign, "refused {foreign}"));
            let line = text.strip_suffix('\n').unwrap();
            assert!(line.chars().all(silverback_model::printable::is_printable), "{line:?}");
        }
        let text = logged(LogFormat::Json, "info", || tracing::warn!("{foreign}"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], foreign, "for a program nothing is changed");
    }

    #[test]
    fn directives_choose_what_is_logged() {
        let text = logged(LogFormat::Text, "warn,silverback_storage::wal=debug", || {
            tracing::info!("not this");
            tracing::debug!(target: "silverback_storage::wal", "but this");
        });
        assert!(text.contains("but this") && !text.contains("not this"), "{text:?}");
    }

    #[test]
    fn what_h2_warns_of_clients_is_logged_only_where_it_is_asked_for() {
        let warn = || tracing::warn!(target: "h2::proto::streams", "reset");
        assert_eq!(logged(LogFormat::Text, "debug", warn), "");
        assert!(logged(LogFormat::Text, "info,h2=debug", warn).contains("reset"));
    }

    #[test]
    fn what_is_tried_again_at_a_bucket_is_logged_only_where_it_is_asked_for() {
        let retry = || tracing::info!(target: "object_store::client::retry", "again");
        assert_eq!(logged(LogFormat::Text, "info", retry), "");
        assert!(logged(LogFormat::Text, "info,object_store=info", retry).contains("again"));
    }

    #[test]
    fn a_warning_that_repeats_is_told_ten_times_for_each_place() {
        let text = logged(LogFormat::Text, "warn", || {
            for i in 0..50 {
                silverback_host::warn_limited!(i, "here");
            }
            silverback_host::warn_limited!("elsewhere");
        });
        assert_eq!(text.matches("here i=").count(), 10, "{text}");
        assert_eq!(text.matches("elsewhere").count(), 1, "{text}");
    }
}
