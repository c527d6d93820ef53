//! What operators say about origins of pools. It holds until they say otherwise, through reloads, and until the process
//! ends.

/// What an operator has said about an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminState {
    /// It gets streams if it is up.
    #[default]
    Ready,
    /// It gets no new streams; those that come from it go on.
    Drain,
    /// It is out of use: streams that came from it come from others.
    Down,
}

impl AdminState {
    /// All of them.
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
