//! RTSP over HTTP, as QuickTime began it and cameras have it: a client has two connections with the same cookie. On the
//! one that begins with GET everything comes to the client, as it would on a connection of RTSP; on the other one,
//! which begins with POST, base64 of all that the client sends. A client may end the second and have another one then.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD};

use super::message::reason;
use crate::refused::Refused;

/// Bytes of the head of a GET or POST at most.
const MOST_HEAD: usize = 8 * 1024;
/// Header fields of one at most.
const MOST_FIELDS: usize = 64;
/// Characters of a cookie at most.
const MOST_COOKIE: usize = 128;

/// Bits that a last character has and that mean nothing may be any.
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));

/// Which half of a tunnel a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// That which answers and streams go by.
    Get,
    /// That which requests come by.
    Post,
}

/// The head with which a connection begins that is half of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Which half.
    pub half: Half,
    /// What both have in common, as the client says (`x-sessioncookie`).
    pub cookie: String,
    /// Bytes of the body, as the client says; most name some number and send as much as they have.
    pub length: Option<u64>,
}

/// What a connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// More must come to know it.
    Unknown,
    /// Not with HTTP.
    Other,
    /// A half of a tunnel, and the bytes of its head.
    Tunnel(Opening, usize),
}

/// Reads how a connection begins. Methods of RTSP that begin in the same way go on otherwise (`GET_PARAMETER`).
///
/// # Errors
/// The status of the answer of HTTP: what begins as HTTP does, and is no half of a tunnel.
pub fn beginning(bytes: &[u8]) -> Result<Beginning, Refused> {
    let may_be = |method: &[u8]| bytes.iter().zip(method).all(|(own, wanted)| own == wanted);
    let half = match [b"GET ".as_slice(), b"POST "].map(may_be) {
        [false, false] => return Ok(Beginning::Other),
        [get, _] if bytes.len() >= 5 || (get && bytes.len() == 4) => [Half::Post, Half::Get][usize::from(get)],
        _ => return Ok(Beginning::Unknown),
    };
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(&bytes[..bytes.len().min(MOST_HEAD)]) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MOST_HEAD => return Ok(Beginning::Unknown),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err(Refused(431)),
        Err(_) => return Err(Refused(400)),
    };
    let field = |name: &str| {
        let mut found = head.headers.iter().filter(|own| own.name.eq_ignore_ascii_case(name));
        let one = found.next().map(|own| str::from_utf8(own.value).map_or("", str::trim));
        if found.next().is_some() { Err(Refused(400)) } else { Ok(one) }
    };
    let is_cookie =
        |text: &&str| (1..=MOST_COOKIE).contains(&text.len()) && text.bytes().all(|own| own.is_ascii_graphic());
    let cookie = field("x-sessioncookie")?.filter(is_cookie).ok_or(Refused(400))?.to_owned();
    // Its pieces would have heads of their own in the middle of the base64.
    if field("transfer-encoding")?.is_some() {
        return Err(Refused(501));
    }
    let number = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|own| own.is_ascii_digit()));
    let length_of_body = field("content-length")?.map(|text| number(text).ok_or(Refused(400))).transpose()?;
    Ok(Beginning::Tunnel(Opening { half, cookie, length: length_of_body }, length))
}

/// Takes base64 in pieces of any length, gives bytes. Each message may have been written by itself, so that padding
/// stands in the middle; white space means nothing.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    held: [u8; 4],
    count: usize,
}

impl Decoder {
    /// Whether all that was given was whole: nothing waits for more characters.
    pub fn is_whole(&self) -> bool {
        self.count == 0
    }

    /// Adds what a piece means to bytes.
    ///
    /// # Errors
    /// What is no base64; nothing more can be read then.
    pub fn decode(&mut self, text: &[u8], bytes: &mut Vec<u8>) -> Result<(), Refused> {
        for character in text.iter().filter(|own| !b" \t\r\n".contains(own)) {
            self.held[self.count] = *character;
            self.count += 1;
            if self.count == self.held.len() {
                self.count = 0;
                BASE64.decode_vec(self.held, bytes).map_err(|_| Refused(400))?;
            }
        }
        Ok(())
    }
}

