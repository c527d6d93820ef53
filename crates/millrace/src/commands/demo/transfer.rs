//! A large file over TCP: a small HTTP server on h3, curl on h1, SHA-256 on both sides.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use cli::say;
use lab::L3Switch;
use sha2::{Digest, Sha256};

const BLOCK: usize = 1 << 20;

/// Fetches `megabytes` and compares checksums.
pub fn run(network: &L3Switch, megabytes: u64) -> Result<(), Failure> {
    let listener = network.host(3).ns.enter(|| TcpListener::bind("10.0.2.13:8080"));
    let listener = listener.map_err(Failure::refused)?.map_err(Failure::refused)?;
    let server = std::thread::spawn(move || serve(&listener, megabytes));
    let started = Instant::now();
    let limit = Duration::from_secs(60 + megabytes / 4);
    let (reader, writer) = std::io::pipe().map_err(Failure::refused)?;
    let receiver = std::thread::spawn(move || hash(reader));
    let output = network
        .host(1)
        .ns
        .command("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", &limit.as_secs().to_string()])
        .arg("http://10.0.2.13:8080/")
        .output_to(writer)
        .limit(limit + Duration::from_secs(5))
        .check();
    output.map_err(Failure::refused)?;
    let time = started.elapsed().as_secs_f64();
    let result = |thread: JoinHandle<io::Result<String>>| match thread.join() {
        Ok(result) => result.map_err(Failure::refused),
        Err(_) => Err(Failure::refused("a thread of the demo's transfer failed")),
    };
    let (received, sent) = (result(receiver)?, result(server)?);
    if received != sent {
        return Err(Failure::refused(format!("checksums differ: sent {sent}, received {received}")));
    }
    let gigabits = (megabytes * BLOCK as u64 * 8) as f64 / time / 1e9;
    say!("  {time:.2} s, {gigabits:.2} Gbit/s, SHA-256 equal on both sides: {}…", &sent[..16]);
    Ok(())
}

/// Answers one request with pseudo-random bytes; their SHA-256 in hexadecimal.
fn serve(listener: &TcpListener, megabytes: u64) -> io::Result<String> {
    let (mut stream, _) = listener.accept()?;
    let mut request = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let length = megabytes * BLOCK as u64;
    write!(stream, "HTTP/1.0 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n")?;
    let mut hash = Sha256::new();
    let mut block = vec![0u8; BLOCK];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..megabytes {
        for word in block.chunks_exact_mut(8) {
            // xorshift64 (Marsaglia 2003)
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        hash.update(&block);
        stream.write_all(&block)?;
    }
    Ok(hexadecimal(hash))
}

/// The SHA-256 in hexadecimal of what can be read.
fn hash(mut input: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0u8; BLOCK];
    loop {
        match input.read(&mut block)? {
            0 => return Ok(hexadecimal(hash)),
            length => hash.update(&block[..length]),
        }
    }
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
