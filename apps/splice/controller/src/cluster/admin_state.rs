//! What operators say about servers. Who is drained or taken down stays so until they say otherwise: through reloads,
//! and in the next process that goes on with the tables of this one (table `accept.told` of the program).

/// What an operator has said about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// It gets requests if it is up.
    #[default]
    Ready,
    /// It gets no new requests; those that it has it serves to their end.
    Drain,
    /// It is out of use: what it served was ended.
    Down,
}

impl Admin {
    /// All of them. Their places are their numbers in the table, where nobody has to say that a server is ready.
    pub const ALL: [Admin; 3] = [Admin::Ready, Admin::Drain, Admin::Down];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Admin::Ready => "ready",
            Admin::Drain => "drain",
            Admin::Down => "down",
        }
    }
}
