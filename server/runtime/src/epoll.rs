//! An epoll set: the three system calls, safely.
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
};

/// What became of a watched descriptor.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct ReadyEvent(libc::epoll_event);

impl ReadyEvent {
    pub(super) const NONE: Self = Self(libc::epoll_event { events: 0, u64: 0 });

    const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLPRI) as u32;
    const WRITABLE: u32 = libc::EPOLLOUT as u32;
    /// The peer sends no more, or nothing moves any more: either way every read ends at once.
    const ENDED: u32 = libc::EPOLLRDHUP as u32 | Self::BROKEN;
    /// Nothing moves any more.
    const BROKEN: u32 = (libc::EPOLLHUP | libc::EPOLLERR) as u32;

    /// The key that the descriptor was added with.
    pub(super) fn key(&self) -> u64 {
        self.0.u64
    }

    pub(super) fn is_readable(&self) -> bool {
        self.0.events & (Self::READABLE | Self::ENDED) != 0
    }

    pub(super) fn is_writable(&self) -> bool {
        self.0.events & (Self::WRITABLE | Self::BROKEN) != 0
    }

    pub(super) fn is_broken(&self) -> bool {
        self.0.events & Self::BROKEN != 0
    }

    pub(super) fn is_ended(&self) -> bool {
        self.0.events & Self::ENDED != 0
    }
}

#[derive(Debug)]
pub(super) struct Epoll(OwnedFd);

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches `fd` for every change until it is closed; events name it by `key`.
    pub(super) fn add(&self, fd: RawFd, key: u64) -> io::Result<()> {
        let events = ReadyEvent::READABLE | ReadyEvent::WRITABLE | ReadyEvent::ENDED | libc::EPOLLET as u32;
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: `event` lives through the call, which only reads it.
        let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The events that are there now, as many as fit; never waits.
    pub(super) fn poll<'a>(&self, events: &'a mut [ReadyEvent]) -> io::Result<&'a [ReadyEvent]> {
        let room = i32::try_from(events.len()).unwrap_or(i32::MAX);
        // SAFETY: `ReadyEvent` is a transparent `epoll_event`, and `room` is no more than the slice holds.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr().cast(), room, 0) };
        match usize::try_from(count) {
            Ok(count) => Ok(&events[..count]),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::net::UnixStream};

    #[test]
    fn a_change_is_told_once_with_the_key_of_its_descriptor() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add(far.as_raw_fd(), 7).unwrap();
        let mut events = [ReadyEvent::NONE; 4];

        let first = epoll.poll(&mut events).unwrap();
        assert_eq!(first.len(), 1);
        assert!(first[0].key() == 7 && first[0].is_writable() && !first[0].is_readable());
        assert!(epoll.poll(&mut events).unwrap().is_empty());

        near.write_all(b"x").unwrap();
        let readable = epoll.poll(&mut events).unwrap();
        assert!(readable.len() == 1 && readable[0].is_readable() && !readable[0].is_ended());

        near.shutdown(std::net::Shutdown::Write).unwrap();
        let half_closed = epoll.poll(&mut events).unwrap()[0];
        assert!(half_closed.is_ended() && !half_closed.is_broken());

        drop(near);
        assert!(epoll.poll(&mut events).unwrap()[0].is_broken());
    }
}
