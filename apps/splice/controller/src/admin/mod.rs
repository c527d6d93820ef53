//! What operators see and do: the admin API, sessions, metrics.

pub mod metrics;
pub mod queries;
pub mod sessions;
