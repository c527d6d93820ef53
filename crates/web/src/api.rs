//! Routes of the API. Each is one request of the control socket, and gives the same object.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Weak};

use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use control::application::Offered;
use control::entries::typed;
use control::socket::{
    Caller, Code, Counters, Entry, Found, Graph, PacketCosts, Refusal, Reloaded, Request, Service, Status, TableInfo,
    Timing, Traces, USUALLY_FOUND,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value as Any;
use tokio::task::spawn_blocking;
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoParams, Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Rights;
use crate::answer::{is_json, json_text, refused, with_status};
use crate::history::History;
use crate::live::{Live, Look};

/// What routes work on.
#[derive(Clone)]
pub(crate) struct Api {
    pub service: Weak<Service>,
    pub live: Arc<Live>,
}

/// Who asks, and what they may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub client: SocketAddr,
    pub rights: Rights,
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        parts.extensions.get().copied().ok_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl Api {
    /// Has the instance do what is asked, where the asker may.
    async fn ask(self, asker: Asker, request: Request) -> Response {
        let gone = |message: &str| refused(Refusal { code: Code::Busy, message: message.into() });
        let Some(service) = self.service.upgrade() else { return gone("the instance ends") };
        if let Err(refusal) = asker.rights.allow(service.changes(&request)) {
            return refused(refusal);
        }
        // It may wait for controllers, or for a large table.
        let answer = spawn_blocking(move || service.ask(request, Caller::remote(asker.client))).await;
        match answer {
            Ok(Ok(answer)) => Json(answer).into_response(),
            Ok(Err(refusal)) => refused(refusal),
            Err(error) => {
                tracing::error!("a request can't be answered: {error}");
                (StatusCode::INTERNAL_SERVER_ERROR, "see the log of the instance").into_response()
            }
        }
    }
}

/// JSON that a request brings. No form of a page sends this type.
fn sent<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, (StatusCode, Refusal)> {
    let bad = |status, message: String| Err((status, Refusal { code: Code::BadRequest, message }));
    if !is_json(headers) {
        let message = "JSON is accepted: Content-Type: application/json".to_owned();
        return bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    serde_json::from_slice(body)
        .or_else(|error| bad(StatusCode::BAD_REQUEST, format!("the body can't be read: {error}")))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Millrace",
        description = "A running instance: what it counts, its tables, its controllers. \
                       The objects are those of its control socket and of `millrace … --json`."
    ),
    modifiers(&Token),
    components(schemas(Look, Refusal)),
    tags(
        (name = "reading", description = "By everyone, or by who has the token: as `readers` of [web] says."),
        (name = "changing", description = "By who has the token.")
    )
)]
struct Described;

struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut Document) {
        let components = document.components.get_or_insert_default();
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
        let scheme = scheme.description(Some("What is in `token_file` of [web].")).build();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// All routes, and the document that describes them.
pub(crate) fn routes() -> (Router<Api>, Document) {
    let (router, document) = OpenApiRouter::with_openapi(Described::openapi())
        .routes(routes!(access))
        .routes(routes!(status))
        .routes(routes!(counters))
        .routes(routes!(graph))
        .routes(routes!(history))
        .routes(routes!(live))
        .routes(routes!(tables))
        .routes(routes!(find_entries, load_entries))
        .routes(routes!(get_entry, set_entry, delete_entry))
        .routes(routes!(traces, add_traces, stop_traces))
        .routes(routes!(costs))
        .routes(routes!(timing, start_timing, stop_timing))
        .routes(routes!(queries))
        .routes(routes!(query))
        .routes(routes!(reload))
        .routes(routes!(stop))
        .routes(routes!(description))
        .split_for_parts();
    (router, document)
}

/// The document that describes the API.
pub fn document() -> Document {
    routes().1
}

/// What the request may do
#[utoipa::path(get, path = "/api/v1/access", tag = "reading", responses((status = 200, description = "The answer", body = Rights)))]
async fn access(asker: Asker) -> Response {
    Json(asker.rights).into_response()
}

/// What runs, as `millrace status --json`
#[utoipa::path(get, path = "/api/v1/status", tag = "reading", responses(
    (status = 200, description = "The answer", body = Status), (status = "default", description = "Why not", body = Refusal)
))]
async fn status(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Status).await
}

