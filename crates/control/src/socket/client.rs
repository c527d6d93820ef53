//! Asks a running instance.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::protocol::{Code, Entry, Refusal, Reply, Request};

/// How long an instance may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a busy instance is asked again.
const BUSY: Duration = Duration::from_secs(5);
/// Between two such attempts.
const AGAIN: Duration = Duration::from_millis(50);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no listener.
    #[error("{}: no instance is running here{}", path.display(), if *dead { ": it died and left its socket" } else { "" })]
    NotRunning {
        /// The socket.
        path: PathBuf,
        /// Whether there is a socket.
        dead: bool,
    },
    /// The socket may not be used.
    #[error("{}: permission denied: ask as the user who runs the instance, or a member of its group", .0.display())]
    Denied(PathBuf),
    /// The instance says no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The instance does not speak the protocol, or went away.
    #[error("{}: {error}", path.display())]
    Failed {
        /// The socket.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
}

/// A connection to a running instance.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => ClientError::NotRunning { path: path.into(), dead: false },
            ErrorKind::ConnectionRefused => ClientError::NotRunning { path: path.into(), dead: true },
            ErrorKind::PermissionDenied => ClientError::Denied(path.into()),
            _ => ClientError::Failed { path: path.into(), error },
        })?;
        let client = Client { path: path.into(), stream: BufReader::new(stream) };
        let stream = client.stream.get_ref();
        for set in [stream.set_read_timeout(Some(SILENCE)), stream.set_write_timeout(Some(SILENCE))] {
            set.map_err(|error| client.failed(error))?;
        }
        Ok(client)
    }

    /// Asks for something with one result.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        self.ask_all(request, |_| {})
    }

    /// Asks for something with several entries.
    pub fn ask_all<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        mut entry: impl FnMut(Entry),
    ) -> Result<T, ClientError> {
        let start = Instant::now();
        loop {
            match self.once(request, &mut entry) {
                Err(ClientError::Refused(Refusal { code: Code::Busy, .. })) if start.elapsed() < BUSY => {
                    std::thread::sleep(AGAIN);
                    // Where there are too many connections the instance has closed this one.
                    *self = Self::connect(&self.path)?;
                }
                result => return result,
            }
        }
    }

    /// Waits until the instance has closed the connection, as it does at its end.
    pub fn wait_for_end(mut self) -> Result<(), ClientError> {
        let end = self.stream.read_to_end(&mut Vec::new());
        match end {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    fn once<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        entry: &mut impl FnMut(Entry),
    ) -> Result<T, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.failed(error.into()))?;
        line.push(b'\n');
        // An instance that refuses the connection itself has answered already, and does not read.
        let written = self.stream.get_mut().write_all(&line);
        let mut answer = String::new();
        loop {
            answer.clear();
            match self.stream.read_line(&mut answer) {
                Ok(0) => {
                    let gone = || io::Error::new(ErrorKind::UnexpectedEof, "the instance closed the connection");
                    return Err(self.failed(written.err().unwrap_or_else(gone)));
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    let error = io::Error::new(ErrorKind::TimedOut, "the instance does not answer");
                    return Err(self.failed(error));
                }
                Err(error) => return Err(self.failed(error)),
            }
            match serde_json::from_str(&answer) {
                Ok(Reply::Entry(found)) => entry(found),
                Ok(Reply::Ok(result)) => return Ok(result),
                Ok(Reply::Error(refusal)) => return Err(ClientError::Refused(refusal)),
                Err(error) => {
                    let error = io::Error::new(ErrorKind::InvalidData, format!("not an answer of Millrace: {error}"));
                    return Err(self.failed(error));
                }
            }
        }
    }

    fn failed(&self, error: io::Error) -> ClientError {
        ClientError::Failed { path: self.path.clone(), error }
    }
}
