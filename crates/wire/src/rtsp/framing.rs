//! What a connection carries, in whatever pieces it comes: messages, and between them interleaved data (RFC 2326
//! section 10.12).

use super::message::{Message, Request, Response, head};
use crate::refused::Refused;

/// Bytes of a head at most, unless told otherwise.
pub const MOST_HEAD: usize = 16 * 1024;
/// Bytes of a body at most, unless told otherwise: descriptions are some kilobytes.
pub const MOST_BODY: usize = 64 * 1024;

/// One thing that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A request.
    Request(Request),
    /// A response.
    Response(Response),
    /// A packet of a channel.
    Data {
        /// The channel.
        channel: u8,
        /// The packet.
        packet: Vec<u8>,
    },
}

/// Takes bytes, gives items. It holds no more than what it was given since the last item, so a reader that stops
/// reading at an error holds no more than the limits and one reading.
#[derive(Debug)]
pub struct Framer {
    bytes: Vec<u8>,
    /// Bytes that were given out already.
    start: usize,
    /// Bytes behind `start` in which the end of a head was looked for.
    searched: usize,
    /// A head whose body is not there yet, with the body's bytes. Seldom one waits, so it takes no room otherwise.
    pending: Option<Box<(Message, usize)>>,
    most_head: usize,
    most_body: usize,
}

impl Default for Framer {
    fn default() -> Self {
        Framer::new(MOST_HEAD, MOST_BODY)
    }
}

impl Framer {
    /// With limits on heads and bodies, in bytes.
    pub fn new(most_head: usize, most_body: usize) -> Framer {
        Framer { bytes: Vec::new(), start: 0, searched: 0, pending: None, most_head, most_body }
    }

    /// Adds what came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether nothing of an item that is not whole is there.
    pub fn is_empty(&self) -> bool {
        self.pending.is_none() && self.start == self.bytes.len()
    }

    /// The next item that is whole; none where more must come. After an error nothing more can be read: where the next
    /// message begins is not known.
    ///
    /// # Errors
    /// The status of the answer.
    pub fn next_item(&mut self) -> Result<Option<Item>, Refused> {
        if self.pending.is_none() && !self.begin()? {
            let data = self.data();
            if data.is_none() && self.start == self.bytes.len() {
                // A connection that says nothing keeps no memory.
                (self.bytes, self.start) = (Vec::new(), 0);
            }
            return Ok(data);
        }
        let Some(length) = self.pending.as_ref().map(|pending| pending.1) else { return Ok(None) };
        if self.bytes.len() - self.start < length {
            return Ok(None);
        }
        let Some((mut message, _)) = self.pending.take().map(|pending| *pending) else { return Ok(None) };
        message.body_mut().extend_from_slice(&self.bytes[self.start..][..length]);
        self.start += length;
        Ok(Some(match message {
            Message::Request(request) => Item::Request(request),
            Message::Response(response) => Item::Response(response),
        }))
    }

    /// Reads a head, if one is there; whether it was.
    fn begin(&mut self) -> Result<bool, Refused> {
        // Some peers end a body with an empty line that its length does not count, others send empty lines to keep the
        // connection.
        while self.searched == 0 && matches!(self.bytes.get(self.start), Some(b'\r' | b'\n')) {
            self.start += 1;
        }
        let rest = &self.bytes[self.start..];
        if rest.first().is_none_or(|byte| *byte == b'$') {
            return Ok(false);
        }
        let Some(end) = end_of_head(rest, self.searched) else {
            self.searched = rest.len();
            return if rest.len() > self.most_head { Err(Refused(431)) } else { Ok(false) };
        };
        if end > self.most_head {
            return Err(Refused(431));
        }
        let message = head(&rest[..end])?;
        let length = message.content_length()?;
        if length > self.most_body {
            return Err(Refused(413));
        }
        self.start += end;
        self.searched = 0;
        self.pending = Some(Box::new((message, length)));
        Ok(true)
    }

    /// Interleaved data, if that is what is there, and whole.
    fn data(&mut self) -> Option<Item> {
        let [b'$', channel, high, low, rest @ ..] = &self.bytes[self.start..] else { return None };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let item = Item::Data { channel: *channel, packet: rest.get(..length)?.to_vec() };
        self.start += 4 + length;
        Some(item)
    }
}

/// Where a head ends, behind its empty line. The first `searched` bytes hold no end.
fn end_of_head(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(3);
    (from..bytes.len())
        .find(|at| {
            let head = &bytes[..=*at];
            head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n")
        })
        .map(|at| at + 1)
}

