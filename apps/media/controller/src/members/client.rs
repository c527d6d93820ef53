//! Requests to a server by HTTP/1.1, in the clear or by TLS: one after the other on one connection.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::lines::{Line, Lines};
use crate::settings::members::{Endpoint, TlsFiles};

/// How long a connection, with TLS, may take,
const CONNECT: Duration = Duration::from_secs(5);
/// and an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The largest answer, and the longest line of a watch, in bytes: the largest value that etcd takes by default, in
/// base64, is half of it.
const LARGEST: usize = 4 << 20;
/// After so many seconds without a packet it is asked whether the other side is there, so often, so many times.
const KEEP_ALIVE: [u32; 3] = [10, 5, 3];

/// What has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// An answer, or a line, is too large.
    TooLarge,
    /// It was answered with this status, and this text.
    Status(u16, Vec<u8>),
    /// Something else.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::TooLarge => write!(f, "an answer is larger than {} MiB", LARGEST >> 20),
            Fault::Status(status, _) => write!(f, "status {status}"),
            Fault::Other(why) => f.write_str(why),
        }
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Fault {
        Fault::Other(why)
    }
}

fn other(error: impl fmt::Display) -> Fault {
    Fault::Other(error.to_string())
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<String>,
    authority: String,
    /// Of each request.
    headers: Vec<(&'static str, String)>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Connects to a server. Each request has the headers.
    pub(super) async fn open(
        endpoint: &Endpoint,
        tls: &TlsFiles,
        headers: Vec<(&'static str, String)>,
    ) -> Result<Connection, Fault> {
        let connected = timeout(CONNECT, connect(endpoint, tls)).await;
        let (sender, task) = connected.map_err(|_| Fault::Other(format!("{endpoint} gives no connection")))??;
        let authority = wire::rtsp::url::authority(&endpoint.host, Some(endpoint.port));
        Ok(Connection { sender, authority, headers, task })
    }

    /// Each request from now on has this header, too.
    pub(super) fn add_header(&mut self, name: &'static str, value: String) {
        self.headers.push((name, value));
    }

    async fn send(&mut self, method: Method, path: &str, body: String) -> Result<Response<Incoming>, Fault> {
        let mut request = Request::builder().method(method).uri(path).header("Host", &self.authority);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if !body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let request = request.header("User-Agent", "Millrace").body(body).map_err(other)?;
        let response = timeout(ANSWER, self.sender.send_request(request)).await;
        let mut response = response.map_err(|_| Fault::Other("no answer".to_owned()))?.map_err(other)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        Err(Fault::Status(status, whole(response.body_mut()).await.unwrap_or_default()))
    }

    /// Asks something with a whole answer.
    pub(super) async fn ask(&mut self, method: Method, path: &str, body: String) -> Result<Vec<u8>, Fault> {
        let mut response = self.send(method, path, body).await?;
        whole(response.body_mut()).await
    }

    /// Asks something that is answered line by line, without end.
    pub(super) async fn watch(mut self, method: Method, path: &str, body: String) -> Result<Watch, Fault> {
        let response = self.send(method, path, body).await?;
        Ok(Watch { _connection: self, body: response.into_body(), lines: Lines::new(LARGEST) })
    }
}

/// An answer without end.
#[derive(Debug)]
pub(super) struct Watch {
    _connection: Connection,
    body: Incoming,
    lines: Lines,
}

impl Watch {
    /// The next line; none: the answer has come to its end. Nothing is lost where this is given up.
    pub(super) async fn next_line(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        loop {
            match self.lines.next_line() {
                Some(Line::Whole(line)) => return Ok(Some(line)),
                Some(Line::TooLong) => return Err(Fault::TooLarge),
                None => {}
            }
            match piece(&mut self.body).await? {
                Some(bytes) => self.lines.push(&bytes),
                None => return Ok(None),
            }
        }
    }
}

async fn piece(body: &mut Incoming) -> Result<Option<Bytes>, Fault> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            None => return Ok(None),
            Some(Err(error)) => return Err(other(error)),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
        }
    }
}

async fn whole(body: &mut Incoming) -> Result<Vec<u8>, Fault> {
    let read = async {
        let mut all = Vec::new();
        while let Some(bytes) = piece(body).await? {
            if all.len() + bytes.len() > LARGEST {
                return Err(Fault::TooLarge);
            }
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    };
    timeout(ANSWER, read).await.map_err(|_| Fault::Other("an answer does not end".to_owned()))?
}

async fn connect(endpoint: &Endpoint, tls: &TlsFiles) -> Result<(SendRequest<String>, AbortHandle), Fault> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
    let stream = stream.map_err(|error| Fault::Other(format!("{endpoint}: {error}")))?;
    // A watch may be silent for long; so it is noticed that nobody is there. Where it can't be asked for, requests on
    // other connections notice it.
    let [idle, interval, count] = KEEP_ALIVE;
    let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
    let _ = setsockopt(&stream, sockopt::TcpKeepIdle, &idle);
    let _ = setsockopt(&stream, sockopt::TcpKeepInterval, &interval);
    let _ = setsockopt(&stream, sockopt::TcpKeepCount, &count);
    if !endpoint.secure {
        return begin(stream).await;
    }
    let config = config(tls)?;
    let name = ServerName::try_from(endpoint.host.clone()).map_err(other)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    begin(stream.map_err(|error| Fault::Other(format!("{endpoint}: {error}")))?).await
}

async fn begin(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<(SendRequest<String>, AbortHandle), Fault> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(other)?;
    // Requests say how it ended.
    let task = tokio::spawn(async { _ = connection.await });
    Ok((sender, task.abort_handle()))
}

/// What files say of TLS.
fn config(files: &TlsFiles) -> Result<ClientConfig, Fault> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &files.ca {
        let of_file = |error: &dyn fmt::Display| Fault::Other(format!("{}: {error}", path.display()));
        let all = CertificateDer::pem_file_iter(path).map_err(|error| of_file(&error))?;
        for own in all {
            roots.add(own.map_err(|error| of_file(&error))?).map_err(|error| of_file(&error))?;
        }
        if roots.is_empty() {
            return Err(of_file(&"there is no certificate in it"));
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(other)?.with_root_certificates(roots);
    let Some((certificate, key)) = &files.own else { return Ok(builder.with_no_client_auth()) };
    let of_certificate = |error| Fault::Other(format!("{}: {error}", certificate.display()));
    let all = CertificateDer::pem_file_iter(certificate).map_err(of_certificate)?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(of_certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| Fault::Other(format!("{}: {error}", key.display())))?;
    builder.with_client_auth_cert(all, key).map_err(other)
}
