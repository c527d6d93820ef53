//! A connection of RTSP: in whatever pieces its bytes come, the same messages are read; and what is written of them is
//! read as the same. Header fields and descriptions of any content are read, left out or refused.

use wire::picture::{Coding, Reader};
use wire::rtsp::auth::Authorization;
use wire::rtsp::framing::{Framer, Item, interleaved};
use wire::rtsp::{range, rtp_info, session, transport, tunnel, url};
use wire::sdp::{Description, Written};

/// Pieces of connections.
pub const WORDS: &[&str] = &[
    "OPTIONS ",
    "GET /a HTTP/1.0\r\n",
    "POST /a HTTP/1.1\r\n",
    "x-sessioncookie: a\r\n",
    "T1BUSU9OUyA=",
    "DESCRIBE rtsp://h/a RTSP/1.0\r\n",
    "PLAY rtsp://user:p@[::1]:554/a?b=c/trackID=1 RTSP/1.0\r\n",
    "RTSP/1.0 200 OK\r\n",
    "RTSP/1.0 302\r\n",
    " RTSP/2.0\r\n",
    "CSeq: 1\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 99999999\r\n",
    "Session: a$b;timeout=30\r\n",
    "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=1F,RTP/AVP;client_port=1-2\r\n",
    "Authorization: Basic dTpw\r\n",
    "Authorization: Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"rtsp://h/a\", response=\"\", qop=auth, nc=00000001, cnonce=\"\"\r\n",
    "RTP-Info: url=trackID=0;seq=1;rtptime=2,url=x\r\n",
    "Range: npt=1:02:03.5-now\r\n",
    "Content-Base: rtsp://h/a/\r\n",
    "v=0\r\n",
    "m=video 0 RTP/AVP 96\r\n",
    "a=control:trackID=0\r\n",
    "a=rtpmap:96 H264/90000\r\n",
    "a=range:npt=0-\r\n",
    "c=IN IP4 10.0.0.1\r\n",
    "$\0\0\u{3}abc",
    "\r\n\r\n",
    "\n\n",
    "\r",
    "\0",
];

/// Items, and whether what follows can't be read.
fn read(pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<Item>, Option<u16>) {
    let (mut framer, mut items) = (Framer::new(4096, 4096), Vec::new());
    for piece in pieces {
        framer.push(&piece);
        loop {
            match framer.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(refused) => return (items, Some(refused.0)),
            }
        }
    }
    (items, None)
}

/// Takes the bytes of a connection.
pub fn run(data: &[u8]) {
    let whole = read([data.to_vec()].into_iter());
    if let Some(status) = whole.1 {
        assert!([400, 413, 431].contains(&status), "{status}");
    }
    for size in [1, 7, 100] {
        let parts = read(data.chunks(size).map(<[u8]>::to_vec));
        // A head that is too long is noticed before it is whole, and then is too long for other reasons to be found.
        let early = parts.1 == Some(431) && whole.1.is_some() && whole.0.starts_with(&parts.0);
        assert!(parts == whole || early, "{size}: {parts:?}, but {whole:?}");
    }
    for item in &whole.0 {
        let (bytes, headers, body) = match item {
            Item::Request(request) => (request.to_bytes(), &request.headers, &request.body),
            Item::Response(response) => (response.to_bytes(), &response.headers, &response.body),
            Item::Data { channel, packet } => {
                let bytes = interleaved(*channel, packet).expect("it came in one");
                assert_eq!(read([bytes].into_iter()).0, std::slice::from_ref(item));
                continue;
            }
        };
        // Content-Length is written anew, so what is read then is a fixed point.
        let (once, refused) = read([bytes.clone()].into_iter());
        if once.len() == 1 && refused.is_none() {
            let again = match &once[0] {
                Item::Request(request) => request.to_bytes(),
                Item::Response(response) => response.to_bytes(),
                Item::Data { .. } => panic!("{once:?}"),
            };
            assert_eq!(again, bytes);
        }
        for (_, value) in headers.iter() {
            for own in transport::parse(value) {
                assert_eq!(transport::parse(&own.to_string()).len(), 1, "{own:?}");
            }
            rtp_info::parse(value);
            range::parse(value);
            session::parse(value);
            if let Some(own) = Authorization::parse(value) {
                own.proves("secret", "PLAY");
            }
            url::shown(&url::without_parameter(value, "token"));
            if let Some(own) = url::Url::parse(value) {
                url::join(&own.without_user(), value);
            }
        }
        description(body);
    }
    description(data);
    let mut bytes = Vec::new();
    let _ = tunnel::Decoder::default().decode(data, &mut bytes);
    if let Ok(tunnel::Beginning::Tunnel(_, length)) = tunnel::beginning(data) {
        // Less than all of the head says nothing.
        assert_eq!(tunnel::beginning(&data[..length - 1]), Ok(tunnel::Beginning::Unknown));
        assert!(length <= data.len());
    }
}

fn description(bytes: &[u8]) {
    let Ok(description) = Description::parse(bytes) else { return };
    let media: Vec<String> = (0..description.media()).map(|track| format!("rtsp://p/a/trackID={track}")).collect();
    let address = "192.0.2.1".parse().expect("an address");
    let written = Written { address, session: 1, control: "rtsp://p/a/", media: &media };
    let text = description.written(&written);
    let again = Description::parse(text.as_bytes()).expect("what is written can be read");
    assert_eq!(again.written(&written), text);
    assert_eq!(again.media(), description.media());
    for (track, url) in media.iter().enumerate() {
        assert_eq!(again.media_control(track, "rtsp://x/"), *url);
        assert_eq!(again.clock_rate(track), description.clock_rate(track));
        assert_eq!(again.is_rtp(track), description.is_rtp(track));
    }
}

/// Takes a datagram of RTCP, or of RTP, or several of RTP.
pub fn report(data: &[u8]) {
    wire::rtcp::parse(data);
    let mut packet = data.to_vec();
    if let Some(header) = wire::rtp::Header::read(&packet) {
        let rewrite = wire::rtp::Rewrite { ssrc: 1, sequence: 2, timestamp: 3 };
        let own = rewrite.apply(header);
        own.write(&mut packet);
        assert_eq!(wire::rtp::Header::read(&packet), Some(own));
        assert!(packet[..2] == data[..2] && packet[12..] == data[12..]);
    }
    pictures(data);
}

/// Takes packets of a stream of pictures, one behind the other.
fn pictures(data: &[u8]) {
    for coding in [Coding::H264, Coding::H265, Coding::TransportStream] {
        let mut reader = Reader::new(coding);
        let mut before = 0u32;
        for packet in data.chunks(12 + 2 * 188) {
            let found = reader.read(packet);
            assert!(!(found.access_point && found.discardable), "{found:?}");
            assert!(found.picture.wrapping_sub(before) <= 2, "{found:?}");
            before = found.picture;
        }
    }
}
