//! One direction of HTTP messages, followed from head to head.

use wire::assembly::Assembly;
use wire::body::{Body, Next};
use wire::head_progress::HeadProgress;
use wire::http::{self, Refused, Request, Response};

/// One direction of messages, followed from head to head. Bytes of bodies that need not be looked at are passed over:
/// the fast path sees to them.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its bytes as far as they came to the controller.
    pub bytes: Assembly,
    /// The body on its way; none while a head is expected.
    pub body: Option<Body>,
    /// What is known of a head that is not whole, which begins at a sequence number.
    progress: (u32, HeadProgress),
    /// Whether an empty line in front of the next head was passed over.
    blank: bool,
}

impl Stream {
    /// From a sequence number on, with room for a head.
    pub fn new(base: u32, room: usize) -> Stream {
        Stream { bytes: Assembly::new(base, room), body: None, progress: (base, HeadProgress::default()), blank: false }
    }

    /// Passes over one empty line in front of a request (RFC 9112 section 2.2): how many bytes.
    pub fn pass_blank(&mut self) -> u32 {
        if self.blank || !self.bytes.ready().starts_with(b"\r\n") {
            return 0;
        }
        self.bytes.discard(2);
        self.blank = true;
        2
    }

    /// Whether nothing has come of a request but what may be the beginning of such a line.
    pub fn is_blank(&self) -> bool {
        self.bytes.ready().is_empty() || (!self.blank && self.bytes.ready() == b"\r")
    }

    /// Reads the head of a request, as far as it has come.
    pub fn request(&mut self) -> Result<Option<Request>, Refused> {
        self.look_from_base();
        http::request(self.bytes.ready(), &mut self.progress.1)
    }

    /// Takes the bytes of a request's head.
    pub fn take_head(&mut self, count: usize) -> Vec<u8> {
        self.blank = false;
        self.bytes.take(count)
    }

    /// Reads the head of a response to a request of a method.
    pub fn response(&mut self, method: &str) -> Result<Option<Response>, Refused> {
        self.look_from_base();
        http::response(self.bytes.ready(), method, &mut self.progress.1)
    }

    /// What was known of another head is nothing that is known of this one.
    fn look_from_base(&mut self) {
        if self.progress.0 != self.bytes.base() {
            self.progress = (self.bytes.base(), HeadProgress::default());
        }
    }

    /// Follows the body as far as it can: what may pass now.
    pub fn follow(&mut self) -> Result<(), Refused> {
        let Some(body) = &mut self.body else { return Ok(()) };
        loop {
            let used = body.feed(self.bytes.ready())?;
            self.bytes.discard(used);
            match body.next() {
                Next::Pass(count) if self.bytes.ready().is_empty() => {
                    body.passed(count);
                    self.bytes.skip(count);
                    if matches!(body.next(), Next::Pass(_)) {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
            if self.bytes.ready().is_empty() {
                return Ok(());
            }
        }
    }

    /// Whether the message has ended, at [`Stream::limit`].
    pub fn is_done(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.next() == Next::End)
    }

    /// Whether it goes on until the connection ends.
    pub fn is_endless(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.next() == Next::Rest)
    }

    /// The sequence number up to which bytes need not be looked at.
    pub fn limit(&self) -> u32 {
        self.bytes.base()
    }

    /// How much of a segment belongs to the message, as far as that is known: the sequence number behind it.
    pub fn known_end(&self) -> u32 {
        if self.is_done() { self.limit() } else { self.bytes.base().wrapping_add(self.bytes.ready().len() as u32) }
    }
}
