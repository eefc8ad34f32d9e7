//! How long to wait before a request is sent again. It knows no requests.

use std::time::Duration;

/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(20);
/// No pause is longer, whatever a receiver asks for: a run has an end.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Pauses of one request, or of one stream without a sign of life.
const PAUSES_MAX: u32 = 12;

/// The pauses of one request.
#[derive(Debug, Default)]
pub(super) struct RequestBackoff {
    pauses: u32,
}

impl RequestBackoff {
    /// The next one: as long as the receiver asked for, or twice the one before. `None` once it has
    /// been tried often enough.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        self.pauses += 1;
        let own = FIRST * (1 << (self.pauses - 1).min(PAUSES_MAX));
        (self.pauses <= PAUSES_MAX).then(|| asked.unwrap_or(own).min(PAUSE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_are_bounded_and_end() {
        let mut backoff = RequestBackoff::default();
        assert_eq!(backoff.next(None), Some(FIRST));
        assert_eq!(backoff.next(Some(Duration::from_secs(1))), Some(Duration::from_secs(1)));
        assert_eq!(backoff.next(None), Some(4 * FIRST));
        assert_eq!(backoff.next(Some(Duration::from_secs(3600))), Some(PAUSE_MAX));
        assert_eq!((0..100).map_while(|_| backoff.next(None)).count(), PAUSES_MAX as usize - 4);
    }
}
