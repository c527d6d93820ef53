//! Logs.

pub mod access_log;
