//! Whether packets can pass an interface.

use std::os::fd::OwnedFd;

use crate::sys::{self, Interface};

/// An interface that is up; or why packets can't pass, which is its port's trouble.
pub fn interface_up(ask: &OwnedFd, name: &str) -> Result<Interface, String> {
    match sys::interface(ask, name) {
        Ok(now) if now.up => Ok(now),
        Ok(_) => Err(format!("{name}: went down: run `ip link set dev {name} up`")),
        Err(_) => Err(format!("{name}: was removed")),
    }
}
