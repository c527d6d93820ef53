//! Arguments of several subcommands.

use std::time::Duration;

/// A length of time on the command line, in seconds: at most a year.
///
/// # Errors
/// What is accepted.
pub fn seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 365.0 * 86400.0;
    let seconds = text.parse().ok().filter(|seconds| (0.0..=YEAR).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("not a number of seconds from 0 to {YEAR}"))
}
