//! Chromium without a screen, and a server of the pages that it opens. A page tells what it has seen by asking for
//! `/result?…`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use lab::{Namespace, Running};

/// What there is to be asked for: its path, its type, and its bytes.
pub type File = (&'static str, &'static str, Vec<u8>);

/// A file of a package, from the registry that npm is set up for. The folder must not be there.
pub fn from_npm(folder: &str, package: &str, file: &str) -> Vec<u8> {
    std::fs::create_dir(folder).unwrap();
    let shell = format!("npm pack --silent {package} && tar -xzf *.tgz");
    let done = Command::new("sh").args(["-c", &shell]).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "npm pack {package}: {done:?}");
    std::fs::read(Path::new(folder).join("package").join(file)).unwrap()
}

/// Serves files; what pages tell comes from the receiver. It waits for connections to the end of the process.
pub fn serve(listener: TcpListener, files: Vec<File>) -> Receiver<String> {
    let (results, told) = channel();
    let files = Arc::new(files);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (files, results) = (files.clone(), results.clone());
            thread::spawn(move || answer(stream, &files, &results));
        }
    });
    told
}

/// Answers one request.
fn answer(mut stream: TcpStream, files: &[File], results: &Sender<String>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, kind, body) = match files.iter().find(|own| own.0 == path) {
        Some((_, kind, body)) => ("200 OK", *kind, body.as_slice()),
        None if path == "/result" => {
            results.send(query.to_owned()).unwrap();
            ("200 OK", "text/plain", &b""[..])
        }
        None => ("404 Not Found", "text/plain", &b""[..]),
    };
    let fields = format!("Content-Type: {kind}\r\nContent-Length: {}\r\nConnection: close", body.len());
    // A browser may have gone.
    let _ = write!(stream, "HTTP/1.1 {status}\r\n{fields}\r\n\r\n").and_then(|()| stream.write_all(body));
}

/// Opens a page. The folder is for what the browser keeps.
pub fn open(place: &Namespace, folder: &str, url: &str) -> Running {
    let fixed = ["--no-sandbox", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"];
    let folder = format!("--user-data-dir={folder}");
    let command = place.command("chromium-headless-shell").args(fixed);
    command.args(["--remote-debugging-port=0", &folder, url]).spawn().unwrap()
}
