//! What is wrong with the ports of a configuration and the command line together.

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
