//! What a client sends: requests, one behind the other, and their bodies. One is read when the one before it is
//! answered; what comes meanwhile waits, no more than the program takes without credit.

use wire::body::Body;
use wire::refused::Refused;

use crate::http::refusal::Refusal;
use crate::http::request::{Reader, Request};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Input {
    reader: Reader,
    /// Bytes that the reader has.
    read: usize,
    /// Bytes that it does not have yet.
    waiting: Vec<u8>,
    /// Bytes that were used, for which the client gets no credit yet.
    used: usize,
}

impl Input {
    /// Bytes of the client.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next request, if it is there, with a head of so many bytes at most.
    ///
    /// # Errors
    /// Why there is none. Nothing more can be read then.
    pub(super) fn request(&mut self, most: usize) -> Result<Option<Request>, Refusal> {
        if self.waiting.is_empty() {
            return Ok(None);
        }
        self.read += self.waiting.len();
        let found = self.reader.push(&std::mem::take(&mut self.waiting), most)?;
        Ok(found.map(|(request, rest)| {
            self.used += self.read - rest.len();
            (self.reader, self.read, self.waiting) = (Reader::default(), 0, rest);
            request
        }))
    }

    /// What waits of a request's body. Credit for that is its receiver's to give.
    pub(super) fn body(&mut self, body: &mut Body) -> Result<Vec<u8>, Refused> {
        let used = body.feed(&self.waiting)?;
        let rest = self.waiting.split_off(used);
        Ok(std::mem::replace(&mut self.waiting, rest))
    }

    /// All that has come and was not used.
    pub(super) fn all(&mut self) -> Vec<u8> {
        self.read = 0;
        let mut all = std::mem::take(&mut self.reader).bytes();
        all.append(&mut self.waiting);
        all
    }

    /// Whether anything of a request is there.
    pub(super) fn has_begun(&self) -> bool {
        self.reader.has_begun() || !self.waiting.is_empty()
    }

    /// Bytes that were used, for which the client gets credit now.
    pub(super) fn credit(&mut self) -> u32 {
        std::mem::take(&mut self.used) as u32
    }
}

#[cfg(test)]
mod tests {
    use wire::body::Framing;

    use super::*;

    /// However they are cut: requests come in order, and each byte is credited once.
    #[test]
    fn requests_and_bodies_are_taken_in_order() {
        let one = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
        let other = "\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n";
        let text = format!("{one}{other}GET /c");
        for cut in 0..text.len() {
            let mut input = Input::default();
            let (mut found, mut bodies, mut credit) = (Vec::new(), Vec::new(), 0);
            let mut body: Option<Body> = None;
            for piece in [&text[..cut], &text[cut..]] {
                input.push(piece.as_bytes());
                loop {
                    if let Some(own) = &mut body {
                        bodies.extend(input.body(own).unwrap());
                        if own.next() != wire::body::Next::End {
                            break;
                        }
                        body = None;
                    }
                    let Some(request) = input.request(8192).unwrap() else { break };
                    body = (request.framing != Framing::Length(0)).then(|| Body::new(request.framing));
                    found.push(request.path);
                    credit += input.credit();
                }
            }
            assert_eq!((found, bodies), (vec!["/a".to_owned(), "/b".to_owned()], b"body".to_vec()), "{cut}");
            assert_eq!(credit as usize, text.len() - "body".len() - "GET /c".len());
            assert!(input.has_begun());
            assert_eq!(input.all(), b"GET /c");
        }
    }
}
