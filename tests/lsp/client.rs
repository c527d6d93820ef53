//! A client that speaks the protocol over standard input and output with the real server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Scratch, wait};

/// Longer than any answer takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(90);

/// A session.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Notifications that came while an answer was awaited.
    notes: Vec<Value>,
    next_id: u64,
    /// Its cache directory, and a place for files.
    pub scratch: Scratch,
}

impl Client {
    /// Starts a server and initializes it.
    pub fn new() -> Client {
        let mut client = Client::silent();
        let answer = client.ask("initialize", json!({ "processId": null, "rootUri": null, "capabilities": {} }));
        assert_eq!(answer["serverInfo"]["name"], "millrace", "{answer}");
        client.tell("initialized", json!({}));
        client
    }

    /// Starts a server.
    pub fn silent() -> Client {
        let scratch = Scratch::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["lsp", "--stdio"])
            .env("XDG_CACHE_HOME", scratch.path("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, messages) = channel();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            while let Some(message) = read(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Client { input: child.stdin.take(), child, messages, notes: Vec::new(), next_id: 0, scratch }
    }

    /// Writes bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).and_then(|()| input.flush()).unwrap();
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.write(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request; the whole answer.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.message();
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    /// Sends a request; its result.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    #[track_caller]
    fn message(&mut self) -> Value {
        self.messages.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("no message: {error}"))
    }

    /// Opens a document; its diagnostics.
    #[track_caller]
    pub fn open(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({ "uri": uri, "languageId": "baker", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
        self.diagnostics(uri)
    }

    /// Changes a document.
    pub fn change(&mut self, uri: &str, text: &str) {
        let params = json!({ "textDocument": { "uri": uri, "version": 2 }, "contentChanges": [{ "text": text }] });
        self.tell("textDocument/didChange", params);
    }

    /// The next diagnostics of a document.
    #[track_caller]
    pub fn diagnostics(&mut self, uri: &str) -> Vec<Value> {
        let is_it = |m: &Value| m["method"] == "textDocument/publishDiagnostics" && m["params"]["uri"] == uri;
        loop {
            if let Some(found) = self.notes.iter().position(is_it) {
                return self.notes.remove(found)["params"]["diagnostics"].as_array().unwrap().clone();
            }
            let message = self.message();
            self.notes.push(message);
        }
    }

    /// Asks about a place in a document.
    #[track_caller]
    pub fn at(&mut self, method: &str, uri: &str, (line, character): (u32, u32)) -> Value {
        let position = json!({ "line": line, "character": character });
        self.ask(&format!("textDocument/{method}"), json!({ "textDocument": { "uri": uri }, "position": position }))
    }

    /// Asks about a document.
    #[track_caller]
    pub fn about(&mut self, method: &str, uri: &str) -> Value {
        let options = json!({ "tabSize": 4, "insertSpaces": true });
        self.ask(&format!("textDocument/{method}"), json!({ "textDocument": { "uri": uri }, "options": options }))
    }

    /// Ends the session as the protocol says; the exit status.
    pub fn end(mut self) -> Option<i32> {
        self.ask("shutdown", Value::Null);
        self.tell("exit", Value::Null);
        wait(&mut self.child)
    }

    /// Closes the connection; the exit status.
    pub fn leave(mut self) -> Option<i32> {
        self.input = None;
        wait(&mut self.child)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Of a test that failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message: headers, an empty line, and as many bytes of JSON as the header says.
fn read(output: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            header => length = header.strip_prefix("Content-Length: ").map(|n| n.parse().unwrap()).or(length),
        }
    }
    let mut body = vec![0; length?];
    output.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

/// The line and the column, in UTF-16 units, at which the `n`th `what` begins, and a number of units further.
#[track_caller]
pub fn find(text: &str, what: &str, n: usize, further: u32) -> (u32, u32) {
    let at = text.match_indices(what).nth(n).unwrap_or_else(|| panic!("no {what:?}")).0;
    let line = text[..at].matches('\n').count() as u32;
    let start = text[..at].rfind('\n').map_or(0, |i| i + 1);
    (line, text[start..at].encode_utf16().count() as u32 + further)
}
