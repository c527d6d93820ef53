//! Logs.

pub mod access_log;
pub mod flow;
