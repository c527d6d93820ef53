//! Commands that show something again and again.

use std::time::Duration;

use serde::Serialize;

use crate::failure::Failure;
use crate::remote::print_json;
use crate::say;

/// Arguments of a command that shows what changes.
#[derive(clap::Args, Clone, Debug)]
pub struct Watch {
    /// Show it again every second, until interrupted
    #[arg(long)]
    watch: bool,
    /// With --watch: so many times
    #[arg(long, value_name = "N", requires = "watch")]
    count: Option<u64>,
}

impl Watch {
    /// Shows something once, or as often as the arguments say.
    ///
    /// # Errors
    /// The first of `show`.
    pub fn run(&self, mut show: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        let mut left = self.count.unwrap_or(if self.watch { u64::MAX } else { 1 });
        loop {
            show()?;
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Shows JSON: where it comes again and again, each time on one line.
    ///
    /// # Errors
    /// What can't be JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        match self.watch {
            true => say!("{}", serde_json::to_string(value).map_err(Failure::refused)?),
            false => print_json(value),
        }
        Ok(())
    }
}
