//! Enums whose variants have names, each declared once, and counts by such a reason.

/// Makes an enum of which `ALL` lists the variants, and `as_str` gives each one's name.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        $vis enum $enum { $($(#[$doc])* $variant,)+ }

        impl $enum {
            /// Every one, in the order of its number.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name in metrics, in the log and in texts.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

/// Makes a count of things for each variant of a [`named!`] enum whose numbers are its variants' places.
macro_rules! counted {
    ($(#[$about:meta])* $vis:vis struct $counts:ident by $reason:ident;) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $vis struct $counts([u64; $reason::ALL.len()]);

        impl $counts {
            /// Counts `count` more.
            #[inline]
            pub fn add(&mut self, reason: $reason, count: u64) {
                self.0[reason as usize] += count;
            }

            /// Adds what another count holds.
            pub fn merge(&mut self, other: &Self) {
                for (mine, theirs) in self.0.iter_mut().zip(other.0) {
                    *mine += theirs;
                }
            }

            /// The count of one reason.
            pub fn get(&self, reason: $reason) -> u64 {
                self.0[reason as usize]
            }

            /// All of them.
            pub fn total(&self) -> u64 {
                self.0.iter().sum()
            }

            /// The reasons that have a count.
            pub fn iter(&self) -> impl Iterator<Item = ($reason, u64)> + '_ {
                $reason::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
            }
        }
    };
}
pub(crate) use counted;
