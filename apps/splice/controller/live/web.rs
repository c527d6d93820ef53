//! A small web server and client whose every byte is known.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lab::Namespace;
use nix::sys::socket::{self, AddressFamily, Shutdown, SockFlag, SockType, SockaddrStorage};

use crate::network::PATIENCE;

/// The bytes of a transfer.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut state = length as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend((state >> 7).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A hash that tells transfers apart (FNV-1a).
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// A listening socket whose connections have a thread each. When it is dropped connections are refused.
pub struct Listener {
    socket: TcpListener,
    stopping: Arc<AtomicBool>,
}

impl Listener {
    /// Listens in a namespace. Whatever a client does ends its connection only.
    pub fn start(
        host: &Namespace,
        address: &str,
        serve: impl Fn(TcpStream) -> std::io::Result<()> + Clone + Send + 'static,
    ) -> Listener {
        let socket = host.enter(|| TcpListener::bind(address)).unwrap().unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let (incoming, stopped) = (socket.try_clone().unwrap(), stopping.clone());
        thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Ok((stream, _)) = incoming.accept() else { continue };
                let serve = serve.clone();
                thread::spawn(move || drop(serve(stream)));
            }
        });
        Listener { socket, stopping }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // The thread that waits for a connection is woken.
        let _ = socket::shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }
}

/// A running server.
pub struct Server {
    /// Connections that it has accepted.
    pub accepted: Arc<AtomicU64>,
    _listener: Listener,
}

impl Server {
    /// Listens in a namespace. Responses name the server.
    ///
    /// | target | response |
    /// |---|---|
    /// | `/bytes/N` | N bytes of the pattern |
    /// | `/chunked/N` | the same in chunks |
    /// | `/close/N` | the same until the connection ends |
    /// | `/sum` | length and sum of what the request brought |
    /// | `/peer` | address and port of the client |
    /// | `/ntlm` | 401: the client is to authenticate on this connection |
    /// | others | the target |
    pub fn start(host: &Namespace, address: &str, name: &'static str) -> Server {
        let accepted = Arc::new(AtomicU64::new(0));
        let count = accepted.clone();
        let _listener = Listener::start(host, address, move |stream| {
            count.fetch_add(1, Ordering::Relaxed);
            serve(stream, name)
        });
        Server { accepted, _listener }
    }
}

/// Names, in small letters, and values.
type Fields = Vec<(String, String)>;

/// A message's head: first line and fields in small letters.
fn head(reader: &mut impl BufRead) -> std::io::Result<Option<(String, Fields)>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Some((first.trim_end().to_owned(), fields)))
}

fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// A message's body.
fn body(reader: &mut impl BufRead, fields: &[(String, String)], endless: bool) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if field(fields, "transfer-encoding") == Some("chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(std::io::Error::other)?;
            if size > 0 {
                reader.take(size).read_to_end(&mut body)?;
            }
            reader.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    match field(fields, "content-length") {
        Some(length) => {
            let length: u64 = length.parse().map_err(std::io::Error::other)?;
            reader.take(length).read_to_end(&mut body)?;
            if body.len() as u64 != length {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        None if endless => _ = reader.read_to_end(&mut body)?,
        None => {}
    }
    Ok(body)
}

fn serve(mut stream: TcpStream, name: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some((first, fields)) = head(&mut reader)? {
        let mut words = first.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default().to_owned());
        if field(&fields, "expect").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let received = body(&mut reader, &fields, false)?;
        let number = |prefix: &str| target.strip_prefix(prefix)?.parse::<usize>().ok();
        let (length, kind) = match (number("/bytes/"), number("/chunked/"), number("/close/")) {
            (Some(length), _, _) => (length, "bytes"),
            (_, Some(length), _) => (length, "chunked"),
            (_, _, Some(length)) => (length, "close"),
            _ => (0, "text"),
        };
        let content = match (kind, target.as_str()) {
            ("text", "/sum") => format!("{} {:x}", received.len(), sum(&received)).into_bytes(),
            ("text", "/peer") => stream.peer_addr()?.to_string().into_bytes(),
            ("text", _) => target.clone().into_bytes(),
            _ => pattern(length),
        };
        let status = if target == "/ntlm" { "401 Unauthorized\r\nWWW-Authenticate: NTLM" } else { "200 OK" };
        let start = format!("HTTP/1.1 {status}\r\nX-Server: {name}\r\n");
        let mut response = match kind {
            "chunked" => {
                let mut response = format!("{start}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
                for chunk in content.chunks(5000) {
                    response.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    response.extend(chunk);
                    response.extend(b"\r\n");
                }
                response.extend(b"0\r\n\r\n");
                response
            }
            "close" => [format!("{start}Connection: close\r\n\r\n").as_bytes(), &content].concat(),
            _ => [format!("{start}Content-Length: {}\r\n\r\n", content.len()).as_bytes(), &content].concat(),
        };
        if method == "HEAD" {
            let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0) + 4;
            response.truncate(end);
        }
        stream.write_all(&response)?;
        if kind == "close" || field(&fields, "connection") == Some("close") {
            return Ok(());
        }
    }
    Ok(())
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// The server's name; empty where Millrace answered itself.
    pub server: String,
    pub body: Vec<u8>,
}

/// A client's connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects from a namespace.
    pub fn connect(host: &Namespace, address: &str) -> std::io::Result<Client> {
        let address: SocketAddr = address.parse().unwrap();
        let stream = host.enter(|| TcpStream::connect_timeout(&address, Duration::from_secs(20))).unwrap()?;
        set_up(&stream)?;
        Ok(Client::of(stream))
    }

    /// On a connection that is there.
    pub fn of(stream: TcpStream) -> Client {
        Client { reader: BufReader::new(stream) }
    }

    /// Ends it with a reset.
    pub fn reset(self) {
        end_by_reset(self.reader.get_ref());
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads the response to a request of a method.
    pub fn receive(&mut self, method: &str) -> std::io::Result<Response> {
        loop {
            let (first, fields) = head(&mut self.reader)?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
            let status: u16 = status.ok_or_else(|| std::io::Error::other(first.clone()))?;
            if status == 100 {
                continue;
            }
            let body = if method == "HEAD" { Vec::new() } else { body(&mut self.reader, &fields, true)? };
            return Ok(Response { status, server: field(&fields, "x-server").unwrap_or_default().to_owned(), body });
        }
    }

    /// A request without a body.
    pub fn get(&mut self, target: &str) -> std::io::Result<Response> {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: www.example\r\n\r\n").as_bytes())?;
        self.receive("GET")
    }

    /// The last request, for the connection is to end with it.
    pub fn get_last(&mut self, target: &str) -> std::io::Result<Response> {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: www.example\r\nConnection: close\r\n\r\n").as_bytes())?;
        let response = self.receive("GET")?;
        match self.reader.fill_buf()? {
            [] => Ok(response),
            more => Err(std::io::Error::other(format!("{} bytes behind the response", more.len()))),
        }
    }

    /// A request with a body, of known length or in chunks.
    pub fn put(&mut self, target: &str, body: &[u8], chunked: bool) -> std::io::Result<Response> {
        let framing = match chunked {
            true => "Transfer-Encoding: chunked".to_owned(),
            false => format!("Content-Length: {}", body.len()),
        };
        self.send(format!("PUT {target} HTTP/1.1\r\nHost: www.example\r\n{framing}\r\n\r\n").as_bytes())?;
        if chunked {
            for chunk in body.chunks(7000) {
                self.send(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())?;
            }
            self.send(b"0\r\n\r\n")?;
        } else {
            self.send(body)?;
        }
        self.receive("PUT")
    }

    /// The own address and port.
    pub fn own_address(&self) -> String {
        self.reader.get_ref().local_addr().unwrap().to_string()
    }

    /// Says that no more requests come, and waits for the other side's end. False if something else comes.
    #[allow(dead_code)]
    pub fn end(&mut self) -> bool {
        self.reader.get_ref().shutdown(std::net::Shutdown::Write).is_ok() && matches!(self.reader.fill_buf(), Ok([]))
    }

    /// Whether the other side has closed, after all that it has sent.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok([]) | Err(_))
    }
}

/// Connects from one address and port to another, in the caller's namespace, also where a connection was there just
/// before.
pub fn connect_from(from: SocketAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    socket::setsockopt(&socket, socket::sockopt::ReuseAddr, &true)?;
    let stream = TcpStream::from(socket);
    set_up(&stream)?;
    socket::bind(stream.as_raw_fd(), &SockaddrStorage::from(from))?;
    socket::connect(stream.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(stream)
}

fn set_up(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)
}

/// Has a connection end by a reset when it is dropped.
pub fn end_by_reset(stream: &TcpStream) {
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(stream, nix::sys::socket::sockopt::Linger, &linger).unwrap();
}
