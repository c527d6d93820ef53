//! Commands that show something again and again.

use std::io;
use std::time::Duration;

use serde::Serialize;
use terminal_size::{Height, Width, terminal_size_of};

use crate::failure::Failure;
use crate::output::print;
use crate::remote::print_json;
use crate::say;

/// Puts the cursor to where the screen begins.
const HOME: &str = "\u{1b}[H";
/// Clears what is left of a line, and of the screen.
const REST_OF_LINE: &str = "\u{1b}[K";
const REST_OF_SCREEN: &str = "\u{1b}[J";

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
    /// Whether it is shown again and again.
    pub fn is_on(&self) -> bool {
        self.watch
    }

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

    /// Shows something as JSON or as text.
    ///
    /// # Errors
    /// See [`Watch::json`].
    pub fn show<T: Serialize>(&self, json: bool, what: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        if json {
            return self.json(what);
        }
        self.text(&text(what));
        Ok(())
    }

    /// Shows lines of text: again and again on a terminal in the place of those before, else behind them.
    pub fn text(&self, text: &str) {
        match self.watch.then(|| terminal_size_of(io::stdout())).flatten() {
            Some((Width(width), Height(height))) => {
                print(format_args!("{}", screen(text, usize::from(width), usize::from(height))));
            }
            None => print(format_args!("{text}")),
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

/// Text over all of a screen, as much of it as finds room. It is written over what stands there, which a screen that is
/// cleared first would show as flicker.
fn screen(text: &str, width: usize, height: usize) -> String {
    let rows = |line: &str| line.chars().count().div_ceil(width.max(1)).max(1);
    let lines: Vec<&str> = text.lines().collect();
    let all: usize = lines.iter().map(|line| rows(line)).sum();
    // The cursor is in a row of its own, and so is what is said of lines without room.
    let room = if all < height { height } else { height.saturating_sub(2) };
    let mut used = 0;
    let fits = |line: &&&str| {
        used += rows(line);
        used <= room
    };
    let shown: Vec<&str> = lines.iter().take_while(fits).copied().collect();
    let mut out = String::from(HOME);
    let missing = lines.len() - shown.len();
    let more = (missing > 0).then(|| format!("… {missing} lines more"));
    for line in shown.into_iter().chain(more.as_deref()) {
        out.extend([line, REST_OF_LINE, "\n"]);
    }
    out + REST_OF_SCREEN
}

#[cfg(test)]
mod tests {
    use super::screen;

    /// What stands on a screen.
    fn rows(text: &str, width: usize, height: usize) -> Vec<String> {
        let out = screen(text, width, height);
        let inner = out.strip_prefix("\u{1b}[H").and_then(|out| out.strip_suffix("\u{1b}[J")).unwrap();
        inner.lines().map(|line| line.strip_suffix("\u{1b}[K").unwrap().to_owned()).collect()
    }

    #[test]
    fn as_much_as_finds_room() {
        assert_eq!(rows("a\nb\n", 80, 3), ["a", "b"]);
        assert_eq!(rows("a\nb\nc\n", 80, 3), ["a", "… 2 lines more"]);
        // A line that is wider than the screen takes two rows.
        assert_eq!(rows("abcd\nb\nc\n", 3, 4), ["abcd", "… 2 lines more"]);
        assert_eq!(rows("abcd\nb\nc\n", 3, 5), ["abcd", "b", "c"]);
        assert_eq!(rows("", 80, 24), [""; 0]);
        assert_eq!(rows("a\nb\n", 0, 0), ["… 2 lines more"]);
    }
}
