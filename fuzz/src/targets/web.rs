//! The HTTP API and the page: whatever is asked, by whomever, is answered or refused, as JSON where it is the API; and
//! nothing changes without the token.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::http::{HeaderName, HeaderValue, Method, Request};
use control::socket::{Caller, Service};
use dataplane::Instance;
use endpoint::Site;
use serde_json::{Value as Json, json};
use tokio::runtime::{Builder, Runtime};
use web::access::Token;
use web::{Settings, Web};

use super::served;

const TOKEN: &str = "0123456789abcdef";

/// Pieces of requests.
pub const WORDS: &[&str] = &[
    "GET ",
    "PUT ",
    "POST ",
    "DELETE ",
    "/api/v1/",
    "status",
    "tables/",
    "l3_forward.fib",
    "l2_bridge.stations",
    "/entries",
    "?search=",
    "&after=",
    "&limit=",
    "10.0.1.0%2F24",
    "%00",
    "%ff",
    "queries/a/b",
    "reload",
    "stop",
    "live",
    "history",
    "\nHost: localhost",
    "\nAuthorization: Bearer 0123456789abcdef",
    "\nContent-Type: application/json",
    "\nOrigin: http://localhost",
    "\nSec-Fetch-Site: same-origin",
    "\n\n",
    "{\"value\": ",
    "{\"key\": ",
    "[[[[[[[[",
    "1e999",
    "18446744073709551616",
    "\\ud800",
];

/// Requests to begin with: a line with method and path, fields, an empty line, the body.
pub fn seeds() -> Vec<Vec<u8>> {
    const MAY: &str = "\nHost: localhost\nAuthorization: Bearer 0123456789abcdef\nContent-Type: application/json\n\n";
    let own = [
        "GET /\nHost: localhost\n\n".to_owned(),
        "GET /api/v1/status\nHost: 127.0.0.1:9480\n\n".into(),
        "GET /api/v1/live\nHost: [::1]\n\n".into(),
        "GET /api/v1/openapi.json\nHost: localhost\n\n".into(),
        "GET /api/v1/tables/l3_forward.fib/entries?search=10&after=10.0.1.0%2F24&limit=5\nHost: localhost\n\n".into(),
        "GET /api/v1/tables/l3_forward.fib/entries/10.0.1.7\nHost: localhost\n\n".into(),
        "POST /api/v1/stop\nHost: evil.example\nOrigin: http://evil.example\n\n".into(),
        format!("PUT /api/v1/tables/l3_forward.fib/entries/10.9.0.0%2F16{MAY}{{\"value\": 2}}"),
        format!("DELETE /api/v1/tables/l3_forward.fib/entries/10.9.0.0%2F16{MAY}"),
        format!("POST /api/v1/tables/l3_forward.fib/entries{MAY}[{{\"key\": \"10.9.0.0/16\", \"value\": 1}}]"),
        format!("POST /api/v1/queries/a/b{MAY}{{}}"),
        format!("POST /api/v1/reload{MAY}"),
    ];
    own.map(String::into_bytes).to_vec()
}

struct Running {
    web: Web,
    service: Arc<Service>,
    runtime: Runtime,
    _instance: Instance,
}

fn start() -> Running {
    let (service, instance) = served::start();
    let web = Web::new(Arc::downgrade(&service));
    let configured = control::config::Web {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        hosts: vec!["edge.example".into()],
        token_file: None,
        readers: None,
        tls: None,
    };
    web.put(&Settings { web: configured, token: Token::new(TOKEN), tls: None });
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
    Running { web, service, runtime, _instance: instance }
}

/// Takes bytes as a request, as far as they are one.
fn request(data: &[u8]) -> Option<Request<Body>> {
    let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
    let mut lines = data[..end].split(|&byte| byte == b'\n');
    let line = std::str::from_utf8(lines.next()?).ok()?;
    let (method, target) = line.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target);
    for field in lines {
        let at = field.iter().position(|&byte| byte == b':')?;
        let name = HeaderName::from_bytes(&field[..at]).ok()?;
        request = request.header(name, HeaderValue::from_bytes(field[at + 1..].trim_ascii()).ok()?);
    }
    request.body(Body::from(data.get(end + 2..).unwrap_or_default().to_vec())).ok()
}

/// Takes one input.
pub fn run(data: &[u8]) {
    static RUNNING: OnceLock<Running> = OnceLock::new();
    let running = RUNNING.get_or_init(start);
    let Some(request) = request(data) else { return };
    let may = request.headers().get_all("authorization").iter().any(|own| own.as_bytes().ends_with(TOKEN.as_bytes()));
    let is_head = request.method() == Method::HEAD;
    let is_api = request.uri().path().starts_with("/api/");
    let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let entries = || {
        let of = |table: &str| {
            let find = json!({ "request": "table_find", "table": table, "limit": 1000 });
            let find = serde_json::from_value(find).unwrap_or_else(|error| panic!("{error}"));
            running.service.ask(find, Caller::remote(client)).unwrap_or_else(|error| panic!("{error:?}"))
        };
        ["l3_forward.fib", "l3_forward.next_hops", "l3_switch.domains"].map(of)
    };
    let before = entries();
    running.runtime.block_on(async {
        let response = running.web.respond(request, client).await;
        let status = response.status();
        let is_stream = response.headers().get("content-type").is_some_and(|own| own == "text/event-stream");
        assert!(status.as_u16() < 500 || status.as_u16() == 503, "{status}");
        if is_stream || is_head {
            return;
        }
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap_or_else(|error| panic!("{error}"));
        if is_api || !status.is_success() && body.starts_with(b"{") {
            let answer: Result<Json, _> = serde_json::from_slice(&body);
            let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&body)));
            assert!(status.is_success() || answer["code"].is_string(), "{status}: {answer}");
        }
    });
    assert!(may || before == entries(), "something has changed");
}
