//! A denied packet as a line of the log.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use baker::ir::{DropId, Program};
use dataplane::controller::{Field, Link, NameError, Punted};

/// Where the program leaves what is known of a denied packet.
#[derive(Clone, Debug)]
pub(super) struct Denied {
    program: Arc<Program>,
    port: Field,
    reason: Field,
    rule: Field,
    src: Field,
    dst: Field,
    protocol: Field,
    src_port: Field,
    dst_port: Field,
}

impl Denied {
    pub fn new(link: &Link) -> Result<Denied, NameError> {
        Ok(Denied {
            program: link.program().clone(),
            port: link.field("rx.port")?,
            reason: link.field("reason")?,
            rule: link.field("rule")?,
            src: link.field("src")?,
            dst: link.field("dst")?,
            protocol: link.field("protocol")?,
            src_port: link.field("src_port")?,
            dst_port: link.field("dst_port")?,
        })
    }

    /// Logs a packet.
    pub fn log(&self, packet: &Punted) {
        let number = |field| packet.metadata(field);
        let reason = self.program.reason_of(number(self.reason)).unwrap_or(DropId::NO_REASON);
        tracing::warn!(
            reason = self.program.drop_reasons[reason.0 as usize].name,
            rule = number(self.rule),
            port = number(self.port),
            src = %address(number(self.src)),
            dst = %address(number(self.dst)),
            protocol = number(self.protocol),
            src_port = number(self.src_port),
            dst_port = number(self.dst_port),
            "denied"
        );
    }
}

/// An address, in the notation of its version.
fn address(number: u128) -> IpAddr {
    Ipv6Addr::from(number).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_notation_of_their_version() {
        assert_eq!(address(0xffff_0a00_0001).to_string(), "10.0.0.1");
        assert_eq!(address(1).to_string(), "::1");
    }
}
