//! Which group a symbol belongs to: the first of an ordered table that has a pattern of it. It knows no symbols of its
//! own.

use super::symbols::{Profile, Symbol};

/// What a symbol's name must be like. A method of a type is looked up by the type: what opens a path (`<`, `&`, `[`)
/// is left out before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// The whole of it.
    Is(&'static str),
    /// How it begins.
    Begins(&'static str),
    /// Something in it.
    Has(&'static str),
}

/// Some symbols' time, as one row.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What the row says.
    pub name: &'static str,
    /// Whether it is of the kernel's symbols, or of all others.
    pub is_kernel: bool,
    /// Any of them makes a symbol its.
    pub patterns: &'static [Pattern],
}

/// The rows of what no group has.
pub const KERNEL_OTHER: &str = "kernel: anything else";
/// See [`KERNEL_OTHER`].
pub const OTHER: &str = "anything else";

impl Pattern {
    /// Whether a symbol is like it.
    fn is_of(self, name: &str) -> bool {
        match self {
            Self::Is(whole) => name == whole,
            Self::Begins(begin) => name.starts_with(begin),
            Self::Has(part) => name.contains(part),
        }
    }
}

/// What a row of the table comes to: the group's name, and its share of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// The group.
    pub group: &'static str,
    /// Between 0 and 1.
    pub share: f64,
}

/// The group of a symbol.
pub fn group_of(groups: &[Group], symbol: &Symbol) -> &'static str {
    let name = symbol.name.trim_start_matches(['<', '&', '[', '(', '*']);
    let has = |group: &&Group| {
        group.is_kernel == symbol.is_kernel && group.patterns.iter().any(|pattern| pattern.is_of(name))
    };
    let other = if symbol.is_kernel { KERNEL_OTHER } else { OTHER };
    groups.iter().find(has).map_or(other, |group| group.name)
}

/// Every group's share, in the table's order, and last what no group has.
pub fn shares(groups: &[Group], profile: &Profile) -> Vec<Share> {
    let all: u64 = profile.symbols.iter().map(|symbol| symbol.weight).sum();
    let share = |group: &'static str| {
        let own = profile.symbols.iter().filter(|symbol| group_of(groups, symbol) == group);
        let weight: u64 = own.map(|symbol| symbol.weight).sum();
        Share { group, share: weight as f64 / all.max(1) as f64 }
    };
    groups.iter().map(|group| group.name).chain([KERNEL_OTHER, OTHER]).map(share).collect()
}

/// The share of what no group has, the kernel's included.
pub fn unclassified(shares: &[Share]) -> f64 {
    let others = shares.iter().filter(|share| [KERNEL_OTHER, OTHER].contains(&share.group));
    others.map(|share| share.share).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::Pattern::{Begins, Has, Is};
    use super::*;

    pub(crate) fn symbol(is_kernel: bool, name: &str, weight: u64) -> Symbol {
        Symbol { is_kernel, name: name.to_owned(), weight, samples: 1 }
    }

    /// Whether each name that the one matches is matched by the other, too.
    fn covers(first: Pattern, second: Pattern) -> bool {
        match (first, second) {
            (first, Is(whole)) => first.is_of(whole),
            (Begins(_) | Has(_), Begins(begin)) => first.is_of(begin),
            (Has(part), Has(other)) => other.contains(part),
            (Is(_), Begins(_) | Has(_)) | (Begins(_), Has(_)) => false,
        }
    }

    /// The patterns that never decide, since another before them has all of their symbols.
    fn shadowed(groups: &[Group]) -> Vec<(Pattern, Pattern)> {
        let patterns = |is_kernel: bool| {
            let of = groups.iter().filter(move |group| group.is_kernel == is_kernel);
            of.flat_map(|group| group.patterns.iter().copied()).collect::<Vec<_>>()
        };
        let mut found = Vec::new();
        for all in [patterns(true), patterns(false)] {
            for (at, second) in all.iter().enumerate() {
                let first = all[..at].iter().find(|first| covers(**first, *second));
                found.extend(first.map(|first| (*first, *second)));
            }
        }
        found
    }

    /// What must hold of each table.
    pub(crate) fn check_sound(groups: &[Group]) {
        assert_eq!(shadowed(groups), [], "the second of each pair is never reached");
        for group in groups {
            assert!(!group.patterns.is_empty(), "{} has no pattern", group.name);
            let is_kernel_s = group.name.starts_with("kernel: ");
            assert_eq!(is_kernel_s, group.is_kernel, "{}", group.name);
            assert!(![KERNEL_OTHER, OTHER].contains(&group.name), "{}", group.name);
            let same = groups.iter().filter(|other| other.name == group.name).count();
            assert_eq!(same, 1, "{}", group.name);
            for pattern in group.patterns {
                let (Is(text) | Begins(text) | Has(text)) = *pattern;
                let is_reached = !matches!(pattern, Is(_) | Begins(_)) || !text.starts_with(['<', '&', '[']);
                assert!(is_reached && !text.is_empty(), "{pattern:?}: what opens a path is left out before");
            }
        }
    }

    #[test]
    fn a_pattern_that_another_covers_is_found() {
        let table = |first, second| {
            let group =
                |name, patterns: Vec<Pattern>| Group { name, is_kernel: false, patterns: patterns.leak() };
            shadowed(&[group("a", vec![first]), group("b", vec![second])]).len()
        };
        assert_eq!(table(Begins("mi_"), Begins("mi_free")), 1);
        assert_eq!(table(Has("tcp"), Is("__tcp_ack")), 1);
        assert_eq!(table(Has("tcp"), Begins("tcp_")), 1);
        assert_eq!(table(Begins("mi_free"), Begins("mi_")), 0);
        // It may be in the middle of a name.
        assert_eq!(table(Begins("tcp"), Has("tcp_ack")), 0);
        assert_eq!(table(Is("tcp"), Begins("tcp")), 0);
    }

    const TABLE: [Group; 3] = [
        Group { name: "kernel: memory", is_kernel: true, patterns: &[Begins("clear_page")] },
        Group { name: "decoding", is_kernel: false, patterns: &[Has("::remote_write::")] },
        Group { name: "node", is_kernel: false, patterns: &[Begins("silverback::")] },
    ];

    #[test]
    fn the_first_group_that_has_a_symbol_gets_it() {
        let check = |is_kernel, name: &str, group| {
            assert_eq!(group_of(&TABLE, &symbol(is_kernel, name, 1)), group, "{name}");
        };
        check(false, "silverback::api::remote_write::v1::decode", "decoding");
        check(false, "<silverback::api::Endpoints as hyper::Service>::call", "node");
        check(true, "clear_page_erms", "kernel: memory");
        check(true, "silverback::api", KERNEL_OTHER);
        check(false, "clear_page_erms", OTHER);
    }

    #[test]
    fn shares_are_by_weight_and_come_to_all() {
        let symbols = vec![
            symbol(false, "silverback::a", 60),
            symbol(true, "clear_page_erms", 20),
            symbol(true, "odd", 15),
            symbol(false, "odd", 5),
        ];
        let shares = shares(&TABLE, &Profile { event: String::new(), symbols });
        let expected = [0.2, 0.0, 0.6, 0.15, 0.05];
        assert_eq!(shares.iter().map(|share| share.share).collect::<Vec<_>>(), expected);
        assert!((unclassified(&shares) - 0.2).abs() < 1e-9);
    }
}
