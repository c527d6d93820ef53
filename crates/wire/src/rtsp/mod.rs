//! RTSP 1.0 (RFC 2326) as proxies need it: what peers say is read leniently where its meaning is clear, and kept byte
//! by byte where it is passed on.
//!
//! | module | what |
//! |---|---|
//! | [`message`] | requests and responses |
//! | [`framing`] | messages and interleaved data out of a connection's bytes, with limits |
//! | [`url`] | URLs, whose text is not changed |
//! | [`transport`] | the `Transport` header |
//! | [`session`] | the `Session` header |
//! | [`rtp_info`] | the `RTP-Info` header |
//! | [`range`] | the `Range` header |
//! | [`auth`] | who a client is: Basic and Digest, as servers check them |
//! | [`tunnel`] | RTSP over HTTP |

pub mod auth;
pub mod framing;
pub mod message;
pub mod range;
pub mod rtp_info;
pub mod session;
pub mod transport;
pub mod tunnel;
pub mod url;
