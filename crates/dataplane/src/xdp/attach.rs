//! A program at an interface, by a link: when its descriptor is closed, however the process ends, the program is gone.
//!
//! Of XDP programs an interface has one. Another owner's is not replaced unless that is asked for. A driver that does
//! not take the program gets the kernel's generic way of running it, which works on every interface, but only after the
//! kernel has made its own form of each packet.
//!
//! At traffic control's ingress an interface has a list of programs. Ours is put in front, and what it leaves to the
//! kernel goes on to those behind it.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use codegen::kernel::Hook;

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
    /// The kernel, at traffic control's ingress, in front of so many other programs.
    Ingress(usize),
    /// What the process before has attached it with, at this hook.
    Kept(Hook),
}

/// As in a line about the port.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Native => f.write_str("native XDP"),
            Mode::Ingress(0) => f.write_str("traffic control"),
            Mode::Ingress(others) => {
                let s = if *others == 1 { "" } else { "s" };
                write!(f, "traffic control, in front of {others} program{s} of other owners")
            }
            Mode::Kept(hook) => {
                let hook = if *hook == Hook::Tc { "traffic control" } else { "XDP" };
                write!(f, "{hook}, taken over from the process before while it ran")
            }
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
    /// The kernel does not take it at traffic control's ingress.
    #[error("takes no program at traffic control's ingress{why}: {0}", why = reason(.0))]
    Ingress(io::Error),
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

/// What lies behind an error of traffic control's ingress, where it does not say so itself.
fn reason(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EINVAL) => " (Linux 6.6 or later is needed)",
        Some(libc::ERANGE) => ", which has as many of other owners as there may be",
        _ => "",
    }
}

/// A program at an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    link: OwnedFd,
    mode: Mode,
    interface: i32,
}

impl Attached {
    /// Attaches a program for a hook.
    pub fn at(hook: Hook, program: &OwnedFd, interface: i32, netlink: &Netlink) -> Result<Self, AttachError> {
        match hook {
            Hook::Xdp => Self::new(program, interface, netlink),
            Hook::Tc => {
                let link = sys::link_create_first(program, interface).map_err(AttachError::Ingress)?;
                let others = sys::at_ingress(interface).map_or(0, |all| all.len().saturating_sub(1));
                Ok(Attached { link, mode: Mode::Ingress(others), interface })
            }
        }
    }

    /// Attaches an XDP program.
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
    pub fn kept(hook: Hook, link: OwnedFd, interface: i32) -> Self {
        Attached { link, mode: Mode::Kept(hook), interface }
    }

    /// Whether a link holds a program at the interface that has this index in this network namespace: that which the
    /// link was made for may be gone, and its index another one's, also elsewhere.
    pub fn is_at(hook: Hook, link: &OwnedFd, interface: i32, netlink: &Netlink) -> bool {
        let Ok(info) = sys::link_info(link) else { return false };
        let is_there = match hook {
            Hook::Xdp => netlink.link(interface).is_ok_and(|found| found.program == Some(info.program)),
            Hook::Tc => sys::at_ingress(interface).is_ok_and(|all| all.contains(&(info.program, info.id))),
        };
        info.is_at(hook) && info.interface == interface as u32 && is_there
    }

    /// Numbers of the programs at traffic control's ingress of an interface.
    pub fn all_at_ingress(interface: i32) -> Vec<u32> {
        // Where the kernel does not say, it says so when a program is attached.
        sys::at_ingress(interface).unwrap_or_default().into_iter().map(|(program, _)| program).collect()
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

    /// Whether it is still there: with the interface it goes, also where another one has its index then.
    pub fn is_there(&self) -> bool {
        sys::link_info(&self.link).is_ok_and(|info| info.interface == self.interface())
    }

    /// Puts another program in its place, between two packets.
    pub fn replace(&self, program: &OwnedFd) -> io::Result<()> {
        sys::link_update(&self.link, program)
    }

    /// Takes the program with a number off an interface.
    pub fn clear(hook: Hook, program: u32, interface: i32, netlink: &Netlink) -> io::Result<()> {
        // At traffic control what no link holds is somebody else's in any case.
        if sys::links_detach(hook, program, interface)? || hook == Hook::Tc {
            return Ok(());
        }
        // To take off what is not there is no error.
        let native = netlink.detach(interface, NATIVE);
        netlink.detach(interface, GENERIC).or(native)
    }

    /// Takes another owner's XDP program off an interface, if there is one.
    pub fn clear_xdp(interface: i32, netlink: &Netlink) -> io::Result<()> {
        let program = netlink.link(interface)?.program;
        program.map_or(Ok(()), |program| Self::clear(Hook::Xdp, program, interface, netlink))
    }

    /// What runs it.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }
}
