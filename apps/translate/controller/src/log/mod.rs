//! The access log.

pub mod access_log;
