//! Why a command failed, and its exit status.

use std::fmt;

/// Exit status: the program, the configuration or the command line is wrong.
pub const WRONG: u8 = 1;
/// Exit status: the system refused something.
pub const REFUSED: u8 = 2;

/// A command's failure: what is printed, and the exit status.
#[derive(Debug)]
pub struct Failure {
    text: String,
    /// [`WRONG`] or [`REFUSED`].
    pub status: u8,
}

impl Failure {
    /// What the user gave is wrong. The text stands as it is: it is rendered already.
    pub fn wrong(text: impl fmt::Display) -> Self {
        Failure { text: text.to_string().trim_end().to_string(), status: WRONG }
    }

    /// What the user gave is wrong in several ways: a line each.
    pub fn several<E: fmt::Display>(errors: &[E]) -> Self {
        let errors: Vec<_> = errors.iter().map(|error| format!("error: {error}")).collect();
        Failure::wrong(errors.join("\n"))
    }

    /// The system refused; one line that says what to do.
    pub fn refused(text: impl fmt::Display) -> Self {
        Failure { text: format!("error: {text}"), status: REFUSED }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
