//! The frames that an HTTP/2 client sends, by their heads: what comes without data is paid for
//! by what comes with it.
//!
//! Pings, priorities, settings and their like cost the core as much as requests do, and no request is
//! behind them. A client has some of them for each request, for the bytes that move in either direction,
//! and for each second. Nothing is copied but a head that comes in two reads.

/// A frame's head, in bytes.
const HEAD_BYTES: usize = 9;
/// The same with the payload of a window's update, which is a number.
const UPDATE_BYTES: usize = HEAD_BYTES + 4;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

/// What a frame without data costs, in bytes of data that pay for it.
const FRAME_COST: i64 = 512;
/// What a request brings: its window's updates, a ping, its reset.
const REQUEST_CREDIT: i64 = 8 * FRAME_COST;
/// What a frame of data brings at least: a client that measures its path answers each small answer with
/// its windows' updates and a ping.
const DATA_CREDIT_MIN: i64 = 4 * FRAME_COST;
/// What a byte of a request's trailers costs: a field may be one byte, takes a hundred in memory, and stays until
/// its request looks at it. Clients of gRPC send none.
const TRAILER_COST: i64 = 8 * FRAME_COST;
/// What a connection may have on its account at most: as much as it begins with.
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

/// What the head of a frame says.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    kind: u8,
    flags: u8,
    pub(super) stream: u32,
    payload_bytes: u32,
    /// Of a window's update.
    pub(super) increment: Option<u32>,
}

/// Finds the heads of frames in what passes, wherever frames begin and end in it.
#[derive(Debug, Default)]
pub(super) struct FrameHeads {
    /// Of the current frame's payload, still to come.
    payload_left: usize,
    head: [u8; UPDATE_BYTES],
    head_len: usize,
}

impl FrameHeads {
    /// Looks through the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8], mut on_frame: impl FnMut(FrameHead)) {
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let count = self.payload_left.min(bytes.len());
                self.payload_left -= count;
                bytes = &bytes[count..];
                continue;
            }
            let count = (self.wanted_bytes() - self.head_len).min(bytes.len());
            self.head[self.head_len..self.head_len + count].copy_from_slice(&bytes[..count]);
            self.head_len += count;
            bytes = &bytes[count..];
            if self.head_len == self.wanted_bytes() {
                on_frame(self.begin_payload());
            }
        }
    }

    fn wanted_bytes(&self) -> usize {
        let is_update = self.head_len >= HEAD_BYTES && matches!(self.head, [0, 0, 4, WINDOW_UPDATE, ..]);
        if is_update { UPDATE_BYTES } else { HEAD_BYTES }
    }

    fn begin_payload(&mut self) -> FrameHead {
        let number = |bytes: [u8; 4]| u32::from_be_bytes(bytes) & (u32::MAX >> 1);
        let [high, middle, low, kind, flags, s0, s1, s2, s3, i0, i1, i2, i3] = self.head;
        let payload_bytes = number([0, high, middle, low]);
        let is_update = self.head_len == UPDATE_BYTES;
        self.payload_left = payload_bytes as usize + HEAD_BYTES - self.head_len;
        self.head_len = 0;
        let increment = is_update.then(|| number([i0, i1, i2, i3]));
        FrameHead { kind, flags, stream: number([s0, s1, s2, s3]), payload_bytes, increment }
    }
}

/// One connection's account.
#[derive(Debug)]
pub(super) struct FrameAccount {
    credit: i64,
    is_overdrawn: bool,
    heads: FrameHeads,
    /// The last stream that was opened.
    last_stream: u32,
    /// The head that comes now belongs to an open stream.
    is_trailers: bool,
    data_bytes: u64,
}

impl Default for FrameAccount {
    fn default() -> Self {
        Self {
            credit: CREDIT_MAX,
            is_overdrawn: false,
            heads: FrameHeads::default(),
            last_stream: 0,
            is_trailers: false,
            data_bytes: 0,
        }
    }
}

impl FrameAccount {
    /// Adds what bytes of an answer, or time, bring.
    pub(super) fn add(&mut self, credit: i64) {
        let max = if self.is_overdrawn { FAREWELL_CREDIT } else { CREDIT_MAX };
        self.credit = self.credit.saturating_add(credit).min(max.max(self.credit));
    }

    /// Takes in what was read.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Account {
        let mut heads = std::mem::take(&mut self.heads);
        heads.read(bytes, |frame| self.frame(frame));
        self.heads = heads;
        self.state()
    }

    /// Bytes of data that have come so far, as windows count them.
    pub(super) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn frame(&mut self, FrameHead { kind, flags, stream, payload_bytes, .. }: FrameHead) {
        match kind {
            DATA if payload_bytes > 0 => {
                self.data_bytes += u64::from(payload_bytes);
                self.add(i64::from(payload_bytes).max(DATA_CREDIT_MIN));
            }
            DATA if flags & END_STREAM != 0 => {}
            HEADERS => {
                self.is_trailers = stream <= self.last_stream;
                self.last_stream = self.last_stream.max(stream);
                self.head(payload_bytes, REQUEST_CREDIT);
            }
            CONTINUATION => self.head(payload_bytes, -FRAME_COST),
            _ => self.credit -= FRAME_COST,
        }
    }

    /// Of a new stream, for what that brings, or of one that is open.
    fn head(&mut self, bytes: u32, credit: i64) {
        if self.is_trailers {
            self.credit -= FRAME_COST + i64::from(bytes) * TRAILER_COST;
        } else {
            self.add(credit);
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
pub(super) mod tests {
    use super::*;

    const PING: u8 = 6;
    const PRIORITY: u8 = 2;

    pub(in crate::http) fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
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
        let requests = (1..30_000u32).flat_map(|stream| {
            let mut head = frame(1, 4, 30);
            head[5..9].copy_from_slice(&stream.to_be_bytes());
            [head, frame(8, 0, 4), frame(8, 0, 4), frame(PING, 0, 8), frame(0, 1, 0)].concat()
        });
        check(&[requests.collect()], 1, 8192, Account::Covered);
        let with_data = [frame(0, 0, 16_384), frame(8, 0, 4), frame(8, 0, 4), frame(PING, 0, 8)];
        check(&with_data, 4_000, 8192, Account::Covered);
        check(&[frame(0, 0, 1)], 100_000, 8192, Account::Covered);
        // A stream of small batches, each acknowledged, of a client that measures its path.
        let small_batch = [frame(0, 0, 100), frame(8, 0, 4), frame(8, 0, 4), frame(PING, 0, 8)];
        check(&small_batch, 100_000, 8192, Account::Covered);
    }

    #[test]
    fn trailers_are_few_bytes_or_too_many() {
        let (head, trailers) = (frame(1, 4, 300), frame(1, 5, 20));
        check(&[head.clone(), trailers.repeat(50)], 1, 8192, Account::Covered);
        check(&[head.clone(), trailers.repeat(70)], 1, 8192, Account::Overdrawn);
        check(&[head.clone(), frame(1, 1, 20), frame(9, 4, 2000)], 1, 8192, Account::Overdrawn);
        check(&[head, trailers.repeat(400)], 1, 8192, Account::Flooding);
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
