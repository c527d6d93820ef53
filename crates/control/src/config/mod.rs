//! Configuration: one TOML file per instance, read against the program that it is for.
//!
//! ```toml
//! [frames]                             # optional
//! count = 8192
//! size = 2048                          # bytes
//! access = "in-place"                  # how workers get at packets: or "copy", "header-copy"
//! controllers = { splice = 2048 }      # frames that controllers may have; otherwise a fourth of all, evenly
//! [workers]                            # optional
//! count = 2
//! mode = "interrupt"                   # or "busy"
//! cpus = [0, 1]                        # pin each worker to one of these
//! ppfs = ["l2_bridge.spread", "arp"]   # keep these PPFs, or all of these modules, out of the kernel
//! [control]                            # optional
//! instance = "edge"                    # its name; otherwise that of the program
//! socket = "/run/edge.sock"            # otherwise where the name says
//! group = "netops"                     # whose members may use the socket too
//! [metrics]                            # optional: for monitoring systems
//! listen = "127.0.0.1:9464"            # or a port alone, on loopback
//! hosts = ["edge.example.net"]         # optional: names that they may call this machine
//! [web]                                # optional: the web page and the HTTP API
//! listen = "127.0.0.1:9480"            # or a port alone, on loopback
//! hosts = ["edge.example.net"]         # optional: as of [metrics]
//! token_file = "/etc/millrace/token"   # optional: who has what is in it may change something
//! readers = "token"                    # optional: or "all"; otherwise on loopback all, elsewhere those with the token
//! certificate = "/etc/millrace/c.pem"  # optional, with `key`: TLS
//! key = "/etc/millrace/k.pem"
//! [sflow]                              # optional: samples and counters by sFlow version 5
//! collectors = ["192.0.2.1:6343"]      # 8 at most; without a port it is 6343
//! agent = "192.0.2.9"                  # optional: otherwise the address by which the first collector is reached
//! one_in = 1000                        # optional: one packet of so many is sampled, at random
//! header = 128                         # optional: bytes of a sampled packet that are sent, 14 to 256
//! poll = "20s"                         # optional: between two looks at ports' counters; "0s": they are not sent
//! [ipfix]                              # optional: flows that are over, as applications know them
//! collectors = ["192.0.2.1:4739"]      # 8 at most; without a port it is 4739
//! domain = 1                           # optional: tells this instance from others of the same machine
//! templates = "60s"                    # optional: between two messages that say what records look like
//! active = "60s"                       # optional: after which time a flow that goes on is told of
//! [ports.p1]
//! number = 1                           # what rx.port and tx.port say; 1 to 255
//! device = "afpacket:eth0"             # or --port p1=afpacket:eth0 on the command line
//! host = "host1"                       # the port that takes this port's packets for the host
//! own = "program"                      # optional: receiver of packets for its interface's own addresses, or "kernel"
//! access = "in-place"                  # optional: otherwise that of [frames]
//! mtu = 1500                           # optional: otherwise that of its interface, or 1500
//! [controllers.NAME]                   # optional: settings of a controller
//! [tables.MODULE.TABLE]                # array: INDEX = value; hash: "KEY" = value; lpm: "10.0.1.0/24" = value
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `file` | the whole file: [`Config`] |
//! | `ports` | `[ports]`, `[frames]`, `[workers]`, `[control]` |
//! | `listen` | what `[metrics]` and `[web]` have in common |
//! | `metrics` | `[metrics]` |
//! | `web` | `[web]` |
//! | `collectors` | what `[sflow]` and `[ipfix]` have in common |
//! | `sflow` | `[sflow]` |
//! | `ipfix` | `[ipfix]` |
//! | `changes` | what is different in the tables of two configurations |
//! | `error` | what is wrong with the ports of the file and the command line together |
//!
//! `[tables]` is read by [`crate::entries`], `[controllers]` by the [applications](crate::applications).

mod changes;
mod collectors;
mod error;
mod file;
mod ipfix;
mod listen;
mod metrics;
pub(crate) mod ports;
mod sflow;
mod web;

pub use self::changes::{Changes, changes};
pub use self::error::PortSetupError;
pub use self::file::Config;
pub use self::metrics::Metrics;
pub use self::ports::{Control, Port, Workers};
pub use self::web::{Readers, Web, WebAddress};
