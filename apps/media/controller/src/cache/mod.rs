//! Recorded streams: what of the proxy writes them, and what plays them again.
//!
//! | file | what |
//! |---|---|
//! | `start` | which recording a URL means |
//! | `film` | what can be played: packets of tracks in the order in which they came |
//! | `ahead` | what was read of one and is not played yet |
//! | `server` | an RTSP server for one film and one client, as far as a proxy needs it |
//! | `timeline` | which recordings of a stream were made at the same time, and in which order |
//! | `recorded`, `track` | these as a film |
//! | `copies` | what was recorded of origins' films |
//! | `seam` | where a copy ends, and its origin goes on |
//! | `numbers` | sequence numbers and timestamps that go on from one recording to the next |
//! | `recordings` | what is recorded now |

mod ahead;
pub mod copies;
pub mod film;
mod numbers;
pub mod recorded;
pub mod recordings;
pub mod seam;
pub mod server;
pub mod start;
pub mod timeline;
mod track;
