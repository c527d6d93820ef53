//! What is tried: exchanges, and the hosts and routers that they are between.

use wire::segment::TcpOptions;

/// An exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Whether it goes to the second server.
    pub second: bool,
    /// Whether its request may not be sent twice; then it is not for the second server.
    pub post: bool,
    /// Bytes of the request's body.
    pub up: usize,
    /// Bytes of the response's.
    pub down: usize,
    /// Whether the bodies are in chunks.
    pub chunked: bool,
    /// Whether the client asks for the connection's end with it.
    pub last: bool,
}

fn body(length: usize, salt: usize, chunked: bool) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + salt * 31) as u8).collect();
    if !chunked {
        return bytes;
    }
    let mut out = Vec::new();
    for chunk in bytes.chunks(700) {
        out.extend(format!("{:x}\r\n", chunk.len()).bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
    }
    out.extend(b"0\r\n\r\n");
    out
}

impl Exchange {
    /// The same with a request that fits into a segment.
    pub fn shortened(self) -> Exchange {
        Exchange { up: self.up.min(200), chunked: false, ..self }
    }

    fn framing(&self, length: usize) -> String {
        match self.chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {length}"),
        }
    }

    /// As the client sends it.
    pub fn request(&self, number: usize) -> Vec<u8> {
        self.request_with(number, if self.last { "Connection: close\r\n" } else { "" })
    }

    /// As a server sees it that others are to use, too.
    pub fn request_to_last(&self, number: usize) -> Vec<u8> {
        self.request_with(number, if self.last { "Connection:      \r\n" } else { "" })
    }

    fn request_with(&self, number: usize, said: &str) -> Vec<u8> {
        let path = if self.second { "images/x" } else { "web" };
        // Only GET is routed to the images.
        let method = if self.post && !self.second { "POST" } else { "GET" };
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nHost: h\r\nX-Number: {number}\r\n{said}{}\r\n\r\n",
            self.framing(self.up)
        );
        [head.as_bytes(), &body(self.up, number, self.chunked)].concat()
    }

    pub fn response(&self, number: usize) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\nX-Number: {number}\r\n{}\r\n\r\n", self.framing(self.down));
        [head.as_bytes(), &body(self.down, number + 1, self.chunked)].concat()
    }
}

/// Routers on the way to the client and to the servers.
#[derive(Clone, Debug)]
pub struct Routers {
    /// Bytes of a packet that they let pass.
    pub mtu: [usize; 2],
    /// Bytes of TCP that their errors quote at most.
    pub quote: usize,
}

/// How the ends of an attempt are.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub client: TcpOptions,
    pub server: TcpOptions,
    pub client_first: u32,
    pub server_first: u32,
    /// Whether requests are sent without waiting for responses.
    pub pipelined: bool,
    /// What is between them and Millrace.
    pub routers: Routers,
    /// Bytes of IP of the fragments that packets to Millrace come in, if they do.
    pub fragments: Option<usize>,
    /// Whether an empty line that is no part of it follows each request, if another one may (RFC 9112 section 2.2).
    pub blank: bool,
    /// More settings of all pools.
    pub settings: &'static str,
    /// Whether the servers close behind each response, without having said so.
    pub curt: bool,
    /// Bytes that the client has room for, and how many it reads at a time; all at once, where nothing says otherwise.
    pub room: (u32, Option<usize>),
}

impl Hosts {
    /// Both ends with the same options, one request at a time, links as usual, settings as they are. The numbers are
    /// the first sequence numbers of client and server.
    pub fn alike(options: TcpOptions, [client_first, server_first]: [u32; 2]) -> Hosts {
        let routers = Routers { mtu: [1500; 2], quote: 8 };
        Hosts {
            client: options,
            server: options,
            client_first,
            server_first,
            pipelined: false,
            routers,
            fragments: None,
            blank: false,
            settings: "",
            curt: false,
            room: (40_000, None),
        }
    }
}