/// A packet of a channel as it is sent; none where it is too long for the framing.
pub fn interleaved(channel: u8, packet: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(packet.len()).ok()?.to_be_bytes();
    let mut bytes = Vec::with_capacity(4 + packet.len());
    bytes.extend_from_slice(&[b'$', channel, length[0], length[1]]);
    bytes.extend_from_slice(packet);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(framer: &mut Framer) -> Result<Vec<Item>, Refused> {
        let mut items = Vec::new();
        while let Some(item) = framer.next_item()? {
            items.push(item);
        }
        Ok(items)
    }

    fn read(bytes: &[u8]) -> Result<Vec<Item>, Refused> {
        let mut framer = Framer::default();
        framer.push(bytes);
        all(&mut framer)
    }

    fn response(bytes: &[u8]) -> Response {
        match &read(bytes).unwrap()[..] {
            [Item::Response(response)] => response.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_and_data_are_told_apart() {
        let bytes = b"OPTIONS rtsp://h/a RTSP/1.0\r\nCSeq: 1\r\n\r\n$\x01\x00\x03abcRTSP/1.0 200 OK\r\nCSeq: 7\r\n\
            Content-Length: 2\r\n\r\nhi\r\n$\x00\x00\x00PLAY * RTSP/2.0\nCSeq: 2\n\n";
        let items = read(bytes).unwrap();
        assert_eq!(items.len(), 5);
        let (Item::Request(options), Item::Response(answer), Item::Request(play)) = (&items[0], &items[2], &items[4])
        else {
            panic!("{items:?}")
        };
        assert_eq!((&*options.method, &*options.url, options.cseq()), ("OPTIONS", "rtsp://h/a", Some(1)));
        assert_eq!(items[1], Item::Data { channel: 1, packet: b"abc".to_vec() });
        assert_eq!((answer.status, answer.cseq(), &answer.body[..]), (200, Some(7), &b"hi"[..]));
        assert_eq!(items[3], Item::Data { channel: 0, packet: Vec::new() });
        assert_eq!((&*play.method, play.version), ("PLAY", (2, 0)));
    }

    #[test]
    fn odd_heads_are_read() {
        assert_eq!(response(b"RTSP/1.0 200\r\ncseq:3\r\n\r\n").cseq(), Some(3));
        assert_eq!(response(b"RTSP/1.0 461 \r\nCSeq: 4 \r\n\r\n").cseq(), Some(4));
        assert_eq!(response(b"\r\n\r\nRTSP/1.0 200 All is well\nX:  y\t\n\n").headers.get("x"), Some("y"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for bytes in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"OPTIONS rtsp://h\r\n\r\n",
            b"OPTIONS rtsp://h RTSP/1\r\n\r\n",
            b"OPTIONS a b RTSP/1.0\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nContent-Length: x\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"OPTIONS * RTSP/1.0\r\nContent-Length: -1\r\n\r\n",
            b"\x16\x03\x01\n\n",
            b"RTSP/1.0 20000 OK\r\n\r\n",
        ] {
            assert_eq!(read(bytes), Err(Refused(400)), "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(read(&[b'A'; MOST_HEAD + 1]), Err(Refused(431)));
        assert_eq!(read(b"PLAY * RTSP/1.0\r\nContent-Length: 100000\r\n\r\n"), Err(Refused(413)));
    }

    fn items() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let data = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(channel, packet)| interleaved(channel, &packet).unwrap());
        let request = ("[A-Z_]{1,12}", "rtsp://[a-z]{1,5}/[a-z=?/]{0,9}", prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(method, url, body)| {
                let mut request = Request::new(&method, &url);
                request.headers.push("CSeq", "12");
                request.body = body;
                request.to_bytes()
            });
        let response = (100u16..999, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(status, body)| {
            let mut response = Response::new(status, Some(3));
            response.body = body;
            response.to_bytes()
        });
        prop::collection::vec(prop_oneof![data, request, response], 0..8)
    }

    proptest! {
        /// What was written is read, in whatever pieces it comes.
        #[test]
        fn pieces_do_not_matter(sent in items(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let bytes = sent.concat();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut framer = Framer::default();
            let mut found = Vec::new();
            for piece in at.windows(2) {
                framer.push(&bytes[piece[0]..piece[1]]);
                found.extend(all(&mut framer).unwrap());
            }
            prop_assert!(framer.is_empty());
            let written: Vec<Vec<u8>> = found.iter().map(|item| match item {
                Item::Request(request) => request.to_bytes(),
                Item::Response(response) => response.to_bytes(),
                Item::Data { channel, packet } => interleaved(*channel, packet).unwrap(),
            }).collect();
            prop_assert_eq!(written, sent);
        }
    }
}
