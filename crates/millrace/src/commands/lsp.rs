//! `millrace lsp`: the language server, on standard input and output.

use cli::failure::Failure;

/// How to serve.
#[derive(clap::Args)]
pub struct Args {
    /// Serve on standard input and output: there is no other way, but editors say so
    #[arg(long)]
    stdio: bool,
}

/// Runs the command.
pub fn run(_args: &Args) -> Result<(), Failure> {
    lsp::serve().map_err(|error| Failure::wrong(format!("error: {error}")))
}
