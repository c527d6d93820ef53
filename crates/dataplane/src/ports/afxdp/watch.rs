//! What changes at an interface beside its packets is looked up aside of the workers: for these questions the kernel takes a lock of all
//! interfaces (`rtnl_lock`), which others hold for tens of milliseconds, such as a program that takes another one's place.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::port::Port;
use crate::xdp::Netlink;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// A thread that looks at a port's interface for as long as this is there.
#[derive(Debug)]
pub struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Looks from the caller's network namespace.
    pub fn start(port: Arc<Port>) -> io::Result<Watch> {
        let netlink = Netlink::new()?;
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new().name("watch".into()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(PAUSE) {
                port.watch(&netlink);
            }
        })?;
        Ok(Watch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}