/// The answer to GET: what follows is what RTSP sends.
pub fn granted() -> Vec<u8> {
    b"HTTP/1.0 200 OK\r\nServer: Millrace\r\nConnection: close\r\nCache-Control: no-store\r\nPragma: no-cache\r\n\
        Content-Type: application/x-rtsp-tunnelled\r\n\r\n"
        .to_vec()
}

/// The answer to a POST whose body has come to its end; another one may follow.
pub fn taken() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nServer: Millrace\r\nContent-Length: 0\r\n\r\n".to_vec()
}

/// The answer to what is no half of a tunnel, or may not be one.
pub fn refused(status: u16) -> Vec<u8> {
    let reason = reason(status);
    format!("HTTP/1.0 {status} {reason}\r\nServer: Millrace\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_of_tunnels_are_told_from_requests() {
        let get = b"GET /film HTTP/1.0\r\nx-sessioncookie: abc\r\nAccept: application/x-rtsp-tunnelled\r\n\r\n$";
        for length in 0..get.len() - 1 {
            assert_eq!(beginning(&get[..length]), Ok(Beginning::Unknown), "{length}");
        }
        let opening = Opening { half: Half::Get, cookie: "abc".into(), length: None };
        assert_eq!(beginning(get), Ok(Beginning::Tunnel(opening, get.len() - 1)));
        let post = b"POST / HTTP/1.1\r\nX-SessionCookie:abc\r\nContent-Length: 32767\r\n\r\nT1BU";
        let opening = Opening { half: Half::Post, cookie: "abc".into(), length: Some(32767) };
        assert_eq!(beginning(post), Ok(Beginning::Tunnel(opening, post.len() - 4)));
        for other in [&b"GET_PARAMETER rtsp://h RTSP/1.0\r\n"[..], b"OPTIONS", b"$\x00", b"POSTS", b"PLAY", b"\r\n"] {
            assert_eq!(beginning(other), Ok(Beginning::Other));
        }
        let long = [b"GET / HTTP/1.0\r\nx: ".as_slice(), &[b'a'; MOST_HEAD]].concat();
        for (wrong, status) in [
            (&b"GET / HTTP/1.0\r\n\r\n"[..], 400),
            (b"GET / RTSP/1.0\r\n\r\n", 400),
            (b"GET / HTTP/1.0\r\nx-sessioncookie: \r\n\r\n", 400),
            (b"GET / HTTP/1.0\r\nx-sessioncookie: a\r\nx-sessioncookie: b\r\n\r\n", 400),
            (b"GET / HTTP/1.0\r\nx-sessioncookie: a b\r\n\r\n", 400),
            (b"POST / HTTP/1.0\r\nx-sessioncookie: a\r\nContent-Length: +1\r\n\r\n", 400),
            (b"POST / HTTP/1.1\r\nx-sessioncookie: a\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
            (&long, 431),
        ] {
            assert_eq!(beginning(wrong), Err(Refused(status)), "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for wrong in ["=AAA", "A=BC", "QU\0D", "Q===", "QUJ-"] {
            assert_eq!(Decoder::default().decode(wrong.as_bytes(), &mut Vec::new()), Err(Refused(400)), "{wrong}");
        }
        let (mut own, mut bytes) = (Decoder::default(), Vec::new());
        own.decode(b"QR==\r\nQUI", &mut bytes).unwrap();
        assert_eq!((&bytes[..], own.is_whole()), (&b"A"[..], false));
    }

    proptest! {
        /// Messages that were written one by one come out in a row, however they are cut.
        #[test]
        fn pieces_and_padding_do_not_matter(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9)
        ) {
            let text: String = sent.iter().map(|own| STANDARD.encode(own) + "\r\n").collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let (mut decoder, mut bytes) = (Decoder::default(), Vec::new());
            for piece in at.windows(2) {
                decoder.decode(&text.as_bytes()[piece[0]..piece[1]], &mut bytes).unwrap();
            }
            prop_assert!(decoder.is_whole());
            prop_assert_eq!(bytes, sent.concat());
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            method in "(GET |POST )?", bytes in prop::collection::vec(any::<u8>(), 0..60)
        ) {
            let _ = beginning(&[method.as_bytes(), &bytes].concat());
            let _ = Decoder::default().decode(&bytes, &mut Vec::new());
        }
    }
}
