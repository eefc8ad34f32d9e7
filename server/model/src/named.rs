//! Enums whose variants have names, each declared once.

/// Makes an enum of which `ALL` lists the variants, and `as_str` tells the name that metrics and the log have for each.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $enum:ident { $($(#[$doc:meta])+ $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        $vis enum $enum { $($(#[$doc])+ $variant,)+ }

        impl $enum {
            /// Every one, in the order of its number.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// As metrics and the log call it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}
