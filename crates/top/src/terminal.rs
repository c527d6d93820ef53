//! The terminal: taken, read, given back whatever happens.

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cli::failure::Failure;
use control::socket::{Client, ClientError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::asker::Asker;
use crate::columns::Theme;
use crate::draw::draw;
use crate::model::Model;

/// How long a key is waited for before it is looked what the instance has said, or whether a signal came.
const TURN: Duration = Duration::from_millis(100);

/// A terminal that was taken. It is given back when this is dropped; where anything panics before its message.
pub struct Screen(ManuallyDrop<DefaultTerminal>);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none.
    pub fn take() -> Result<Screen, Failure> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() || is_dumb {
            return Err(Failure::wrong(
                "error: top takes a terminal; for programs there are `millrace counters --json` and `millrace metrics \
                 --openmetrics`",
            ));
        }
        ratatui::try_init().map(|own| Screen(ManuallyDrop::new(own))).map_err(refused)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back. Its own drop would say so on standard error, which is gone, too,
        // and panic.
        let _ = self.0.show_cursor();
        let _ = ratatui::try_restore();
    }
}

fn refused(error: io::Error) -> Failure {
    Failure::refused(format!("the terminal: {error}"))
}

/// Shows an instance until somebody quits; `connect` is called whenever there is no connection.
///
/// # Errors
/// The terminal fails, or the system refuses a thread.
pub fn run(
    mut screen: Screen,
    connect: impl Fn() -> Result<Client, ClientError> + Send + 'static,
    every: Duration,
) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        signal_hook::flag::register(signal, stop.clone()).map_err(Failure::refused)?;
    }
    let mut model = Model::new(every);
    let mut wanted = model.wanted();
    let asker = Asker::start(connect, wanted.clone()).map_err(Failure::refused)?;
    let theme = Theme::of_environment();
    let mut is_changed = true;
    while !stop.load(Ordering::Relaxed) {
        for said in asker.said().map_err(Failure::refused)? {
            model.take(said);
            is_changed = true;
        }
        if is_changed {
            screen.0.draw(|frame| draw(frame, &mut model, theme)).map_err(refused)?;
        }
        is_changed = match next().map_err(refused)? {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                if !model.key(key) {
                    break;
                }
                true
            }
            other => matches!(other, Some(Event::Resize(..))),
        };
        if model.wanted() != wanted {
            wanted = model.wanted();
            asker.want(wanted.clone());
        }
    }
    Ok(())
}

/// What comes within a turn.
fn next() -> io::Result<Option<Event>> {
    // A terminal that is gone is readable for ever, and crossterm reads nothing of it for as long.
    let stdin = io::stdin();
    let mut wait = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    match poll(&mut wait, PollTimeout::try_from(TURN).unwrap_or(PollTimeout::MAX)) {
        // Such as that the window has changed.
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    if wait[0].revents().is_some_and(|found| found.intersects(gone)) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it is gone"));
    }
    if event::poll(Duration::ZERO)? { event::read().map(Some) } else { Ok(None) }
}
