//! Recorded streams: what of the proxy writes them, and what plays them again.
//!
//! | file | what |
//! |---|---|
//! | `start` | which recording a URL means |
//! | `film` | what can be played: packets of tracks in the order in which they came |
//! | `server` | an RTSP server for one film and one client, as far as a proxy needs it |
//! | `recorded` | recordings of a stream as a film |
//! | `recordings` | what is recorded now |

pub mod film;
pub mod recorded;
pub mod recordings;
pub mod server;
pub mod start;
