//! The files of the page, built into the program.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, type and text of each.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../page/page.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
    ("/main.js", SCRIPT, include_str!("../page/main.js")),
    ("/api.js", SCRIPT, include_str!("../page/api.js")),
    ("/chart.js", SCRIPT, include_str!("../page/chart.js")),
    ("/controllers.js", SCRIPT, include_str!("../page/controllers.js")),
    ("/costs.js", SCRIPT, include_str!("../page/costs.js")),
    ("/format.js", SCRIPT, include_str!("../page/format.js")),
    ("/graph.js", SCRIPT, include_str!("../page/graph.js")),
    ("/layout.js", SCRIPT, include_str!("../page/layout.js")),
    ("/overview.js", SCRIPT, include_str!("../page/overview.js")),
    ("/tables.js", SCRIPT, include_str!("../page/tables.js")),
    ("/traces.js", SCRIPT, include_str!("../page/traces.js")),
];

/// A file by its path.
pub fn file(method: &Method, path: &str) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(own, ..)| *own == path) else {
        return (StatusCode::NOT_FOUND, "there is /, and /api/v1/openapi.json\n").into_response();
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")], "GET is accepted\n").into_response();
    }
    let mut response = Response::new(Body::from(*text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
