//! The HTTP API of a running instance: what it answers, to whom, and as its description says.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use jsonschema::Validator;
use serde_json::{Value as Json, json};

use crate::PATCH;
use crate::http::{Answer, ask, connect};
use crate::instance::{Instance, Runtime};
use crate::process::ROOT;

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub const LIMIT: Duration = Duration::from_secs(20);

/// Where an instance says that its page is.
pub fn address(instance: &Instance) -> String {
    let line = instance.stdout().lines().find_map(|line| line.strip_prefix("web: http://").map(str::to_owned));
    line.and_then(|line| line.strip_suffix('/').map(str::to_owned)).unwrap_or_else(|| panic!("{}", instance.stdout()))
}

/// A file with the token, as it must be.
pub fn token_file(runtime: &Runtime) -> String {
    let path = runtime.write("token", TOKEN);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// The L3 switch, without devices, with a section `[web]`; its configuration.
pub fn switch<'r>(runtime: &'r Runtime, web: &str) -> (Instance<'r>, String) {
    let text = std::fs::read_to_string(format!("{ROOT}/apps/l3switch/l3switch.toml")).unwrap();
    let config = runtime.write("s.toml", &format!("[web]\n{web}\n{text}"));
    let ports = ["p1", "p2", "p3", "p4", "svi1p", "svi2p"].map(|port| format!("{port}=mem:"));
    let ports = ports.iter().flat_map(|port| ["--port", port]);
    let start = ["run", "l3switch", "-c", &config, "--engine", "interp"].into_iter().chain(ports);
    let mut command = runtime.command(&start.collect::<Vec<_>>());
    command.env("MILLRACE_LOG", "info");
    (runtime.start_command(command), config)
}

pub fn with_token(address: &str, method: &str, path: &str, body: &Json) -> Answer {
    let fields = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
    ask(address, method, path, &fields, &body.to_string())
}

pub fn get(address: &str, path: &str) -> Answer {
    ask(address, "GET", path, "", "")
}

/// A status without what changes by itself.
fn lasting(mut status: Json) -> Json {
    ["uptime_ms", "holders", "timers"].iter().for_each(|key| drop(status.as_object_mut().unwrap().remove(*key)));
    status
}

#[test]
fn it_gives_what_the_command_line_gives() {
    let runtime = Runtime::new();
    let (instance, _) = switch(&runtime, "listen = 0");
    let address = address(&instance);
    let api = |path: &str| get(&address, &format!("/api/v1/{path}")).ok();
    assert_eq!(lasting(api("status")), lasting(runtime.json(&["status"])[0].clone()));
    let (mut ours, mut theirs) = (api("counters"), runtime.json(&["counters"]));
    // Timers and workers run meanwhile.
    for own in [&mut ours, &mut theirs] {
        let workers = own["workers"].as_array().unwrap();
        assert!(workers.len() == 1 && workers[0]["rounds"].as_u64() >= Some(1), "{own}");
        (own["timers"], own["workers"]) = (json!({}), json!([]));
    }
    assert_eq!(ours, theirs);
    assert_eq!(api("graph"), runtime.json(&["graph"]));
    assert_eq!(api("tables"), runtime.json(&["table", "ls"]));
    let fib = "l3_forward.fib";
    assert_eq!(api(&format!("tables/{fib}/entries")), runtime.json(&["table", "find", fib]));
    assert_eq!(api(&format!("tables/{fib}/entries/10.0.1.7")), runtime.json(&["table", "get", fib, "10.0.1.7"]));
    assert_eq!(api(&format!("tables/{fib}/entries/10.0.1.0%2F24"))["key"], "10.0.1.0/24");
    let graph = api("graph");
    let route = graph["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "l3_forward.route").unwrap();
    assert_eq!((&route["kind"], &route["engine"]), (&json!("ppf"), &json!("interp")));
    assert!(route["drops"].as_array().unwrap().contains(&json!("bad_checksum")), "{route}");
    let counted = api("counters")["channels"].as_object().unwrap().clone();
    for edge in graph["edges"].as_array().unwrap() {
        assert!(counted.contains_key(edge["channel"].as_str().unwrap()), "{edge}");
    }
    assert!(runtime.millrace(&["graph"]).ok().contains("l3_forward.route"));
}

#[test]
fn entries_are_found_a_page_at_a_time() {
    let runtime = Runtime::new();
    let (instance, _) = switch(&runtime, "listen = 0");
    let address = address(&instance);
    let entries: Vec<Json> = (0..250).map(|n| json!({ "key": format!("10.7.{n}.0/24"), "value": 1 + n % 2 })).collect();
    let file = runtime.write("entries.json", &json!(entries).to_string());
    runtime.millrace(&["table", "load", "l3_forward.fib", &file]).ok();
    let find = |query: &str| get(&address, &format!("/api/v1/tables/l3_forward.fib/entries?{query}"));
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let found = find(&format!("limit=64{after}")).ok();
        let page: Vec<String> =
            found["entries"].as_array().unwrap().iter().map(|own| own["key"].as_str().unwrap().into()).collect();
        after = format!("&after={}", page.last().unwrap().replace('/', "%2F"));
        keys.extend(page);
        if found["more"] == false {
            break;
        }
        assert!(keys.len() < 300);
    }
    assert_eq!(keys.len(), 252);
    assert_eq!((&*keys[2], &*keys[251]), ("10.7.0.0/24", "10.7.249.0/24"));
    assert_eq!(find("search=10.7.24").ok()["entries"].as_array().unwrap().len(), 11);
    assert_eq!(runtime.json(&["table", "find", "l3_forward.fib", "10.7.24"]), find("search=10.7.24").ok());
    let text = runtime.millrace(&["table", "find", "l3_forward.fib", "10.7", "--limit", "2"]).ok();
    assert_eq!(text, "10.7.0.0/24 = 1\n10.7.1.0/24 = 2\nthere are more: --after '10.7.1.0/24'\n");
    assert_eq!(find("limit=0").refused(400), "bad_request");
    assert_eq!(find("limit=1001").refused(400), "bad_request");
    assert_eq!(find("limit=x").refused(400), "bad_request");
    assert_eq!(find("limits=1").refused(400), "bad_request");
    assert_eq!(find("after=10.7").refused(422), "bad_key");
    assert_eq!(get(&address, "/api/v1/tables/l3_forward.fub/entries").refused(404), "unknown_table");
}

