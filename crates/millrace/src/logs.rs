//! Logs on standard error: text for people or JSON for programs, as much as `MILLRACE_LOG` asks for.

use std::io;

use cli::failure::Failure;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The environment variable that says what is logged, such as `info` or `control=debug`.
const VARIABLE: &str = "MILLRACE_LOG";

/// How a line of the log looks.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Starts to log. Without the variable only warnings and errors are.
pub fn start(format: Format) -> Result<(), Failure> {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).parse(&wanted);
    let filter = filter.map_err(|error| {
        Failure::wrong(format!(
            "error: {VARIABLE}={wanted}: {error}; accepted: error, warn, info, debug, trace, or TARGET=LEVEL,…"
        ))
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        Format::Text => lines.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).with_target(false).init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
