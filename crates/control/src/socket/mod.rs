//! A running instance answers on a UNIX socket: tables, counters, ports, stop.
//!
//! The protocol is one JSON object per line in each direction (docs/operations.md). Access is decided by the
//! permissions of the socket's file and by nothing else. Clients can't disturb forwarding: what they send, how many
//! they are and how long they take is bounded, and requests are answered by threads of the control plane, which read
//! counters and tables without a lock that a worker waits for.
//!
//! | file | idea |
//! |---|---|
//! | `protocol` | requests and replies |
//! | `directory` | where the socket of an instance lies, by its name |
//! | `claim` | one instance per socket: taken over from the dead, refused while the owner lives |
//! | `line` | lines and replies, bounded in length and time |
//! | `reply` | a reply as a line |
//! | `server` | connections, bounded in number |
//! | `service` | answers requests from the running instance |
//! | `overview` | what there is to see of it |
//! | `shown` | its program and tables, for queries |
//! | `running` | what it runs now, and how something else takes its place |
//! | `tracer` | traces packets |
//! | `ways` | where packets go that are sampled for collectors |
//! | `costs` | what accesses to packets cost |
//! | `times` | how many intervals were how long |
//! | `timing` | measures how long packets are in PPFs |
//! | `graph` | how its program is wired |
//! | `client` | asks |

mod claim;
mod client;
mod costs;
mod directory;
mod graph;
mod line;
mod overview;
mod protocol;
mod reply;
mod running;
mod server;
mod service;
mod shown;
mod times;
mod timing;
mod tracer;
mod ways;

pub use claim::{Claim, ClaimError};
pub use client::{Client, ClientError};
pub use costs::{PacketCost, PacketCosts, PpfCosts};
pub use directory::{SocketDirectory, SocketNameError};
pub use graph::{Edge, Graph, Node, NodeKind};
pub use overview::{About, Overview, Seen};
pub use protocol::{
    Code, CodeState, ControllerState, Counters, Entry, Found, IpfixState, KernelState, MAX_FOUND, PortState, Refusal,
    Reloaded, Reply, Request, SentState, SflowState, Status, TableInfo, TimerState, USUALLY_FOUND, WorkerState,
};
pub use running::{Reload, Time};
pub use server::{MAX_REQUEST, Server};
pub use service::{Caller, Service};
pub use shown::Shown;
pub use times::{TimeBucket, Times};
pub use timing::{LookUps, MAX_TIMING, PpfTiming, Timing};
pub use tracer::{MAX_TRACES, Trace, Traces};
