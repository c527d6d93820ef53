//! Programs of the system that are asked, bounded in time and in what they say.

use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes that are taken of what it says.
const MOST: u64 = 4 << 20;

/// Runs a program to its end: what it prints, or why there is nothing.
pub fn output(words: &[&str]) -> Result<String, String> {
    let [program, arguments @ ..] = words else { return Err("no program".into()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C.UTF-8");
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("there is no program `{program}`"),
        _ => format!("{program}: {error}"),
    })?;
    let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if start.elapsed() < LIMIT => thread::sleep(Duration::from_millis(2)),
            Ok(None) | Err(_) => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("`{}` was not done after {} s", words.join(" "), LIMIT.as_secs()));
            }
        }
    };
    // A program that it has started may have its output still.
    let text = |from: Receiver<String>| from.recv_timeout(LIMIT).unwrap_or_default();
    let (out, err) = (text(out), text(err));
    if status.success() {
        return Ok(out);
    }
    let why = err.lines().next().unwrap_or("it does not say why");
    Err(format!("`{}` failed: {why}", words.join(" ")))
}

fn read(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (to, text) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read until an error is of use, too.
        let _ = from.map(|from| from.take(MOST).read_to_end(&mut bytes));
        let _ = to.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_bounded() {
        assert_eq!(output(&["echo", "a b"]), Ok("a b\n".into()));
        assert_eq!(
            output(&["sh", "-c", "echo why >&2; exit 3"]),
            Err("`sh -c echo why >&2; exit 3` failed: why".into())
        );
        assert_eq!(output(&["no-such-program"]), Err("there is no program `no-such-program`".into()));
        let start = Instant::now();
        assert!(output(&["sleep", "100"]).unwrap_err().contains("was not done after 5 s"));
        assert!(start.elapsed() < LIMIT * 2);
    }
}
