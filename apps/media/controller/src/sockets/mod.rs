//! Connections and datagrams: what the state machine's effects do, and where its events come from. All tasks are on one
//! thread, and share the proxy by a lock that nobody ever waits for.
//!
//! | file | what |
//! |---|---|
//! | `outbox` | what waits to be written on a connection |
//! | `thinning` | what is left out where too much waits |
//! | `connection` | reads a connection, writes what waits |
//! | `inbound` | what clients send: RTSP, or a half of a tunnel |
//! | `listener` | accepts clients |
//! | `origin` | connects to origins |
//! | `recording` | plays recordings, as an origin does |
//! | `data_path` | the program that streams pass |
//! | `group_input` | packets that the controller has, for all receivers of a track at once |
//! | `datagrams` | own UDP ports: bound as long as they are a stream's |
//! | `live` | the proxy's world: ports, counts, random numbers |
//! | `shared` | the proxy, and its effects carried out |

mod connection;
pub mod data_path;
mod datagrams;
mod group_input;
mod inbound;
pub mod listener;
mod live;
mod origin;
pub mod outbox;
mod recording;
pub mod shared;
mod thinning;
