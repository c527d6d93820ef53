//! Test networks in Linux network namespaces, for end-to-end tests, `millrace demo` and benches.
//!
//! A [`Namespace`] is held by a thread and a file descriptor of this process and has no entry under `/run/netns`.
//! So it works the same as root and inside an unprivileged user namespace, and nothing has to be swept up: when
//! the process ends in whatever way, even by SIGKILL, the kernel frees its namespaces and the links in them, and
//! kills the programs started there (`PR_SET_PDEATHSIG`).
//!
//! ```no_run
//! # fn main() -> lab::Result<()> {
//! let (a, b) = (lab::Namespace::new("a")?, lab::Namespace::new("b")?);
//! lab::veth(&a, "eth0", &b, "eth0")?;
//! a.configure("eth0", &lab::LinkConfig::host().address("10.0.0.1/24"))?;
//! b.configure("eth0", &lab::LinkConfig::host().address("10.0.0.2/24"))?;
//! assert!(a.ping("10.0.0.2", std::time::Duration::from_secs(5))?);
//! # Ok(()) }
//! ```
//!
//! Every program runs with a time limit and without input, unless it is given some. `ip`, `ethtool` and `ping`
//! (Debian: iproute2, ethtool, iputils-ping) must be installed.

#![deny(unsafe_code)]

mod capture;
mod clock;
mod command;
mod emulator;
mod error;
mod host;
mod link;
mod namespace;
mod raw;
mod ring;
mod sweep;
mod sys;
mod topology;
mod traffic;
mod user;
mod web;

pub use capture::{Capture, Captured, Tap};
pub use command::{Command, Output, Running};
pub use emulator::{
    Direction, Distribution, Emulator, Impairments, Jitter, LinkCounters, Loss, MAX_DELAY, MAX_GAP, MAX_LINKS,
    MAX_RATE, MIN_RATE, QueueLimit, Reorder, Wire,
};
pub use error::{Error, Result};
pub use host::{Host, HostConfig};
pub use link::{Device, LinkConfig, Mac, mac_text, veth};
pub use namespace::Namespace;
pub use raw::RawPort;
pub use sweep::sweep;
pub use topology::{L3Options, L3Switch};
pub use traffic::{Flow, Generator, PROBE, Received, Sent, Sink, Traffic, Transport};
pub use user::{enter_namespace_of, enter_user_namespace, has_privileges};
pub use web::WebServer;

/// The signals that [`Running::signal`] takes.
pub use nix::sys::signal::Signal;
