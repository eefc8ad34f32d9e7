//! In which order a connection's requests arrive. It knows rounds, not what is in them.

use serde::{Deserialize, Serialize};

/// How the rounds of a connection follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// By their time
    #[default]
    InOrder,
    /// The newest first, and then all others by their time: what was kept while nobody took it
    Backlog,
    /// By their time, and then all of it once more
    Twice,
}

impl Arrival {
    /// How many rounds are sent of so many that are made.
    pub fn rounds_sent(self, rounds: u32) -> u32 {
        match self {
            Self::InOrder | Self::Backlog => rounds,
            Self::Twice => 2 * rounds,
        }
    }

    /// Requests with their rounds, in the order in which they are sent and with the number of the round that they are
    /// sent in.
    pub fn arrange<T: Clone>(self, rounds: u32, requests: Vec<(u32, T)>) -> Vec<(u32, T)> {
        match self {
            Self::InOrder => requests,
            Self::Backlog => {
                let last = rounds.saturating_sub(1);
                let (newest, earlier): (Vec<_>, Vec<_>) =
                    requests.into_iter().partition(|(round, _)| *round == last);
                let newest = newest.into_iter().map(|(_, request)| (0, request));
                newest.chain(earlier.into_iter().map(|(round, request)| (round + 1, request))).collect()
            }
            Self::Twice => {
                let again = requests.clone().into_iter().map(|(round, request)| (rounds + round, request));
                requests.into_iter().chain(again).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arrival: Arrival, expect: &[(u32, char)]) {
        let requests = vec![(0, 'a'), (0, 'b'), (1, 'c'), (2, 'd')];
        assert_eq!(arrival.arrange(3, requests), expect, "{arrival:?}");
        assert_eq!(expect.iter().map(|(round, _)| round + 1).max(), Some(arrival.rounds_sent(3)));
    }

    #[test]
    fn a_backlog_comes_after_the_newest_round_and_a_second_time_after_all() {
        check(Arrival::InOrder, &[(0, 'a'), (0, 'b'), (1, 'c'), (2, 'd')]);
        check(Arrival::Backlog, &[(0, 'd'), (1, 'a'), (1, 'b'), (2, 'c')]);
        let once = [(0, 'a'), (0, 'b'), (1, 'c'), (2, 'd')];
        let again = [(3, 'a'), (3, 'b'), (4, 'c'), (5, 'd')];
        check(Arrival::Twice, &[once, again].concat());
    }
}
