//! The HTTP API and the web page of a running instance.
//!
//! | module | what |
//! |---|---|
//! | [`site`] | answers requests: who may ask, then the API or a file of the page |
//! | [`access`] | the token, and from which pages browsers may ask |
//! | [`api`] | routes: each is a request of the control socket; described by an OpenAPI document |
//! | `answer` | results and refusals as HTTP has them |
//! | `live` | what there is to see each second: one look for all viewers |
//! | [`history`] | what was counted in the last hour |
//! | `page` | the files of the page |
//!
//! The API gives the objects of the control socket (docs/web.md). It changes something only for who has the token of a
//! file; without one it only reads.
#![forbid(unsafe_code)]

pub mod access;
mod answer;
pub mod api;
pub mod history;
mod live;
mod page;
pub mod site;

pub use site::{Settings, Web, bind, load, server};

/// The web page and the API of an instance.
pub type Server = endpoint::Endpoint<Web>;
