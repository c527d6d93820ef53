//! Whether a program has to take packets in several fragments, which costs it a test for each access.

use codegen::kernel::Options;

use super::spec::Driver;
use crate::sys;

/// The largest MTU with which every driver gives a program its packets in one fragment: some have room for 3072 bytes,
/// others for about 3500.
const ONE_FRAGMENT: usize = 3000;

/// How a program for XDP at ports with these drivers is compiled: for packets in several fragments where the MTU of an
/// interface is large, which only such programs may be at.
pub fn kernel_options<'a>(drivers: impl IntoIterator<Item = &'a Driver>) -> Options {
    let is_large = |driver: &Driver| {
        let (Driver::Xdp { interface } | Driver::Auto { interface }) = driver else { return false };
        // One that is not there is told about where it is opened.
        let device = sys::inet_socket().and_then(|socket| sys::interface(&socket, interface));
        device.is_ok_and(|device| device.mtu > ONE_FRAGMENT)
    };
    Options { frags: drivers.into_iter().any(is_large), ..Options::default() }
}
