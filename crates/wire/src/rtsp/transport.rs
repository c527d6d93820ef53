//! The `Transport` header (RFC 2326 section 12.39).

use std::fmt;

/// What carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// UDP, also where nothing is said.
    Udp,
    /// The connection of the commands, interleaved.
    Tcp,
}

/// One transport that is offered or taken. What it does not know is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The protocol and profile, such as `RTP/AVP`, without what carries it.
    pub profile: String,
    /// What carries the packets.
    pub lower: Lower,
    /// Whether they go to a group. Where neither `unicast` nor `multicast` is said this is false: clients that leave it
    /// out mean unicast.
    pub multicast: bool,
    /// Where the client wants them.
    pub destination: Option<String>,
    /// Where they come from, if not from who was asked.
    pub source: Option<String>,
    /// The client's ports for RTP and RTCP.
    pub client_port: Option<(u16, u16)>,
    /// The server's ports.
    pub server_port: Option<(u16, u16)>,
    /// The ports of a group.
    pub port: Option<(u16, u16)>,
    /// The channels of interleaved packets.
    pub interleaved: Option<(u8, u8)>,
    /// The synchronisation source.
    pub ssrc: Option<u32>,
    /// What it is for, in capital letters, such as `PLAY`.
    pub mode: Option<String>,
}

impl Transport {
    /// RTP over UDP to one receiver.
    pub fn udp(client_port: (u16, u16)) -> Transport {
        Transport { client_port: Some(client_port), ..Transport::of(Lower::Udp) }
    }

    /// RTP on channels of the connection.
    pub fn tcp(interleaved: (u8, u8)) -> Transport {
        Transport { interleaved: Some(interleaved), ..Transport::of(Lower::Tcp) }
    }

    /// RTP over UDP to a group, of the server's choice.
    pub fn multicast() -> Transport {
        Transport { multicast: true, ..Transport::of(Lower::Udp) }
    }

    fn of(lower: Lower) -> Transport {
        Transport {
            profile: "RTP/AVP".to_owned(),
            lower,
            multicast: false,
            destination: None,
            source: None,
            client_port: None,
            server_port: None,
            port: None,
            interleaved: None,
            ssrc: None,
            mode: None,
        }
    }
}

/// The transports of a header, in order. Those that can't be read are left out, as those that are not known: the reader
/// chooses among the others.
pub fn parse(header: &str) -> Vec<Transport> {
    split(header, ',').into_iter().filter_map(one).collect()
}

/// Splits where a character stands outside of quotes.
fn split(text: &str, by: char) -> Vec<&str> {
    let mut quoted = false;
    text.split(move |own: char| {
        quoted ^= own == '"';
        own == by && !quoted
    })
    .map(str::trim)
    .collect()
}

fn one(text: &str) -> Option<Transport> {
    let mut parts = split(text, ';').into_iter();
    let specification = parts.next()?;
    let mut words = specification.split('/');
    let (protocol, profile) = (words.next()?, words.next()?);
    let lower = match words.next() {
        None => Lower::Udp,
        Some(lower) if lower.eq_ignore_ascii_case("udp") => Lower::Udp,
        Some(lower) if lower.eq_ignore_ascii_case("tcp") => Lower::Tcp,
        Some(_) => return None,
    };
    if !protocol.eq_ignore_ascii_case("rtp") || words.next().is_some() {
        return None;
    }
    let profile = format!("RTP/{}", profile.to_ascii_uppercase());
    let mut found = Transport { profile, ..Transport::of(lower) };
    for part in parts {
        let (name, value) = part.split_once('=').map_or((part, ""), |(name, value)| (name.trim(), value.trim()));
        let value = value.trim_matches('"');
        match name.to_ascii_lowercase().as_str() {
            "multicast" => found.multicast = true,
            "destination" => found.destination = Some(value.to_owned()),
            "source" => found.source = Some(value.to_owned()),
            "client_port" => found.client_port = Some(ports(value)?),
            "server_port" => found.server_port = Some(ports(value)?),
            "port" => found.port = Some(ports(value)?),
            "interleaved" => {
                let (first, second) = ports(value)?;
                found.interleaved = Some((first.try_into().ok()?, second.try_into().ok()?));
            }
            // Eight hexadecimal digits; some pad them with blanks, some write fewer.
            "ssrc" => found.ssrc = u32::from_str_radix(value.trim_start_matches("0x"), 16).ok(),
            "mode" => found.mode = Some(value.to_ascii_uppercase()),
            _ => {}
        }
    }
    Some(found)
}

