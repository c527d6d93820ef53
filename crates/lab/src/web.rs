//! A small web server to try load balancers with: it says its name.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::namespace::Namespace;

/// How long a connection may be silent.
const IDLE: Duration = Duration::from_secs(60);
/// How often it is looked whether the server is to end.
const TICK: Duration = Duration::from_millis(5);
/// Bytes of a request's head, and of a line of it, at most.
const HEAD: u64 = 64 << 10;

/// A web server (HTTP/1.1) that runs until it is dropped; then its connections are reset, as when a process is killed.
///
/// | request | response |
/// |---|---|
/// | `GET /bytes/N` | N bytes |
/// | any other | `I am NAME` |
#[derive(Debug)]
pub struct WebServer {
    shared: Arc<Shared>,
    accept: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    stopping: AtomicBool,
    served: AtomicU64,
    connections: Mutex<Vec<Arc<TcpStream>>>,
}

impl WebServer {
    /// Listens in a namespace, or where the caller is.
    pub fn start(host: Option<&Namespace>, address: SocketAddr, name: &str) -> Result<WebServer> {
        let failed = |error: io::Error| Error::system(format!("cannot serve at {address}"), error);
        let bind = || TcpListener::bind(address);
        let listener = match host {
            Some(host) => host.enter(bind)?,
            None => bind(),
        };
        let listener = listener.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            stopping: AtomicBool::new(false),
            served: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let own = shared.clone();
        let accept = thread::Builder::new().name(format!("web {name}")).spawn(move || own.accept(&listener));
        Ok(WebServer { shared, accept: Some(accept.map_err(failed)?) })
    }

    /// Requests that were answered.
    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if let Some(accept) = self.accept.take() {
            let _ = accept.join();
        }
        for connection in self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopping.load(Ordering::Relaxed) {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(TICK);
                continue;
            };
            let stream = Arc::new(stream);
            self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(stream.clone());
            let own = self.clone();
            let started = thread::Builder::new().name("web".into()).spawn(move || {
                // Whatever a client does ends its connection only.
                let _ = own.serve(&stream);
                own.connections
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .retain(|other| !Arc::ptr_eq(other, &stream));
            });
            drop(started);
        }
    }

    fn serve(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(IDLE))?;
        let mut reader = BufReader::new(stream);
        while let Some(request) = Request::read(&mut reader)? {
            let mut body = match request.target.strip_prefix("/bytes/").and_then(|count| count.parse().ok()) {
                Some(count) => vec![b'x'; usize::min(count, 1 << 30)],
                None => format!("I am {}\n", self.name).into_bytes(),
            };
            let close = if request.closes { "Connection: close\r\n" } else { "" };
            let mut response =
                format!("HTTP/1.1 200 OK\r\nServer: {}\r\nContent-Length: {}\r\n{close}\r\n", self.name, body.len())
                    .into_bytes();
            if request.method != "HEAD" {
                response.append(&mut body);
            }
            // Before the client can know of it.
            self.served.fetch_add(1, Ordering::Relaxed);
            stream.write_all(&response)?;
            if request.closes {
                return Ok(());
            }
        }
        Ok(())
    }
}

struct Request {
    method: String,
    target: String,
    closes: bool,
}

impl Request {
    /// Reads a request, and passes over its body, which must have a length. None at the end of the connection.
    fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let line = |reader: &mut dyn BufRead| -> io::Result<String> {
            let mut text = String::new();
            reader.take(HEAD).read_line(&mut text)?;
            Ok(text)
        };
        let first = line(reader)?;
        let mut words = first.split_whitespace();
        let (Some(method), Some(target), version) = (words.next(), words.next(), words.next()) else { return Ok(None) };
        let mut request = Request { method: method.into(), target: target.into(), closes: version == Some("HTTP/1.0") };
        let mut length = 0;
        loop {
            let field = line(reader)?;
            let Some((name, value)) = field.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            request.closes |= name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close");
        }
        io::copy(&mut reader.take(length), &mut io::sink())?;
        Ok(Some(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_its_name_until_it_ends() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = WebServer::start(None, port, "a").unwrap();
        let mut stream = TcpStream::connect(port).unwrap();
        stream.write_all(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /bytes/5 HTTP/1.1\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut text = String::new();
        while !text.ends_with("xxxxx") {
            let length = reader.fill_buf().unwrap().len();
            assert!(length > 0, "{text}");
            text.push_str(str::from_utf8(reader.buffer()).unwrap());
            reader.consume(length);
        }
        assert!(text.contains("\r\n\r\nI am a\nHTTP/1.1 200 OK\r\n"), "{text}");
        assert_eq!(server.served(), 2);
        drop(server);
        assert!(matches!(reader.fill_buf(), Ok([]) | Err(_)));
        assert!(TcpStream::connect(port).is_err());
    }
}
