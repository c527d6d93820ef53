//! What a controller asks for by name and the program does not have.

/// A name that the program does not know, or a table that is otherwise than the controller takes it to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No such name.
    #[error("there is no {what} {name}; there is {}", if .known.is_empty() { "none".into() } else { .known.join(", ") })]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Another key or value.
    #[error(
        "table {table}: its key has {key} fields{}, its value {value}", if *.prefix { " and a prefix length" } else { "" }
    )]
    Shape {
        /// Its full name.
        table: String,
        /// Fields of the key.
        key: usize,
        /// Fields of the value.
        value: usize,
        /// Whether the key is a [`Prefix`](super::Prefix).
        prefix: bool,
    },
}
