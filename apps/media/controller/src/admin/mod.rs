//! What operators can ask.

pub mod metrics;
pub mod queries;