#[test]
fn controllers_are_asked() {
    let runtime = Runtime::new();
    let token = token_file(&runtime);
    let config = std::fs::read_to_string(format!("{ROOT}/apps/splice/splice.toml")).unwrap();
    let config = runtime.write("c.toml", &format!("[web]\nlisten = 0\ntoken_file = \"{token}\"\n{config}"));
    let instance = runtime.start(&[
        "splice",
        "-c",
        &config,
        "--engine",
        "interp",
        "--port",
        "clients=mem:",
        "--port",
        "servers=mem:",
    ]);
    let address = address(&instance);
    let offered = get(&address, "/api/v1/queries").ok();
    let kill = offered.as_array().unwrap().iter().find(|own| own["query"] == "kill").unwrap();
    assert_eq!((&kill["controller"], &kill["changes"]), (&json!("splice"), &json!(true)));
    let json_fields = "Content-Type: application/json\r\n";
    let query =
        |name: &str, with: &str| ask(&address, "POST", &format!("/api/v1/queries/splice/{name}"), json_fields, with);
    let names = |servers: Json| {
        let names = servers.as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(query("servers", "null").ok()), names(runtime.json(&["servers"])));
    assert_eq!(query("kill", "{}").refused(401), "unauthorized");
    assert_eq!(query("nothing", "{}").refused(404), "unknown_query");
    assert_eq!(get(&address, "/api/v1/queries/splice/servers").status, 405);
}

/// The description of the API, with its schemas closed: an answer must have nothing that they do not name.
fn described(address: &str) -> Json {
    fn close(schema: &mut Json) {
        if let Json::Object(fields) = schema {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), json!(false));
            }
            fields.values_mut().for_each(close);
        } else if let Json::Array(all) = schema {
            all.iter_mut().for_each(close);
        }
    }
    let mut document = get(address, "/api/v1/openapi.json").ok();
    assert_eq!(document["openapi"], "3.1.0");
    close(&mut document["components"]["schemas"]);
    document
}

/// What an answer is checked by.
fn validator(document: &Json, schema: &Json) -> Validator {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"))
}

