//! The server: connections, and the one request of each.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::state::{Open, Shared};

/// Lines that wait for a client that is slow; what comes then is left out.
const LINES: usize = 4;
/// Bytes of a request at most.
const REQUEST: usize = 4096;

pub(crate) async fn accept(listener: TcpListener, shared: Shared) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some(open) = Open::new(&shared) {
                    // One that fails is the client's to try again.
                    tokio::spawn(async move { serve(stream, &open.0).await });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                let mut state = shared.lock();
                state.failed = Some(error);
                return state.wake();
            }
        }
    }
}

/// Answers one request (RFC 9112).
async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let (mut request, mut len) = ([0; REQUEST], 0);
    let target = loop {
        let read = stream.read(&mut request[len..]).await?;
        len += read;
        match target(&request[..len]) {
            Some(target) => break target,
            None if read == 0 => break Err("400 Bad Request"),
            None => {}
        }
    };
    let head = |status: &str, kind: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n")
    };
    const JSON: &str = "application/json";
    match target.as_deref() {
        Ok("/") => {
            let line = shared.lock().line();
            stream.write_all((head("200 OK", JSON) + &line).as_bytes()).await?;
        }
        Ok("/live") => {
            stream.write_all(head("200 OK", "application/x-ndjson").as_bytes()).await?;
            let (client, mut lines) = mpsc::channel(LINES);
            {
                let mut state = shared.lock();
                let id = state.next;
                state.next += 1;
                if !state.is_ending {
                    state.live.insert(id, client);
                    state.new.push(id);
                    state.wake();
                }
            }
            while let Some(line) = lines.recv().await {
                stream.write_all(line.as_bytes()).await?;
            }
        }
        Ok(_) => stream.write_all((head("404 Not Found", "text/plain") + "try / and /live\n").as_bytes()).await?,
        Err(status) => stream.write_all((head(status, "text/plain")).as_bytes()).await?,
    }
    stream.shutdown().await
}

/// The target of a request, once it is whole; or what is wrong with it.
fn target(request: &[u8]) -> Option<Result<String, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => Some(match (parsed.method, parsed.path) {
            (Some("GET"), Some(path)) => Ok(path.to_owned()),
            _ => Err("405 Method Not Allowed"),
        }),
        Ok(httparse::Status::Partial) if request.len() < REQUEST => None,
        _ => Some(Err("400 Bad Request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        assert_eq!(target(b"GET /live HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(target(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Ok("/live".into())));
        assert_eq!(target(b"PUT / HTTP/1.1\r\n\r\n"), Some(Err("405 Method Not Allowed")));
        assert_eq!(target(b"\x16\x03\x01"), Some(Err("400 Bad Request")));
        assert_eq!(target(&[b'G'; REQUEST]), Some(Err("400 Bad Request")));
    }
}
