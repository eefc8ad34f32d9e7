//! What of an HTTP/2 connection's window may be unread in memory, by what passes: data that comes, and room
//! that hyper grants for more of it once its requests have taken some.
use super::frames::FrameHeads;

/// The window that a connection begins with, whatever is set.
const FIRST_WINDOW_BYTES: i64 = 65_535;

/// One connection's window.
#[derive(Debug)]
pub(super) struct ConnectionWindow {
    bytes: i64,
    /// Beyond the first.
    granted_bytes: i64,
    written: FrameHeads,
}

impl ConnectionWindow {
    /// Of so many bytes.
    pub(super) fn new(bytes: u32) -> Self {
        Self { bytes: i64::from(bytes), granted_bytes: 0, written: FrameHeads::default() }
    }

    /// Takes in what was written, and returns whether it grants the client more.
    pub(super) fn written(&mut self, bytes: &[u8]) -> bool {
        let before = self.granted_bytes;
        self.written.read(bytes, |frame| {
            if frame.stream == 0 {
                self.granted_bytes += i64::from(frame.increment.unwrap_or_default());
            }
        });
        self.granted_bytes > before
    }

    /// Whether more is unread than a third of the window, where `data_bytes` have come so far. Less is no sign:
    /// before half of what is left of the window was taken, hyper grants nothing.
    pub(super) fn holds_unread(&self, data_bytes: u64) -> bool {
        let left = FIRST_WINDOW_BYTES + self.granted_bytes - i64::try_from(data_bytes).unwrap_or(i64::MAX);
        3 * (self.bytes - left) > self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::frames::tests::frame;

    fn grant(stream: u8, bytes: u32) -> Vec<u8> {
        let mut update = frame(8, 0, 4);
        update[8] = stream;
        update[9..].copy_from_slice(&bytes.to_be_bytes());
        update
    }

    #[test]
    fn a_window_holds_unread_what_came_and_was_not_granted_again() {
        let answer = frame(0, 0, 5000);
        for piece in [1, 8, 13, 10_000] {
            let mut window = ConnectionWindow::new(90_000);
            let bytes =
                [grant(0, 90_000 - 65_535), answer.clone(), grant(1, 50_000), answer.clone()].concat();
            let grants = bytes.chunks(piece).filter(|bytes| window.written(bytes)).count();
            assert_eq!(grants, 1, "in pieces of {piece}");
            assert!(!window.holds_unread(0) && !window.holds_unread(30_000));
            assert!(window.holds_unread(30_001) && window.holds_unread(90_000));
            assert!(window.written(&grant(0, 70_000)));
            assert!(!window.holds_unread(100_000) && window.holds_unread(100_001));
        }
    }
}
