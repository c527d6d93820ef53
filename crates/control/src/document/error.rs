//! What is wrong with a file of the control plane.

use std::fmt;

/// One thing that is wrong with a configuration or case file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file's name, as it was given.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// Keys from the root, such as `tables.l3_forward.fib."10.0.1.0/33"`; empty where the text is not TOML.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What is accepted in its place; empty where the problem says it.
    pub accepted: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)?;
        if self.accepted.is_empty() { Ok(()) } else { write!(f, "; accepted: {}", self.accepted) }
    }
}

impl std::error::Error for ConfigError {}
