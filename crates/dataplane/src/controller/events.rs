//! A link as an event source of a tokio runtime.

use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Event, Link, LinkFd};

/// The descriptor of a link in the runtime that it was made in. A controller runs one current-thread runtime, and a
/// loop over [`Events::next`] in it; all else are tasks of the runtime.
///
/// A loop that always finds an event never waits, and then tasks have no turn: it calls `tokio::task::yield_now` after
/// so many packets.
#[derive(Debug)]
pub struct Events(AsyncFd<LinkFd>);

impl Events {
    /// Of a link; in the context of a runtime with I/O.
    ///
    /// # Errors
    /// The runtime cannot register one more descriptor.
    pub fn new(link: &Link) -> io::Result<Events> {
        // SAFETY: the descriptor is that of an object that `LinkFd` keeps open and never replaces, and `AsyncFd` has it
        // as long as it is registered.
        Ok(Events(unsafe { AsyncFd::register_with_interest(link.fd(), Interest::READABLE)? }))
    }

    /// The next event of the link that this was made of. The future may be dropped at any time: no event is lost by
    /// that.
    ///
    /// # Errors
    /// The runtime is ending.
    pub async fn next(&self, link: &mut Link) -> io::Result<Event> {
        loop {
            if let Some(event) = link.poll() {
                return Ok(event);
            }
            if link.arm() {
                self.0.readable().await?.clear_ready();
                link.disarm();
            }
        }
    }
}
