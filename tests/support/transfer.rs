//! TCP transfers between hosts, compared byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use lab::Host;

use crate::random::Random;
use crate::switch::PATIENCE;

/// Bytes each way over each connection.
pub const BYTES: usize = 4 << 20;
/// Bytes of which the other side's block number is told where they differ.
const BLOCK: usize = 1 << 16;

/// Sends pseudo-random bytes while it reads and compares those of the other side.
pub fn exchange(stream: TcpStream, sends: u64, receives: u64) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = stream;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Random(sends);
            for _ in 0..BYTES / BLOCK {
                writer.write_all(&random.bytes(BLOCK)).unwrap();
            }
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut random = Random(receives);
        let mut block = vec![0; BLOCK];
        for number in 0..BYTES / BLOCK {
            reader.read_exact(&mut block).unwrap();
            assert!(block == random.bytes(BLOCK), "block {number} differs");
        }
        assert_eq!(reader.read(&mut block).unwrap(), 0, "more came than was sent");
    });
}

/// A listener at a host.
pub fn listen(host: &Host, port: u16) -> TcpListener {
    host.ns.enter(|| TcpListener::bind((host.address.as_str(), port))).unwrap().unwrap()
}

/// A connection from a host.
pub fn connect(host: &Host, to: SocketAddr) -> TcpStream {
    host.ns.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap().unwrap()
}
