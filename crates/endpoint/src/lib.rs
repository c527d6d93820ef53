//! Where an instance answers by HTTP: as the configuration has it, and as a reload has it from then on.
//!
//! | module | what |
//! |---|---|
//! | [`site`] | what is answered: implemented by those who have something to tell |
//! | [`listener`] | the address, taken, changed and given back while packets are processed |
//! | `connections` | connections, bounded in number and in time |
//! | [`hosts`] | by which names this machine may be called |
//! | [`tls`] | certificate and key |
//!
//! Each endpoint has a thread of its own, which gives way to workers.
#![forbid(unsafe_code)]

mod connections;
pub mod hosts;
pub mod listener;
pub mod site;
pub mod tls;

pub use hosts::Hosts;
pub use listener::{Bound, Endpoint, bind};
pub use site::{Lasts, Limits, Site};
pub use tls::Tls;
