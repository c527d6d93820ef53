//! What operators can ask.

pub mod cache;
pub mod metrics;
pub mod queries;