#[test]
fn answers_are_as_they_are_described() {
    let runtime = Runtime::new();
    let (instance, _) = switch(&runtime, &format!("listen = 0\ntoken_file = \"{}\"", token_file(&runtime)));
    let address = address(&instance);
    let document = described(&address);
    // What is put in for the parameters of paths, and the bodies, of requests that are done and that are refused.
    let good = [("table", "l3_forward.fib"), ("key", "10.9.0.0%2F16")];
    let bad = [("table", "l3_forward.fub"), ("key", "x"), ("controller", "none"), ("query", "none")];
    let fill = |path: &str, with: &[(&str, &str)]| {
        with.iter().fold(path.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value))
    };
    let body = |path: &str, method: &str| match (path, method) {
        (path, "put") if path.ends_with("/{key}") => json!({ "value": 1 }),
        (path, "post") if path.ends_with("/entries") => json!([{ "key": "10.9.0.0/16", "value": 1 }]),
        (path, "post") if path.ends_with("/timing") => json!({ "seconds": 1 }),
        (path, "post") if path.ends_with("/traces") => json!({ "packets": 3, "where": ["ipv4.ttl=1"] }),
        _ => Json::Null,
    };
    let mut checked = 0;
    // Tables are filled before they are read and emptied, and the end comes last.
    let order = ["put", "post", "get", "delete"];
    let mut all: Vec<(&String, &String, &Json)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| methods.as_object().unwrap().iter().map(move |(method, own)| (path, method, own)))
        .collect();
    all.sort_by_key(|(path, method, _)| (path.ends_with("/stop"), order.iter().position(|own| own == method)));
    for (path, method, operation) in all {
        if path.ends_with("/live") {
            continue;
        }
        let check = |answer: &Answer, status: &str| {
            let schema = &operation["responses"][status]["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{method} {path} {status}: {operation}");
            let errors: Vec<String> =
                validator(&document, schema).iter_errors(&answer.json()).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{method} {path}: {errors:?}: {answer:?}");
        };
        let asked = |with: &[(&str, &str)]| {
            with_token(&address, &method.to_uppercase(), &fill(path, with), &body(path, method))
        };
        if path.contains('{') {
            let answer = asked(&bad);
            assert!((400..500).contains(&answer.status), "{method} {path}: {answer:?}");
            check(&answer, "default");
        }
        if path.ends_with("/timing") && method == "post" {
            // The interpreter measures none.
            let answer = asked(&good);
            assert_eq!(answer.status, 409, "{answer:?}");
            check(&answer, "default");
        } else if !path.contains("{query}") {
            let answer = asked(&good);
            assert_eq!(answer.status, 200, "{method} {path}: {answer:?}");
            check(&answer, "200");
        }
        checked += 1;
    }
    assert_eq!(checked, 23);
    assert_eq!(instance.end().status, Some(0));
}

#[test]
fn there_is_nothing_that_is_not_described() {
    let runtime = Runtime::new();
    let instance = runtime.start(&[PATCH, "--port", "a=mem:", "--web", "0"]);
    let address = address(&instance);
    let document = described(&address);
    let paths = document["paths"].as_object().unwrap();
    for (path, methods) in paths {
        let path = path.replace(['{', '}'], "x");
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            let is_described = methods.get(method.to_lowercase()).is_some();
            if is_described && path.ends_with("/live") {
                continue;
            }
            let status = ask(&address, method, &path, "", "").status;
            assert_eq!(status != 405, is_described, "{method} {path}: {status}");
        }
        for other in [format!("{path}/"), format!("{path}x/y/z"), path.replace("v1", "v2"), path.to_uppercase()] {
            assert_eq!(get(&address, &other).status, 404, "{other}");
        }
    }
    for path in ["/api", "/api/", "/api/v1", "/api/v1/../status", "//api/v1/status", "/%61pi/v1/status", "/main.js/"] {
        assert_eq!(get(&address, path).status, 404, "{path}");
    }
}

/// Events as they come.
fn events(address: &str) -> impl Iterator<Item = Json> {
    let mut stream = connect(address);
    write!(stream, "GET /api/v1/live HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.filter_map(|line| Some(serde_json::from_str(line.strip_prefix("data: ")?).unwrap()))
}

#[test]
fn what_there_is_to_see_comes_each_second() {
    let runtime = Runtime::new();
    let instance = runtime.start(&[PATCH, "--port", "a=mem:", "--web", "0"]);
    let address = address(&instance);
    let document = described(&address);
    let look = validator(&document, &json!({ "$ref": "#/components/schemas/Look" }));
    let start = Instant::now();
    let seen: Vec<Json> = events(&address).take(3).collect();
    assert!((Duration::from_secs(1)..Duration::from_secs(10)).contains(&start.elapsed()), "{:?}", start.elapsed());
    for own in &seen {
        assert!(look.is_valid(own), "{:?}", look.iter_errors(own).map(|error| error.to_string()).collect::<Vec<_>>());
        assert_eq!(own["status"]["instance"], "patch");
    }
    assert!(seen[0]["time_ms"].as_u64() < seen[2]["time_ms"].as_u64(), "{seen:?}");
    assert_eq!(get(&address, "/api/v1/history").ok()["ports"]["a"]["rx_packets"], json!([0]));
    // Viewers are few; one who goes makes room.
    let mut viewers: Vec<_> = (0..12).map(|_| events(&address)).collect();
    viewers.iter_mut().for_each(|own| drop(own.next().unwrap()));
    assert_eq!(get(&address, "/api/v1/live").refused(503), "busy");
    get(&address, "/api/v1/status").ok();
    viewers.clear();
    let start = Instant::now();
    while events(&address).next().is_none() {
        assert!(start.elapsed() < LIMIT);
    }
}
