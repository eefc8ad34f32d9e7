//! The frames that an HTTP/2 client sends, told apart by their heads: what comes without data is paid for
//! by what comes with it.
//!
//! Pings, priorities, settings and their like cost the core as much as requests do, and no request is
//! behind them. A client has some of them for each request, for the bytes that move in either direction,
//! and for each second. Nothing is copied but a head that comes in two reads.

/// A frame's head, in bytes.
const HEAD_BYTES: usize = 9;

/// What a frame without data costs, in bytes of data that pay for it.
const FRAME_COST: i64 = 512;
/// What a request brings: its window's updates, a ping, its reset.
const REQUEST_CREDIT: i64 = 8 * FRAME_COST;
/// What a frame of data brings at the least: a client that measures its path answers each small answer with
/// its windows' updates and a ping.
const DATA_CREDIT_MIN: i64 = 4 * FRAME_COST;
/// What a connection may have on its account at the most: as much as it begins with.
const CREDIT_MAX: i64 = 10_000 * FRAME_COST;
/// What a connection that is asked to go may still send until it is cut.
const FAREWELL_CREDIT: i64 = 1_000 * FRAME_COST;
/// Frames without data that each second pays for.
const FRAMES_A_SECOND: u64 = 100;

/// What so many microseconds bring.
pub(super) fn credit_of_time(us: u64) -> i64 {
    i64::try_from(us.saturating_mul(FRAMES_A_SECOND) * FRAME_COST as u64 / 1_000_000).unwrap_or(CREDIT_MAX)
}

/// What a client's frames come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// Within what it may send.
    Covered,
    /// It has just sent more.
    Overdrawn,
    /// It went on although it was asked to go.
    Flooding,
}

/// One connection's account.
#[derive(Debug)]
pub(super) struct FrameAccount {
    credit: i64,
    is_overdrawn: bool,
    /// Of the current frame's payload, still to come.
    payload_left: usize,
    head: [u8; HEAD_BYTES],
    head_len: usize,
}

impl Default for FrameAccount {
    fn default() -> Self {
        Self { credit: CREDIT_MAX, is_overdrawn: false, payload_left: 0, head: [0; HEAD_BYTES], head_len: 0 }
    }
}

impl FrameAccount {
    /// Adds what bytes of an answer, or time, bring.
    pub(super) fn add(&mut self, credit: i64) {
        let max = if self.is_overdrawn { FAREWELL_CREDIT } else { CREDIT_MAX };
        self.credit = self.credit.saturating_add(credit).min(max.max(self.credit));
    }

    /// Takes in what was read, wherever frames begin and end in it.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Account {
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let count = self.payload_left.min(bytes.len());
                self.payload_left -= count;
                bytes = &bytes[count..];
                continue;
            }
            let count = (HEAD_BYTES - self.head_len).min(bytes.len());
            self.head[self.head_len..self.head_len + count].copy_from_slice(&bytes[..count]);
            self.head_len += count;
            bytes = &bytes[count..];
            if self.head_len == HEAD_BYTES {
                self.head_len = 0;
                self.frame();
            }
        }
        self.state()
    }

    fn frame(&mut self) {
        const DATA: u8 = 0;
        const HEADERS: u8 = 1;
        const END_STREAM: u8 = 1;

        let [high, middle, low, kind, flags, ..] = self.head;
        let bytes = u32::from_be_bytes([0, high, middle, low]);
        self.payload_left = bytes as usize;
        match kind {
            DATA if bytes > 0 => self.add(i64::from(bytes).max(DATA_CREDIT_MIN)),
            DATA if flags & END_STREAM != 0 => {}
            HEADERS => self.add(REQUEST_CREDIT),
            _ => self.credit -= FRAME_COST,
        }
    }

    fn state(&mut self) -> Account {
        match (self.credit < 0, self.is_overdrawn) {
            (false, _) => Account::Covered,
            (true, false) => {
                self.is_overdrawn = true;
                self.credit = FAREWELL_CREDIT;
                Account::Overdrawn
            }
            (true, true) => Account::Flooding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const PRIORITY: u8 = 2;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, high, middle, low] = (payload as u32).to_be_bytes();
        let mut bytes = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
        bytes.resize(HEAD_BYTES + payload, 0xff);
        bytes
    }

    /// What it comes to when so many rounds of these frames are read in pieces of so many bytes.
    fn check(round: &[Vec<u8>], rounds: usize, piece: usize, expect: Account) {
        let mut account = FrameAccount::default();
        let bytes = round.concat().repeat(rounds);
        let worst = bytes.chunks(piece).map(|bytes| account.read(bytes)).max_by_key(|state| *state as u8);
        assert_eq!(worst, Some(expect), "{rounds} rounds in pieces of {piece}");
    }

    #[test]
    fn frames_without_data_are_covered_up_to_a_number_however_they_are_cut() {
        for piece in [1, 7, 9, 100, 8192] {
            for ping in [frame(PING, 0, 8), frame(PRIORITY, 0, 5), frame(0, 0, 0)] {
                let round = [ping];
                check(&round, 10_000, piece, Account::Covered);
                check(&round, 10_500, piece, Account::Overdrawn);
                check(&round, 13_000, piece, Account::Flooding);
            }
        }
    }

    #[test]
    fn requests_and_data_pay_for_what_comes_with_them() {
        let (head, end) = (frame(1, 4, 30), frame(0, 1, 0));
        let with_request = [head, frame(8, 0, 4), frame(8, 0, 4), frame(PING, 0, 8), end];
        check(&with_request, 30_000, 8192, Account::Covered);
        let with_data = [frame(0, 0, 16_384), frame(8, 0, 4), frame(8, 0, 4), frame(PING, 0, 8)];
        check(&with_data, 4_000, 8192, Account::Covered);
        check(&[frame(0, 0, 1)], 100_000, 8192, Account::Covered);
        // A stream of small batches, each acknowledged, of a client that measures its path.
        let small_batch = [frame(0, 0, 100), frame(8, 0, 4), frame(8, 0, 4), frame(PING, 0, 8)];
        check(&small_batch, 100_000, 8192, Account::Covered);
    }

    #[test]
    fn time_and_answers_pay_too() {
        let mut account = FrameAccount::default();
        for _ in 0..1000 {
            let pings = frame(PING, 0, 8).repeat(FRAMES_A_SECOND as usize);
            assert_eq!(account.read(&pings), Account::Covered);
            account.add(credit_of_time(1_000_000));
        }
        for _ in 0..100_000 {
            assert_eq!(account.read(&frame(8, 0, 4)), Account::Covered);
            account.add(FRAME_COST);
        }
    }
}