/// `first-second`, or a first one alone, behind which the second follows.
fn ports(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| text.trim().parse().ok();
    match text.split_once('-') {
        Some((first, second)) => Some((number(first)?, number(second)?)),
        None => number(text).and_then(|first: u16| Some((first, first.checked_add(1)?))),
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.profile)?;
        if self.lower == Lower::Tcp {
            f.write_str("/TCP")?;
        }
        f.write_str(if self.multicast { ";multicast" } else { ";unicast" })?;
        for (name, text) in [("destination", &self.destination), ("source", &self.source)] {
            if let Some(text) = text {
                write!(f, ";{name}={text}")?;
            }
        }
        for (name, ports) in [("client_port", self.client_port), ("server_port", self.server_port), ("port", self.port)]
        {
            if let Some((first, second)) = ports {
                write!(f, ";{name}={first}-{second}")?;
            }
        }
        if let Some((first, second)) = self.interleaved {
            write!(f, ";interleaved={first}-{second}")?;
        }
        if let Some(ssrc) = self.ssrc {
            write!(f, ";ssrc={ssrc:08X}")?;
        }
        if let Some(mode) = &self.mode {
            write!(f, ";mode=\"{mode}\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn transports_of_real_peers_are_read() {
        let all =
            parse("RTP/AVP;unicast;client_port=4588-4589;mode=\"PLAY\",RTP/AVP/TCP;unicast;interleaved=0-1, raw/raw");
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], Transport { mode: Some("PLAY".into()), ..Transport::udp((4588, 4589)) });
        assert_eq!(all[1], Transport::tcp((0, 1)));
        let one = &parse(
            "RTP/AVP/UDP;unicast;source=10.0.0.1;client_port=7000;server_port=6970-6971;ssrc= 1f3;x-y=\"a;b,c\"",
        )[0];
        assert_eq!((one.client_port, one.server_port, one.ssrc), (Some((7000, 7001)), Some((6970, 6971)), Some(0x1f3)));
        assert_eq!(one.source.as_deref(), Some("10.0.0.1"));
        assert!(parse("RTP/AVP;multicast;destination=239.0.0.1;port=5000-5001;ttl=1")[0].multicast);
        for wrong in
            ["", "RTP", "RTP/AVP/SCTP", "RTP/AVP;client_port=x", "RTP/AVP/TCP;interleaved=256-257", "MP2T/UDP;unicast"]
        {
            assert_eq!(parse(wrong), [], "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            ports in prop::option::of((any::<u16>(), any::<u16>())), ssrc in prop::option::of(any::<u32>()),
            channels in prop::option::of((any::<u8>(), any::<u8>())), tcp in any::<bool>(), multicast in any::<bool>(),
        ) {
            let lower = if tcp { Lower::Tcp } else { Lower::Udp };
            let own = Transport {
                client_port: ports, ssrc, interleaved: channels, multicast, source: Some("::1".into()), ..Transport::of(lower)
            };
            prop_assert_eq!(parse(&own.to_string()), [own]);
        }

        #[test]
        fn any_text_is_read_or_left_out(text in "\\PC{0,60}", tail in "RTP/AVP(;[a-z_]{1,11}=[\"0-9,;-]{0,12}){0,4}") {
            for text in [text, tail] {
                for own in parse(&text) {
                    prop_assert_eq!(parse(&own.to_string()).len(), 1);
                }
            }
        }
    }
}
