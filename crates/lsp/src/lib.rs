//! The language server for Baker: diagnostics, hover, go to definition, completion, formatting, semantic tokens and the
//! outline, by the Language Server Protocol 3.17 over standard input and output.
//!
//! Diagnostics come from the checker ([`baker::check`]). All else comes from the trees and [`model`], which hold for
//! half- typed programs too.
#![forbid(unsafe_code)]

mod builtin;
mod completion;
mod diagnostics;
mod documents;
mod hover;
mod layout;
mod model;
mod params;
mod position;
mod scope;
mod server;
mod symbols;
mod target;
mod tokens;

use std::fmt;

use lsp_server::{Connection, ProtocolError};

/// Why the server stopped: the editor broke the protocol, or takes no more answers.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Self {
        Error(error.to_string())
    }
}

/// Serves one editor on standard input and output until it ends the session.
pub fn serve() -> Result<(), Error> {
    let (connection, threads) = Connection::stdio();
    let initialized = initialize(&connection);
    let input_ended = initialized.as_ref().is_err_and(ProtocolError::channel_is_disconnected);
    if !input_ended {
        initialized?;
        server::Server::default().run(&connection)?;
    }
    // The threads end when their channels do.
    drop(connection);
    threads.join().map_err(|error| Error(format!("standard input: {error}")))
}

fn initialize(connection: &Connection) -> Result<(), ProtocolError> {
    let (id, _) = connection.initialize_start()?;
    let info = serde_json::json!({ "name": "millrace", "version": env!("CARGO_PKG_VERSION") });
    connection.initialize_finish(id, serde_json::json!({ "capabilities": server::capabilities(), "serverInfo": info }))
}
