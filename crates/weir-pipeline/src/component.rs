//! How the types of sources ([`crate::source`]) and outputs ([`crate::output`]) are listed: each
//! once, as a closed list with names.

macro_rules! component_types {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("`type = \"", $text, "\"`.")] $variant,)*
        }

        impl $name {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value of `type` in the configuration, and the label `component_type` of metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

pub(crate) use component_types;
