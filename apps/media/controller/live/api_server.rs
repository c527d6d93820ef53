//! A model of the API server of Kubernetes, as far as EndpointSlices of one service go: lists, and watches in chunks
//! that end anywhere.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lab::Namespace;
use serde_json::{Value as Json, json};

use crate::network::must;

const PATH: &str =
    "/apis/discovery.k8s.io/v1/namespaces/tv/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dmedia-edge&";

#[derive(Default)]
struct State {
    version: u64,
    slices: Vec<Json>,
    /// Versions before this are forgotten.
    oldest: u64,
    asked: Vec<String>,
    tokens: Vec<String>,
    connections: Vec<TcpStream>,
    watches: Vec<TcpStream>,
}

/// It, until it is dropped.
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
}

/// A slice with pods that are ready.
pub fn slice(name: &str, version: u64, pods: &[(&str, &str)]) -> Json {
    let endpoint = |(name, address): &(&str, &str)| {
        let conditions = json!({ "ready": true, "serving": true, "terminating": false });
        json!({ "addresses": [address], "conditions": conditions, "targetRef": { "kind": "Pod", "name": name } })
    };
    let endpoints: Vec<Json> = pods.iter().map(endpoint).collect();
    let metadata = json!({ "name": name, "namespace": "tv", "resourceVersion": version.to_string() });
    let ports = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }, { "name": "rtsp", "port": 8554, "protocol": "TCP" }]);
    json!({ "metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints })
}

impl ApiServer {
    pub fn start(host: &Namespace, address: &str, version: u64, slices: &[Json]) -> ApiServer {
        let listener = must(host.enter(|| TcpListener::bind(address))).unwrap();
        listener.set_nonblocking(true).unwrap();
        let state = Arc::new(Mutex::new(State { version, slices: slices.to_vec(), ..State::default() }));
        let ends = Arc::new(AtomicBool::new(false));
        let server = ApiServer { state: state.clone(), ends: ends.clone() };
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        state.lock().unwrap().connections.push(stream.try_clone().unwrap());
                        let state = state.clone();
                        thread::spawn(move || serve(stream, &state));
                    }
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            }
        });
        server
    }

    /// What was asked: `list`, and `watch` with a version.
    pub fn asked(&self) -> Vec<String> {
        self.state.lock().unwrap().asked.clone()
    }

    /// With which tokens.
    pub fn tokens(&self) -> Vec<String> {
        self.state.lock().unwrap().tokens.clone()
    }

    /// Lists this from now on.
    pub fn list(&self, version: u64, slices: &[Json]) {
        let mut state = self.state.lock().unwrap();
        (state.version, state.slices) = (version, slices.to_vec());
    }

    /// Forgets what was before a version.
    pub fn forget(&self, oldest: u64) {
        self.state.lock().unwrap().oldest = oldest;
    }

    /// Says something to who watches.
    pub fn say(&self, events: &[&Json]) {
        let mut text: Vec<u8> = events.iter().flat_map(|own| format!("{own}\n").into_bytes()).collect();
        text.splice(0..0, *b"\n");
        for stream in &mut self.state.lock().unwrap().watches {
            for piece in text.chunks(37) {
                write!(stream, "{:x}\r\n", piece.len()).unwrap();
                stream.write_all(&[piece, b"\r\n"].concat()).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
        }
    }

    /// Ends all watches in order.
    pub fn hang_up(&self) {
        for mut stream in self.state.lock().unwrap().watches.drain(..) {
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for stream in &self.state.lock().unwrap().connections {
            // It may have ended.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// One request after the other.
fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let mut head = Vec::new();
    loop {
        let mut byte = [0];
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return;
        }
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8(std::mem::take(&mut head)).unwrap();
            answer(&mut stream, &text, &mut state.lock().unwrap());
        }
    }
}

fn answer(stream: &mut TcpStream, head: &str, state: &mut State) {
    let path = head.split(' ').nth(1).unwrap();
    let asked = path.strip_prefix(PATH).unwrap_or_else(|| panic!("{path}"));
    let token =
        head.lines().find_map(|line| line.to_ascii_lowercase().starts_with("authorization: ").then(|| &line[15..]));
    let token = token.expect("a token").to_owned();
    if !state.tokens.contains(&token) {
        state.tokens.push(token);
    }
    let parameter = |name: &str| asked.split('&').find_map(|own| own.strip_prefix(name)?.strip_prefix('='));
    let whole = |status: &str, body: &Json| {
        let body = body.to_string();
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let text = if parameter("watch").is_none() {
        state.asked.push("list".to_owned());
        let metadata = json!({ "resourceVersion": state.version.to_string() });
        whole("200 OK", &json!({ "kind": "EndpointSliceList", "metadata": metadata, "items": state.slices }))
    } else {
        assert_eq!(parameter("allowWatchBookmarks"), Some("true"));
        let version = parameter("resourceVersion").unwrap();
        state.asked.push(format!("watch {version}"));
        if version.parse::<u64>().unwrap() < state.oldest {
            whole("410 Gone", &json!({ "kind": "Status", "code": 410, "reason": "Expired" }))
        } else {
            state.watches.push(stream.try_clone().unwrap());
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
        }
    };
    stream.write_all(text.as_bytes()).unwrap();
}
