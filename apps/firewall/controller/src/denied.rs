//! A denied packet as a line of the log.

use std::net::{IpAddr, Ipv6Addr};

use dataplane::controller::{Field, Link, NameError, Punted};

/// Names of the program's `reason_t`, in its order.
const REASONS: [&str; 20] = [
    "none",
    "bad_version",
    "bad_header_length",
    "bad_total_length",
    "bad_checksum",
    "bad_extension",
    "martian_source",
    "ip_options",
    "source_route",
    "tiny_fragment",
    "fragment_without_first",
    "bad_tcp_flags",
    "wrong_side",
    "no_flow",
    "out_of_state",
    "invalid_reset",
    "unrelated_error",
    "denied_by_rule",
    "denied_by_default",
    "flow_table_full",
];

/// Where the program leaves what is known of a denied packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denied {
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
        tracing::warn!(
            reason = reason(number(self.reason)),
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

fn reason(number: u128) -> &'static str {
    usize::try_from(number).ok().and_then(|index| REASONS.get(index)).copied().unwrap_or("unknown")
}

/// An address, in the notation of its version.
fn address(number: u128) -> IpAddr {
    Ipv6Addr::from(number).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_program() {
        let source = include_str!("../../firewall.baker");
        let (_, rest) = source.split_once("enum reason_t : u8 {").unwrap();
        let (names, _) = rest.split_once('}').unwrap();
        let of_program = |name: &str| match name.trim() {
            // The library's name of this reason.
            "BAD_SOURCE" => "martian_source".to_owned(),
            name => name.to_lowercase(),
        };
        let names: Vec<String> = names.split(',').map(of_program).collect();
        assert_eq!(names, REASONS);
        assert_eq!(address(0xffff_0a00_0001).to_string(), "10.0.0.1");
        assert_eq!(address(1).to_string(), "::1");
        assert_eq!((reason(17), reason(99)), ("denied_by_rule", "unknown"));
    }
}
