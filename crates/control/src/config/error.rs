//! What is wrong with a file of the control plane.

use std::fmt;

use baker::ir::TableError;

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

/// A table did not take an entry of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FillError {
    /// Full name of the table.
    pub table: String,
    /// Its declared number of entries.
    pub capacity: u32,
    /// Why.
    pub error: TableError,
}

impl fmt::Display for FillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FillError { table, capacity, error } = self;
        write!(f, "table {table}: {error}")?;
        match error {
            TableError::Full | TableError::OutOfRange => {
                write!(f, "; it is declared with {capacity} entries: declare it larger, or configure fewer")
            }
            TableError::BadPrefix | TableError::NotFound | TableError::Busy => Ok(()),
        }
    }
}

impl std::error::Error for FillError {}

/// A port that cannot be opened as the configuration and the command line have it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortSetupError {
    /// Neither gives it a device.
    #[error(
        "port {name}: no device; write `device = \"DRIVER:DEVICE\"` in [ports.{name}], or give --port {name}=DRIVER:DEVICE"
    )]
    NoDevice {
        /// The port.
        name: String,
    },
    /// The command line names a port that the configuration does not have.
    #[error("--port {name}: the configuration has no port of this name; it has {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The command line names a port twice.
    #[error("--port {name}: given more than once")]
    Twice {
        /// The name given.
        name: String,
    },
}
