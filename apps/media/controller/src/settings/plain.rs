//! Sources without RTSP: who sends RTP, or an MPEG transport stream, to an address and a port.

use std::net::IpAddr;

use wire::sdp::Description;

/// A source without RTSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Where its streams are sent to, by their place in the description: a group, or an own address, and a port.
    pub places: Vec<(IpAddr, u16)>,
    /// The only sender that is listened to; none: any.
    pub source: Option<IpAddr>,
    /// The interface that groups are joined on; none: that of the kernel's route to them.
    pub interface: Option<String>,
    /// Whether it may be an MPEG transport stream without RTP.
    pub bare: bool,
    /// What its streams are.
    pub description: Description,
}

/// The description of an MPEG transport stream (RFC 3551, payload type 33).
pub const MP2T: &str = "v=0\r\ns=-\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\na=rtpmap:33 MP2T/90000\r\n";

/// Whether streams may be sent to an address: one of a host, or of a group that routers pass on.
pub fn is_place(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            !v4.is_unspecified() && !v4.is_loopback() && !v4.is_broadcast() && v4.octets()[..3] != [224, 0, 0]
        }
        // Groups of the host itself and of the link have the scopes 1 and 2 (RFC 4291 section 2.7).
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() && (v6.octets()[1] & 15) < 3),
    }
}

/// Address and port of `rtp://239.1.2.3:5004` or `udp://@[ff15::1]:1234`, and whether RTP may be left out.
pub fn place(url: &str) -> Option<((IpAddr, u16), bool)> {
    let (scheme, rest) = url.split_once("://")?;
    let bare = match scheme {
        "rtp" => false,
        "udp" => true,
        _ => return None,
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) = wire::rtsp::url::host_port(rest.strip_prefix('@').unwrap_or(rest))?;
    Some(((host.parse().ok()?, port?), bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let v4 = ("239.1.2.3".parse().unwrap(), 5004);
        assert_eq!(place("rtp://239.1.2.3:5004"), Some((v4, false)));
        assert_eq!(place("udp://@239.1.2.3:5004/"), Some((v4, true)));
        assert_eq!(place("udp://[ff15::1]:1"), Some((("ff15::1".parse().unwrap(), 1), true)));
        for wrong in ["rtsp://239.1.2.3:5004", "rtp://239.1.2.3", "rtp://h:5004", "rtp://a@239.1.2.3:1", "rtp://:5004"]
        {
            assert_eq!(place(wrong), None, "{wrong}");
        }
        for (address, may) in [
            ("10.0.0.1", true),
            ("239.0.0.1", true),
            ("224.0.0.1", false),
            ("224.0.1.1", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("ff02::1", false),
            ("ff15::1", true),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_place(address.parse().unwrap()), may, "{address}");
        }
        assert!(Description::parse(MP2T.as_bytes()).unwrap().is_rtp(0));
    }
}
