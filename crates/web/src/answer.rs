//! Results and refusals as HTTP has them.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use control::socket::{Code, Refusal};

/// Bytes of the longest message of a refusal that a library makes.
const MESSAGE: usize = 4096;

/// A refusal, with the status that says the same.
pub fn refused(refusal: Refusal) -> Response {
    let status = match refusal.code {
        Code::BadRequest => StatusCode::BAD_REQUEST,
        Code::BadKey | Code::BadValue => StatusCode::UNPROCESSABLE_ENTITY,
        Code::UnknownTable | Code::UnknownQuery | Code::NotFound => StatusCode::NOT_FOUND,
        Code::TableFull | Code::BadConfiguration => StatusCode::CONFLICT,
        Code::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::Forbidden => StatusCode::FORBIDDEN,
    };
    with_status(status, refusal)
}

/// A refusal with a status.
pub fn with_status(status: StatusCode, refusal: Refusal) -> Response {
    let mut response = (status, Json(refusal)).into_response();
    let field = match status {
        StatusCode::SERVICE_UNAVAILABLE => (RETRY_AFTER, HeaderValue::from_static("1")),
        StatusCode::UNAUTHORIZED => (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
        _ => return response,
    };
    response.headers_mut().insert(field.0, field.1);
    response
}

/// What the router, or what reads arguments, refuses in plain text, as a refusal of ours.
pub async fn uniform(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || is_json(response.headers()) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let said = to_bytes(body, MESSAGE).await.unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let message = match status {
        StatusCode::NOT_FOUND if said.is_empty() => "there is nothing here; see /api/v1/openapi.json",
        StatusCode::METHOD_NOT_ALLOWED => "another method is accepted; see /api/v1/openapi.json",
        _ if said.is_empty() => status.canonical_reason().unwrap_or("refused"),
        _ => &said,
    };
    let code = if status == StatusCode::NOT_FOUND { Code::NotFound } else { Code::BadRequest };
    let mut uniform = with_status(status, Refusal { code, message: message.to_owned() });
    // Such as which methods are accepted.
    let others = parts.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
    for (name, value) in others.filter(|(name, _)| name == axum::http::header::ALLOW) {
        uniform.headers_mut().insert(name, value);
    }
    uniform
}

/// Whether what comes with these fields is JSON.
pub fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// JSON that is text already.
pub fn json_text(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
