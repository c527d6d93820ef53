//! Standard output. Its reader may stop early, as `head` does: that is no error and ends nothing.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::Mutex;

use crate::failure::Failure;

/// The first error that was not a reader's end.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints; an error is kept for [`finish`].
pub fn print(text: Arguments) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else { return };
    if error.kind() != ErrorKind::BrokenPipe {
        FAILED.lock().expect("no panic under this lock").get_or_insert(error);
    }
}

/// Prints a line as `println!` does, but does not panic where it can't.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Whether everything could be printed, such as to a file on a full disk.
pub fn finish() -> Result<(), Failure> {
    match FAILED.lock().expect("no panic under this lock").take() {
        Some(error) => Err(Failure::refused(format!("standard output: {error}"))),
        None => Ok(()),
    }
}
