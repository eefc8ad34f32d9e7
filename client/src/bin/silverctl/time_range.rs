//! `--start` and `--end`.

use std::ops::RangeInclusive;

use clap::Args;

use crate::error::{CommandError, Done};
use crate::time_text::{TimeArg, format_rfc3339, now_ms, parse_time};

/// From when to when.
#[derive(Debug, Clone, Args)]
pub(crate) struct TimeRangeArgs {
    /// From then on: -1h (before now), 2026-01-31T12:00:00Z, or milliseconds since 1970.
    #[arg(long, value_name = "TIME", default_value = "-1h", allow_hyphen_values = true, value_parser = parse_time)]
    start: TimeArg,
    /// Until then, inclusive.
    #[arg(long, value_name = "TIME", default_value = "now", allow_hyphen_values = true, value_parser = parse_time)]
    end: TimeArg,
}

impl TimeRangeArgs {
    /// Milliseconds since the Unix epoch.
    pub(crate) fn resolve_ms(&self) -> Done<RangeInclusive<i64>> {
        let now_ms = now_ms();
        let (start_ms, end_ms) = (self.start.resolve_ms(now_ms), self.end.resolve_ms(now_ms));
        if start_ms > end_ms {
            let (start, end) = (format_rfc3339(start_ms), format_rfc3339(end_ms));
            return Err(CommandError::Usage(format!("--start ({start}) is later than --end ({end})")));
        }
        Ok(start_ms..=end_ms)
    }
}