/// All counters, as `millrace counters --json`
#[utoipa::path(get, path = "/api/v1/counters", tag = "reading", responses(
    (status = 200, description = "The answer", body = Counters), (status = "default", description = "Why not", body = Refusal)
))]
async fn counters(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Counters).await
}

/// How the program is wired, as `millrace graph --json`
#[utoipa::path(get, path = "/api/v1/graph", tag = "reading", responses(
    (status = 200, description = "The answer", body = Graph), (status = "default", description = "Why not", body = Refusal)
))]
async fn graph(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Graph).await
}

/// What was counted in the last hour, each ten seconds
#[utoipa::path(get, path = "/api/v1/history", tag = "reading", responses(
    (status = 200, description = "The answer", body = History), (status = "default", description = "Why not", body = Refusal)
))]
async fn history(State(api): State<Api>, asker: Asker) -> Response {
    match asker.rights.allow(false) {
        Ok(()) => Json(api.live.history()).into_response(),
        Err(refusal) => refused(refusal),
    }
}

/// Events named `look`, each second, with JSON of the schema `Look`
///
/// The stream ends after ten minutes; clients connect again.
#[utoipa::path(get, path = "/api/v1/live", tag = "reading", responses(
    (status = 200, description = "Events", content_type = "text/event-stream", body = String),
    (status = "default", description = "Why not", body = Refusal)
))]
async fn live(State(api): State<Api>, asker: Asker) -> Response {
    match asker.rights.allow(false) {
        Ok(()) => api.live.view(),
        Err(refusal) => refused(refusal),
    }
}

/// The tables, as `millrace table ls --json`
#[utoipa::path(get, path = "/api/v1/tables", tag = "reading", responses(
    (status = 200, description = "The answer", body = Vec<TableInfo>), (status = "default", description = "Why not", body = Refusal)
))]
async fn tables(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Tables).await
}

/// What entries are looked for.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// What their keys or values have in them, in capital or small letters.
    #[serde(default)]
    search: String,
    /// The key behind which they are, as it is typed on the command line.
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// Some entries of a table, in the order of their keys, as `millrace table find --json`
#[utoipa::path(get, path = "/api/v1/tables/{table}/entries", tag = "reading",
    params(("table" = String, Path, description = "MODULE.TABLE"), Wanted),
    responses((status = 200, description = "The answer", body = Found), (status = "default", description = "Why not", body = Refusal)))]
async fn find_entries(
    State(api): State<Api>,
    asker: Asker,
    Path(table): Path<String>,
    Query(Wanted { search, after, limit }): Query<Wanted>,
) -> Response {
    let (after, limit) = (after.as_deref().map(typed), limit.unwrap_or(USUALLY_FOUND));
    api.ask(asker, Request::TableFind { table, search, after, limit }).await
}

/// How many entries were set.
#[derive(Serialize, ToSchema)]
struct Loaded {
    entries: usize,
}

/// Nothing.
#[derive(Serialize, ToSchema)]
struct Nothing {}

/// Sets entries, as `millrace table load`
///
/// Nothing changes where one can't be read; where the table refuses one, those before it are set.
#[utoipa::path(post, path = "/api/v1/tables/{table}/entries", tag = "changing", security(("token" = [])),
    params(("table" = String, Path, description = "MODULE.TABLE")), request_body = Vec<Entry>,
    responses((status = 200, description = "The answer", body = Loaded), (status = "default", description = "Why not", body = Refusal)))]
async fn load_entries(
    State(api): State<Api>,
    asker: Asker,
    Path(table): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match sent(&headers, &body) {
        Ok(entries) => api.ask(asker, Request::TableLoad { table, entries }).await,
        Err((status, refusal)) => with_status(status, refusal),
    }
}

