//! Protocols on the wire, as several controllers need them: frames, segments, datagrams and messages, read and written.
//! It knows no controller and no program.
//!
//! | module | what |
//! |---|---|
//! | [`flow_key`] | the 4-tuple of one direction of a connection |
//! | [`seq`] | the order of sequence numbers (RFC 9293) |
//! | [`segment`] | TCP segments in Ethernet frames, read and written |
//! | [`assembly`] | what a sender has sent, in order |
//! | [`isn`] | initial sequence numbers (RFC 6528) |
//! | [`checksum`], [`crc32c`] | the Internet checksum (RFC 1071); that of SCTP |
//! | [`bytes`] | numbers at places of bytes |
//! | [`fragments`] | IP datagrams that come in fragments |
//! | [`icmp`] | ICMP errors about TCP segments |
//! | [`resolution`] | ARP and neighbour discovery: questions and answers |
//! | [`refused`] | messages that are not taken |
//! | [`http`] | HTTP/1.1 heads |
//! | [`host`] | their hosts |
//! | [`progress`] | heads that come in pieces |
//! | [`body`] | the ends of bodies |
//! | [`rtsp`] | RTSP 1.0: framing, messages, URLs and headers |
//! | [`sdp`] | session descriptions, read and rewritten |
//! | [`rtp`], [`rtcp`] | headers of RTP packets; reports of senders and receivers |
//! | [`picture`] | which RTP packets a decoder can begin with, and which it can do without |
//! | [`nonces`] | nonces of Digest (RFC 7616) |
//! | [`keyed_map`] | maps whose keys strangers choose |
#![forbid(unsafe_code)]

pub mod assembly;
pub mod body;
pub mod bytes;
pub mod checksum;
pub mod crc32c;
pub mod flow_key;
pub mod fragments;
pub mod head_progress;
pub mod host;
pub mod http;
pub mod icmp;
pub mod isn;
pub mod keyed_map;
pub mod nonces;
pub mod picture;
pub mod refused;
pub mod resolution;
pub mod rtcp;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
pub mod segment;
pub mod seq;
