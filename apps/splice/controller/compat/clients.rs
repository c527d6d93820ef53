//! Clients that fetch files, and compare them.

use std::time::Duration;

use lab::Output;

use crate::network::{PATIENCE, Splice};
use crate::servers::Files;

/// For all transfers of a client.
const LIMIT: Duration = Duration::from_secs(120);
/// Connections at once.
const CONNECTIONS: &str = "20";

/// Runs a client to its end; it has to end well.
#[track_caller]
fn run(splice: &Splice, program: &str, arguments: &[&str]) -> Output {
    let output = splice.client.command(program).args(arguments).limit(LIMIT).check();
    output.unwrap_or_else(|error| panic!("{program}: {error}\n{}\n{}", splice.counters(), splice.said()))
}

/// Waits until a request is answered.
pub fn wait(splice: &Splice, address: &str) {
    let url = format!("http://{address}/1");
    splice.wait("no server is up", |splice| {
        splice.client.command("curl").args(["-sf", "-o", "/dev/null", &url]).limit(PATIENCE).check().is_ok()
    });
}

/// curl: all files on one connection, and in parts.
pub fn curl(splice: &Splice, address: &str, files: &Files) {
    let mut arguments: Vec<String> = vec!["-sf".into()];
    for size in &files.sizes {
        arguments.extend([format!("http://{address}/{size}"), "-o".into(), files.beside(&format!("curl-{size}"))]);
    }
    run(splice, "curl", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    for size in &files.sizes {
        let fetched = std::fs::read(files.beside(&format!("curl-{size}"))).unwrap();
        assert!(fetched == Files::bytes(*size), "curl: {} of {size} bytes, or others", fetched.len());
    }
}

/// Python's `http.client`: connections that stay, and pipelined requests on a bare socket.
pub fn python(splice: &Splice, address: &str, files: &Files) {
    let script = files.write("client.py", include_str!("client.py"));
    let sizes: Vec<String> = files.sizes.iter().map(usize::to_string).collect();
    let fixed = [&*script, address, &files.root()];
    run(splice, "python3", &fixed.into_iter().chain(sizes.iter().map(String::as_str)).collect::<Vec<_>>());
}

/// Go's `net/http`, many requests at once.
pub fn go(splice: &Splice, address: &str, files: &Files) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/splice/controller/compat/client.go");
    let sizes: Vec<String> = files.sizes.iter().map(usize::to_string).collect();
    let fixed = ["run", program, address, &files.root()];
    run(splice, "go", &fixed.into_iter().chain(sizes.iter().map(String::as_str)).collect::<Vec<_>>());
}

/// wrk: as many requests as go in two seconds. Each response must be whole.
pub fn wrk(splice: &Splice, address: &str) {
    let output = run(splice, "wrk", &["-t1", "-c", CONNECTIONS, "-d2s", &format!("http://{address}/1000")]);
    let text = output.text();
    let failed = text.contains("Socket errors") || text.contains("Non-2xx");
    assert!(!failed && text.contains("requests in"), "{text}");
}

/// ab: new connections, and such that stay; all responses must have the length of the first. It speaks HTTP/1.0, and
/// waits for ever where the server lets its connection stay without saying so, as Python's does.
pub fn ab(splice: &Splice, address: &str, may_stay: bool) {
    for stays in [&[][..], &["-k"]].into_iter().take(1 + usize::from(may_stay)) {
        let url = format!("http://{address}/1000");
        let fixed = ["-q", "-n", "2000", "-c", CONNECTIONS, &url];
        let text = run(splice, "ab", &[stays, &fixed].concat()).text();
        let has =
            |line: &str, value: &str| text.lines().any(|own| own.starts_with(line) && own.trim_end().ends_with(value));
        let whole = has("Complete requests:", " 2000") && has("Failed requests:", " 0") && !text.contains("Non-2xx");
        assert!(whole, "{text}");
    }
}

/// httperf: connections at a steady rate, with some requests on each. It knows IPv4 only.
pub fn httperf(splice: &Splice, address: &str) {
    if address.starts_with('[') {
        return;
    }
    let rate = ["--num-conns", "500", "--num-calls", "4", "--rate", "250"];
    let text = run(splice, "httperf", &[&["--hog", "--server", address, "--uri", "/1000"][..], &rate].concat()).text();
    let whole = ["replies 2000 ", "2xx=2000 ", "Errors: total 0 "].iter().all(|part| text.contains(part));
    assert!(whole, "{text}");
}

/// Chromium without a window: a page whose script fetches files side by side and compares them.
pub fn chromium(splice: &Splice, address: &str, files: &Files) {
    std::fs::write(files.root() + "/browser.html", include_str!("browser.html")).unwrap();
    let sizes: Vec<String> = files.sizes.iter().map(usize::to_string).collect();
    let url = format!("http://{address}/browser.html?3&{}", sizes.join("&"));
    let folder = format!("--user-data-dir={}", files.beside("chromium"));
    let fixed = ["--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom", &folder, &url];
    let text = run(splice, "chromium-headless-shell", &fixed).text();
    assert!(text.contains(&format!("<title>{} whole</title>", 3 * sizes.len())), "{text}");
}
