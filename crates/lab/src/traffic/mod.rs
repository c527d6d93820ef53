//! Packets at full rate: a generator that numbers and stamps what it sends, and a sink that says what became of it.
//!
//! ```no_run
//! # fn main() -> lab::Result<()> {
//! # use std::time::Duration;
//! # let (a, b) = (lab::Namespace::new("a")?, lab::Namespace::new("b")?);
//! let flow = lab::Flow {
//!     mac: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]),
//!     address: ([10, 0, 0, 1].into(), [10, 0, 0, 2].into()),
//!     transport: lab::Transport::Udp { ports: (1024, 9) },
//! };
//! let sink = lab::Sink::start(&b, "eth0", None)?;
//! let traffic = lab::Traffic::flows(&[flow], &[60])?.rate(100_000).count(1_000_000);
//! let sent = lab::Generator::start(&a, "eth0", traffic)?.wait(Duration::from_secs(20))?;
//! let received = sink.stop_after(sent.packets, Duration::from_secs(1))?;
//! assert_eq!(received.lost(&sent), 0);
//! # Ok(()) }
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `flow` | the frames of a flow |
//! | `probe` | number and time inside a frame |
//! | `generator` | sends them at a rate |
//! | `sink` | receives and counts them |
//! | `window` | which numbers of a flow have come: lost, twice, overtaken |

mod flow;
mod generator;
mod probe;
mod sink;
mod window;

pub use flow::{Flow, Transport};
pub use generator::{Generator, Sent, Traffic};
pub use probe::PROBE;
pub use sink::{Received, Sink};
