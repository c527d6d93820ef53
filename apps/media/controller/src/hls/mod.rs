//! Recordings by HTTP: HLS (RFC 8216) of segments of what was recorded. It has a thread of its own, and asks the proxy
//! who may view what.
//!
//! | file | what |
//! |---|---|
//! | `place` | what a URL means |
//! | `ranges` | byte ranges (RFC 9110 section 14) |
//! | `line` | the segments of a stream, in the order and with the numbers that playlists give them |
//! | `playlist` | a part of that as text |
//! | `cut` | where segments are cut for players |
//! | `blocks` | pieces of segments in memory, shared by all who read them |
//! | `body` | what is sent, and what is known of it when it is over |
//! | `counts` | what was counted |
//! | `ask` | what is asked of the proxy |
//! | `patience` | connections that give up on clients that take nothing |
//! | `playlists`, `segments` | what is answered to requests for them |
//! | `respond` | the answer to a request |
//! | `server` | connections |

mod ask;
mod blocks;
mod body;
pub mod counts;
mod cut;
mod line;
mod patience;
mod place;
mod playlist;
mod playlists;
mod ranges;
mod respond;
mod segments;
pub mod server;
