//! What operators say about servers. A server that is drained or taken down stays so until they say otherwise: through
//! reloads, and in the next process that goes on with the tables of this one (table `accept.advertised_scale` of the
//! program).

/// What an operator has said about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminState {
    /// It gets requests if it is up.
    #[default]
    Ready,
    /// It gets no new requests; those that it has it serves to their end.
    Drain,
    /// It is out of use: what it served was ended.
    Down,
}

impl AdminState {
    /// All of them. Their places are their numbers in the table, where no entry says that a server is ready.
    pub const ALL: [AdminState; 3] = [AdminState::Ready, AdminState::Drain, AdminState::Down];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AdminState::Ready => "ready",
            AdminState::Drain => "drain",
            AdminState::Down => "down",
        }
    }
}
