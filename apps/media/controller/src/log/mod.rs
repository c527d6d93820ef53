//! The access log: RTSP sessions, and requests by HTTP.

pub mod access_log;
pub mod flow;
pub mod http_line;