/// An entry; of an address, that of its longest prefix; as `millrace table get --json`
#[utoipa::path(get, path = "/api/v1/tables/{table}/entries/{key}", tag = "reading",
    params(
        ("table" = String, Path, description = "MODULE.TABLE"),
        ("key" = String, Path, description = "As it is typed on the command line, percent-encoded: 10.0.1.0%2F24")
    ),
    responses((status = 200, description = "The answer", body = Entry), (status = "default", description = "Why not", body = Refusal)))]
async fn get_entry(State(api): State<Api>, asker: Asker, Path((table, key)): Path<(String, String)>) -> Response {
    api.ask(asker, Request::TableGet { table, key: typed(&key) }).await
}

/// The value of an entry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Valued {
    /// As in the configuration.
    value: Any,
}

/// Sets an entry, as `millrace table set --json`
#[utoipa::path(put, path = "/api/v1/tables/{table}/entries/{key}", tag = "changing", security(("token" = [])),
    params(
        ("table" = String, Path, description = "MODULE.TABLE"),
        ("key" = String, Path, description = "As it is typed on the command line, percent-encoded")
    ),
    request_body = Valued,
    responses((status = 200, description = "The answer", body = Entry), (status = "default", description = "Why not", body = Refusal)))]
async fn set_entry(
    State(api): State<Api>,
    asker: Asker,
    Path((table, key)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match sent(&headers, &body) {
        Ok(Valued { value }) => api.ask(asker, Request::TableSet { table, key: typed(&key), value }).await,
        Err((status, refusal)) => with_status(status, refusal),
    }
}

/// Removes an entry, as `millrace table del --json`
#[utoipa::path(delete, path = "/api/v1/tables/{table}/entries/{key}", tag = "changing", security(("token" = [])),
    params(
        ("table" = String, Path, description = "MODULE.TABLE"),
        ("key" = String, Path, description = "As it is typed on the command line, percent-encoded")
    ),
    responses((status = 200, description = "The answer", body = Nothing), (status = "default", description = "Why not", body = Refusal)))]
async fn delete_entry(State(api): State<Api>, asker: Asker, Path((table, key)): Path<(String, String)>) -> Response {
    api.ask(asker, Request::TableDel { table, key: typed(&key) }).await
}

/// Packets that were traced, with their ways, as `millrace trace show --json`
///
/// It takes the token, for packets have what hosts say to each other.
#[utoipa::path(get, path = "/api/v1/traces", tag = "changing", security(("token" = [])), responses(
    (status = 200, description = "The answer", body = Traces), (status = "default", description = "Why not", body = Refusal)
))]
async fn traces(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::TraceShow).await
}

/// Which packets are traced.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Traced {
    /// How many.
    #[schema(minimum = 1, maximum = 1000)]
    packets: u32,
    /// The port where they come in; otherwise any.
    port: Option<String>,
    /// Only those that are dropped.
    #[serde(default)]
    drops_only: bool,
    /// Of those that are dropped for the same reason only the first; only those that are dropped.
    #[serde(default)]
    per_reason: bool,
    /// Only those of which all of these hold, such as `ipv4.dst == 10.0.1.80 && udp`.
    #[serde(default, rename = "where")]
    conditions: Vec<String>,
}

/// Traces packets from now on, as `millrace trace add`
#[utoipa::path(post, path = "/api/v1/traces", tag = "changing", security(("token" = [])), request_body = Traced, responses(
    (status = 200, description = "The answer", body = Nothing), (status = "default", description = "Why not", body = Refusal)
))]
async fn add_traces(State(api): State<Api>, asker: Asker, headers: HeaderMap, body: Bytes) -> Response {
    match sent(&headers, &body) {
        Ok(Traced { packets, port, drops_only, per_reason, conditions }) => {
            api.ask(asker, Request::TraceAdd { packets, port, drops_only, per_reason, conditions }).await
        }
        Err((status, refusal)) => with_status(status, refusal),
    }
}

/// Traces no more packets, as `millrace trace stop`
#[utoipa::path(delete, path = "/api/v1/traces", tag = "changing", security(("token" = [])), responses(
    (status = 200, description = "The answer", body = Nothing), (status = "default", description = "Why not", body = Refusal)
))]
async fn stop_traces(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::TraceStop).await
}

