//! Who holds something scarce: things in the order in which they came, by the address that they came from. It knows who
//! has most, who came first, and whose turn is next; what becomes of that is its user's.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
    ops::Bound,
};

/// An address as far as it stands for one client: of IPv6 the 64 bits that a network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer(IpAddr);

impl Peer {
    /// That of a connection's other end. Those whose end isn't known any more are one.
    pub fn of(address: Option<IpAddr>) -> Self {
        const NETWORK: u128 = !(u64::MAX as u128);

        Self(match address.map(|address| address.to_canonical()) {
            Some(IpAddr::V6(ip)) => Ipv6Addr::from_bits(ip.to_bits() & NETWORK).into(),
            Some(ip @ IpAddr::V4(_)) => ip,
            None => Ipv6Addr::UNSPECIFIED.into(),
        })
    }
}

/// An address as a line of the log has it: IPv4 in its own form, also where it came by a socket of IPv6.
pub fn shown_address(address: Option<IpAddr>) -> String {
    address.map_or_else(|| "-".to_owned(), |address| address.to_canonical().to_string())
}

/// A thing's number: those that came later have higher ones.
pub(crate) type PeerNumber = u64;

/// Where a round through the peers begins.
pub(crate) type RoundStart = Bound<Peer>;

/// A peer in the order of counts: how many it has, and its first. The last is the one with most, of several the one that
/// came first.
type Rank = (usize, Reverse<PeerNumber>, Peer);

/// Things by peer. Each step takes the time of a search among them.
#[derive(Debug)]
pub(crate) struct ByPeer<T> {
    things: BTreeMap<Peer, BTreeMap<PeerNumber, T>>,
    by_count: BTreeSet<Rank>,
    order: BTreeMap<PeerNumber, Peer>,
    next: PeerNumber,
}

impl<T> Default for ByPeer<T> {
    fn default() -> Self {
        Self { things: BTreeMap::new(), by_count: BTreeSet::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<T> ByPeer<T> {
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// How many a peer has.
    pub(crate) fn count(&self, peer: Peer) -> usize {
        self.things.get(&peer).map_or(0, BTreeMap::len)
    }

    /// How many the peer with most has, and who that is: of several the one whose first came first.
    pub(crate) fn most(&self) -> Option<(usize, Peer)> {
        self.by_count.last().map(|(count, _, peer)| (*count, *peer))
    }

    /// The one that came first of those of the peers with most.
    pub(crate) fn first_of_most(&self) -> Option<(PeerNumber, &T)> {
        self.first_of(self.most()?.1)
    }

    /// The one that came first.
    pub(crate) fn first(&self) -> Option<(PeerNumber, &T)> {
        let (number, peer) = self.order.first_key_value()?;
        self.things.get(peer)?.get(number).map(|thing| (*number, thing))
    }

    /// A peer's first.
    pub(crate) fn first_of(&self, peer: Peer) -> Option<(PeerNumber, &T)> {
        self.things.get(&peer)?.first_key_value().map(|(number, thing)| (*number, thing))
    }

    /// Who has something and is next, in a round that begins there.
    pub(crate) fn next_peer(&self, turn: RoundStart) -> Option<Peer> {
        let next = self.things.range((turn, Bound::Unbounded)).next();
        next.or_else(|| self.things.first_key_value()).map(|(peer, _)| *peer)
    }

    /// One more, of that peer.
    pub(crate) fn insert(&mut self, peer: Peer, thing: T) -> PeerNumber {
        let number = self.next;
        self.next += 1;
        self.order.insert(number, peer);
        self.change(peer, |things| things.insert(number, thing));
        number
    }

    /// Takes one out, where it is there.
    pub(crate) fn remove(&mut self, number: PeerNumber) -> Option<T> {
        let peer = self.order.remove(&number)?;
        self.change(peer, |things| things.remove(&number))
    }

    fn change<R>(&mut self, peer: Peer, change: impl FnOnce(&mut BTreeMap<PeerNumber, T>) -> R) -> R {
        let things = self.things.entry(peer).or_default();
        let before = rank(peer, things);
        let result = change(things);
        let after = rank(peer, things);
        if let Some(before) = before {
            self.by_count.remove(&before);
        }
        match after {
            None => drop(self.things.remove(&peer)),
            Some(after) => drop(self.by_count.insert(after)),
        }
        result
    }
}

/// `None`: it has nothing.
fn rank<T>(peer: Peer, things: &BTreeMap<PeerNumber, T>) -> Option<Rank> {
    things.first_key_value().map(|(first, _)| (things.len(), Reverse(*first), peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::of(Some(text.parse().unwrap()))
    }

    #[test]
    fn an_address_stands_for_one_client_and_of_ipv6_a_network_does() {
        assert_eq!(peer("10.0.0.1"), peer("::ffff:10.0.0.1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:0:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(Peer::of(None), Peer::of(None));
    }

    #[test]
    fn who_has_most_and_who_came_first_is_known_after_each_change() {
        let (one, other) = (peer("10.0.0.1"), peer("10.0.0.2"));
        let mut all = ByPeer::default();
        assert_eq!((all.most(), all.first(), all.len()), (None, None, 0));
        let numbers: Vec<_> = [one, other, other].map(|peer| all.insert(peer, ())).into();
        assert_eq!((all.most(), all.count(one), all.len()), (Some((2, other)), 1, 3));
        assert_eq!(all.first().map(|(number, ())| number), Some(numbers[0]));
        assert_eq!(all.first_of(other).map(|(number, ())| number), Some(numbers[1]));
        assert_eq!((all.remove(numbers[1]), all.remove(numbers[1])), (Some(()), None));
        assert_eq!(all.remove(numbers[2]), Some(()));
        assert_eq!((all.most(), all.count(other)), (Some((1, one)), 0));
        assert_eq!(all.remove(numbers[0]), Some(()));
        assert!(all.things.is_empty() && all.by_count.is_empty() && all.order.is_empty());
    }

    #[test]
    fn of_peers_with_as_many_the_one_that_came_first_has_most() {
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(peer);
        for [first, second] in [[one, other], [other, one]] {
            let mut all = ByPeer::default();
            let numbers = [first, second, second, first].map(|peer| all.insert(peer, ()));
            assert_eq!(all.most(), Some((2, first)));
            assert_eq!(all.first_of_most().map(|(number, ())| number), Some(numbers[0]));
            all.remove(numbers[0]);
            all.insert(first, ());
            assert_eq!(all.most(), Some((2, second)), "its first is gone");
        }
    }

    #[test]
    fn a_round_comes_by_all_that_have_something() {
        let [first, second, third] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(peer);
        let mut all = ByPeer::default();
        assert_eq!(all.next_peer(Bound::Unbounded), None);
        for peer in [third, first, first] {
            all.insert(peer, ());
        }
        assert_eq!(all.next_peer(Bound::Unbounded), Some(first));
        assert_eq!(all.next_peer(Bound::Excluded(first)), Some(third));
        assert_eq!(all.next_peer(Bound::Included(second)), Some(third));
        assert_eq!(all.next_peer(Bound::Excluded(third)), Some(first));
    }
}
