//! A program at an interface, by a link: when its descriptor is closed, however the process ends, the program is gone.
//!
//! Another owner's program is not replaced unless that is asked for. A driver that does not take the program gets the
//! kernel's generic way of running it, which works on every interface, but only after the kernel has made its own form
//! of each packet.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use super::netlink::Netlink;
use super::sys;

/// `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

/// What runs a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The driver.
    Native,
    /// The kernel, because the driver does not, for this reason.
    Generic(String),
    /// What the process before has attached it with.
    Kept,
}

/// As in a line about the port.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Native => f.write_str("native XDP"),
            Mode::Kept => f.write_str("XDP, taken over from the process before while it ran"),
            Mode::Generic(why) => {
                write!(f, "generic XDP, which is slower, because its driver refuses native XDP ({why})")
            }
        }
    }
}

/// Why a program is not at an interface.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// There is one.
    #[error(
        "has an XDP program{} of another owner, which Millrace does not replace: stop what attached it, or remove it \
         with `ip link set dev NAME xdp off`, or tell Millrace to (`--replace-xdp`)",
        .0.map_or(String::new(), |id| format!(" (id {id})"))
    )]
    Taken(Option<u32>),
    /// It is to outlast the process, and cannot.
    #[error("has a program that cannot be named in the BPF file system: {0}")]
    Name(io::Error),
    /// Neither the driver nor the kernel takes it.
    #[error("takes no XDP program, neither natively ({native}) nor generically ({generic})")]
    Refused {
        /// What the driver says.
        native: io::Error,
        /// What the kernel says.
        generic: io::Error,
    },
}

/// A program at an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
    mode: Mode,
    interface: i32,
}

impl Attached {
    /// Attaches a program.
    pub fn new(program: &OwnedFd, interface: i32, netlink: &Netlink) -> Result<Self, AttachError> {
        let attach = |flags| sys::link_create(program, interface, flags);
        let taken = |error: &io::Error| matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST));
        let owner = || AttachError::Taken(netlink.link(interface).ok().and_then(|link| link.program));
        let native = match attach(NATIVE) {
            Ok(link) => return Ok(Attached { link, mode: Mode::Native, interface }),
            Err(error) if taken(&error) => return Err(owner()),
            Err(error) => error,
        };
        match attach(GENERIC) {
            Ok(link) => Ok(Attached { link, mode: Mode::Generic(native.to_string()), interface }),
            Err(error) if taken(&error) => Err(owner()),
            Err(generic) => Err(AttachError::Refused { native, generic }),
        }
    }

    /// A link that another process has made.
    pub fn kept(link: OwnedFd, interface: i32) -> Self {
        Attached { link, mode: Mode::Kept, interface }
    }

    /// Index of the interface.
    pub fn interface(&self) -> u32 {
        self.interface as u32
    }

    /// The link.
    pub fn link(&self) -> &OwnedFd {
        &self.link
    }

    /// Fails where an interface has a program.
    pub fn check_free(interface: i32, netlink: &Netlink) -> Result<(), AttachError> {
        match netlink.link(interface).map(|link| link.program) {
            Ok(Some(id)) => Err(AttachError::Taken(Some(id))),
            // Where the kernel does not say, it says so when a program is attached.
            _ => Ok(()),
        }
    }

    /// Puts another program in its place, between two packets.
    pub fn replace(&self, program: &OwnedFd) -> io::Result<()> {
        sys::link_update(&self.link, program)
    }

    /// Takes another owner's program off an interface, if there is one.
    pub fn clear(interface: i32, netlink: &Netlink) -> io::Result<()> {
        let Some(program) = netlink.link(interface)?.program else { return Ok(()) };
        if sys::links_detach(program, interface)? {
            return Ok(());
        }
        // To take off what is not there is no error.
        let native = netlink.detach(interface, NATIVE);
        netlink.detach(interface, GENERIC).or(native)
    }

    /// What runs it.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }
}
