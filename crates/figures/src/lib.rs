//! All that an instance and its controllers count, as monitoring systems read it: OpenMetrics, and Prometheus' older
//! text format, by HTTP.
//!
//! | module | what |
//! |---|---|
//! | [`registry`] | every figure of the instance: name, unit, labels, help, and where its value comes from |
//! | [`exposition`] | figures as text |
//! | [`exporter`] | where monitoring systems connect to, as the configuration has it |
//! | `answer` | what they are answered |
//!
//! A look at an instance reads what workers have counted, as `millrace counters` does, and asks controllers by their
//! query `metrics`. Nothing is kept between two looks but the last text, for a moment.
#![forbid(unsafe_code)]

mod answer;
pub mod exporter;
pub mod exposition;
pub mod registry;
