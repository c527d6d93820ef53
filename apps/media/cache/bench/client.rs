//! Who asks for segments, as a player does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::text;

const PATIENCE: Duration = Duration::from_secs(20);

/// A connection that stays open.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn new(place: &str) -> Result<Client, String> {
        let stream = TcpStream::connect(place).map_err(text)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        Ok(Client(BufReader::with_capacity(1 << 18, stream)))
    }

    /// The connection, for somebody else to end it.
    pub fn connection(&self) -> Result<TcpStream, String> {
        self.0.get_ref().try_clone().map_err(text)
    }

    /// An answer's status, its `Location`, and its body.
    pub fn get(&mut self, uri: &str, body: &mut Vec<u8>) -> Result<(u16, String), String> {
        write!(self.0.get_mut(), "GET {uri} HTTP/1.1\r\nHost: bench\r\n\r\n").map_err(text)?;
        let (mut line, mut length, mut location) = (String::new(), 0, String::new());
        self.0.read_line(&mut line).map_err(text)?;
        let status = line.split(' ').nth(1).and_then(|own| own.parse().ok()).ok_or(format!("{uri}: {line:?}"))?;
        loop {
            line.clear();
            self.0.read_line(&mut line).map_err(text)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(text)?,
                "location" => value.clone_into(&mut location),
                _ => {}
            }
        }
        body.resize(length, 0);
        self.0.read_exact(body).map_err(text)?;
        Ok((status, location))
    }
}

/// A stream's recorded segments that are whole, with their URIs.
pub fn segments(place: &str, stream: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let (mut client, mut body) = (Client::new(place)?, Vec::new());
    let mut uri = format!("/{stream}/index.m3u8?start=0");
    for _ in 0..3 {
        let (status, location) = client.get(&uri, &mut body)?;
        match status {
            200 => break,
            301..=308 => uri = if location.starts_with('/') { location } else { format!("/{stream}/{location}") },
            _ => return Err(format!("{uri}: {status}")),
        }
    }
    let playlist = String::from_utf8_lossy(&body).into_owned();
    let uris = playlist.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut all = Vec::new();
    for uri in uris.map(|own| format!("/{stream}/{own}")) {
        let (status, _) = client.get(&uri, &mut body)?;
        if status != 200 || body.is_empty() {
            return Err(format!("{uri}: {status}, {} bytes", body.len()));
        }
        all.push((uri, body.clone()));
    }
    if all.len() < 2 { Err(format!("too few segments: {playlist}")) } else { Ok(all) }
}