/// What accesses to packets cost in each PPF, as it is written and as it is optimised
///
/// Measured with the packets that were traced last: `millrace explain`, with the tables as they are now.
#[utoipa::path(get, path = "/api/v1/costs", tag = "reading", responses(
    (status = 200, description = "The answer", body = PacketCosts), (status = "default", description = "Why not", body = Refusal)
))]
async fn costs(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Costs).await
}

/// How long packets were in PPFs, as `millrace timing --json`: so far, or when it was measured last
#[utoipa::path(get, path = "/api/v1/timing", tag = "reading", responses(
    (status = 200, description = "The answer", body = Timing), (status = "default", description = "Why not", body = Refusal)
))]
async fn timing(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::TimingShow).await
}

/// For how long it is measured.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Timed {
    /// In seconds.
    #[schema(minimum = 1, maximum = 600)]
    seconds: u32,
}

/// Measures from now on how long packets are in PPFs, as `millrace timing`
///
/// A program that measures it takes over, as at a reload, and the other one again when the time is over.
#[utoipa::path(post, path = "/api/v1/timing", tag = "changing", security(("token" = [])), request_body = Timed, responses(
    (status = 200, description = "The answer", body = Nothing), (status = "default", description = "Why not", body = Refusal)
))]
async fn start_timing(State(api): State<Api>, asker: Asker, headers: HeaderMap, body: Bytes) -> Response {
    match sent(&headers, &body) {
        Ok(Timed { seconds }) => api.ask(asker, Request::TimingStart { seconds }).await,
        Err((status, refusal)) => with_status(status, refusal),
    }
}

/// Measures it no more
#[utoipa::path(delete, path = "/api/v1/timing", tag = "changing", security(("token" = [])), responses(
    (status = 200, description = "The answer", body = Nothing), (status = "default", description = "Why not", body = Refusal)
))]
async fn stop_timing(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::TimingStop).await
}

/// What controllers can be asked
#[utoipa::path(get, path = "/api/v1/queries", tag = "reading", responses(
    (status = 200, description = "The answer", body = Vec<Offered>), (status = "default", description = "Why not", body = Refusal)
))]
async fn queries(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Queries).await
}

/// Asks a controller
///
/// A query that changes something needs the token.
#[utoipa::path(post, path = "/api/v1/queries/{controller}/{query}", tag = "reading", security((), ("token" = [])),
    params(("controller" = String, Path), ("query" = String, Path)),
    request_body(content = Any, description = "The arguments, or null"),
    responses(
        (status = 200, description = "The answer", body = Any, description = "What the controller answers"),
        (status = "default", description = "Why not", body = Refusal)
    ))]
async fn query(
    State(api): State<Api>,
    asker: Asker,
    Path((controller, query)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match sent(&headers, &body) {
        Ok(with) => api.ask(asker, Request::Query { controller, query, with }).await,
        Err((status, refusal)) => with_status(status, refusal),
    }
}

/// Reads program and configuration again and puts them in force, as `millrace reload --json`
#[utoipa::path(post, path = "/api/v1/reload", tag = "changing", security(("token" = [])), responses(
    (status = 200, description = "The answer", body = Reloaded), (status = "default", description = "Why not", body = Refusal)
))]
async fn reload(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Reload).await
}

/// Ends the instance as SIGTERM does
#[utoipa::path(post, path = "/api/v1/stop", tag = "changing", security(("token" = [])), responses(
    (status = 200, description = "The answer", body = Nothing), (status = "default", description = "Why not", body = Refusal)
))]
async fn stop(State(api): State<Api>, asker: Asker) -> Response {
    api.ask(asker, Request::Stop).await
}

/// This document
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "reading", responses((status = 200, description = "The answer", body = Any)))]
async fn description() -> Response {
    // Plain data, so this can't fail.
    static TEXT: LazyLock<String> = LazyLock::new(|| document().to_json().expect("a document is JSON"));
    json_text(TEXT.clone())
}
