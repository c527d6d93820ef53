//! What operators ask, and what is counted.

pub mod metrics;
pub mod queries;
