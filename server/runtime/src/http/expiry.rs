//! Why connections are closed from here, in words for the log. What leads to it, and when, is the watch's.

/// Why a connection was closed from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Header,
    Idle,
    Stall,
    /// Its requests took nothing of what it sent, and others waited for the memory that this has.
    Unread,
    /// Frames without data kept coming after it was asked to go.
    Flood,
    /// It had no request in flight, or one that hardly came, and a new one came at the limit.
    Evicted,
    /// It was asked to go, and its client keeps it open without a request.
    Stays,
    /// Its client ended its sending side, and no answer began in time.
    Left,
}

impl Expiry {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Header => "a request's head took too long",
            Self::Idle => "no request came",
            Self::Stall => "a request stalled",
            Self::Unread => "what it sent was not read, and others waited for the memory",
            Self::Flood => "it sent too many frames without data",
            Self::Evicted => {
                "a request, or the rest of one, was waited for, and a new connection came at the limit"
            }
            Self::Stays => "it was asked to go, and its client kept it open",
            Self::Left => "its client sends no more, and its answer takes long",
        }
    }
}
