//! Siblings that find each other: in a real etcd, by TLS, which ends and comes back; and among the endpoints that a
//! model of a Kubernetes API server tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lab::{Namespace, Running, Signal};
use serde_json::{Value as Json, json};

use crate::api_server::{ApiServer, slice};
use crate::cache::Directory;
use crate::network::{Media, PATIENCE, must};
use crate::origin::Options;
use crate::peers::{NAMES, edge, has, origins};
use crate::server::Server;
use crate::{PROXIES, viewer};

const PREFIX: &str = "/millrace/media/siblings/";
/// Until etcd removes who is not heard of any more.
const TTL: Duration = Duration::from_secs(2);

/// What is said at the end where etcd has not answered.
const NOT_TOLD: &str = "etcd could not be told that this proxy goes";

/// What `media peers` says of where siblings are found.
fn source(media: &Media) -> Json {
    media.json(&["media", "peers"])["sources"][0].clone()
}

/// Names of other siblings that are members.
fn others(media: &Media) -> Vec<String> {
    let state = media.json(&["media", "peers"]);
    let all = state["peers"].as_array().unwrap().iter().map(|own| own["server"].clone());
    let names = all.filter(|own| own["configured"] == true).map(|own| own["name"].as_str().unwrap().to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// A user of etcd who may do anything, one who may use the prefix, and their password.
const ROOT: &str = "root";
const USER: &str = "proxies";
const PASSWORD: &str = "of-etcd's-users";

/// etcd, whose clients prove who they are: their hosts by certificates, and, once it has users, these by passwords.
struct Etcd {
    host: Arc<Namespace>,
    directory: Directory,
    process: Option<Running>,
    has_users: bool,
}

impl Etcd {
    fn new(host: &Arc<Namespace>) -> Etcd {
        let directory = Directory::new("etcd");
        let dir = directory.text().to_owned();
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(format!("{dir}/names"), "subjectAltName=IP:10.0.2.11\n").unwrap();
        let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout"];
        let openssl = |words: &[&str]| must(host.command("openssl").args(words).current_dir(&dir).check());
        let new = [&["req", "-x509", "-subj", "/CN=ca", "-days", "2", "-out", "ca.pem"], &new_key[..], &["ca.key"]];
        openssl(&new.concat());
        // etcd that has users takes no certificate with a common name.
        for (name, field) in [("etcd", "CN"), ("edge", "O")] {
            let (key, asked, made) = (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
            let subject = format!("/{field}={name}");
            openssl(&[&["req", "-subj", &subject, "-out", &asked], &new_key[..], &[&key]].concat());
            let signed = ["x509", "-req", "-in", &asked, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
            openssl(&[&signed[..], &["-days", "2", "-extfile", "names", "-out", &made]].concat());
        }
        let mut etcd = Etcd { host: host.clone(), directory, process: None, has_users: false };
        etcd.start();
        etcd
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.directory.text())
    }

    fn start(&mut self) {
        let (url, peer) = ("https://10.0.2.11:2379", "http://127.0.0.1:2380");
        let cluster = format!("default={peer}");
        let [data, ca, certificate, key] = ["data", "ca.pem", "etcd.pem", "etcd.key"].map(|name| self.file(name));
        let words = [
            ["--data-dir", &data],
            ["--listen-client-urls", url],
            ["--advertise-client-urls", url],
            ["--listen-peer-urls", peer],
            ["--initial-advertise-peer-urls", peer],
            ["--initial-cluster", &cluster],
            ["--trusted-ca-file", &ca],
            ["--cert-file", &certificate],
            ["--key-file", &key],
        ];
        let command = self.host.command("etcd").args(words.concat()).arg("--client-cert-auth");
        self.process = Some(must(command.spawn()));
        let start = Instant::now();
        while self.try_ask("kv/range", &json!({ "key": "YQ==" })).is_none() {
            let said = self.process.as_ref().unwrap().both();
            assert!(start.elapsed() < PATIENCE, "etcd does not answer: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends it at once.
    fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        must(process.signal(Signal::SIGKILL));
        must(process.wait(PATIENCE));
    }

    /// It answers nobody any more, but its connections stay.
    fn halt(&mut self) {
        must(self.process.as_mut().unwrap().signal(Signal::SIGSTOP));
    }

    /// From now on nobody is let in without a password.
    fn add_users(&mut self) {
        for user in [ROOT, USER] {
            self.ask("auth/role/add", &json!({ "name": user }));
            self.ask("auth/user/add", &json!({ "name": user, "password": PASSWORD }));
            self.ask("auth/user/grant", &json!({ "user": user, "role": user }));
        }
        let (key, end) = (STANDARD.encode(PREFIX), STANDARD.encode(PREFIX.replace("siblings/", "siblings0")));
        let permission = json!({ "permType": "READWRITE", "key": key, "range_end": end });
        self.ask("auth/role/grant", &json!({ "name": USER, "perm": permission }));
        self.ask("auth/enable", &json!({}));
        self.has_users = true;
    }

    fn try_ask(&self, path: &str, body: &Json) -> Option<Json> {
        let token = match self.has_users {
            true => {
                self.try_post("auth/authenticate", &json!({ "name": ROOT, "password": PASSWORD }), "")?["token"].take()
            }
            false => Json::Null,
        };
        self.try_post(path, body, token.as_str().unwrap_or_default())
    }

    fn try_post(&self, path: &str, body: &Json, token: &str) -> Option<Json> {
        let token = format!("Authorization: {token}");
        let [ca, certificate, key] = ["ca.pem", "edge.pem", "edge.key"].map(|name| self.file(name));
        let (body, url) = (body.to_string(), format!("https://10.0.2.11:2379/v3/{path}"));
        let words =
            ["--silent", "--fail", "--cacert", &ca, "--cert", &certificate, "--key", &key, "--data", "@-", &url];
        let output = must(self.host.command("curl").args(["--header", &token]).args(words).input(body).run());
        output.status.success().then(|| serde_json::from_str(&output.text()).unwrap())
    }

    fn ask(&self, path: &str, body: &Json) -> Json {
        self.try_ask(path, body).unwrap_or_else(|| panic!("{path}"))
    }

    fn put(&self, name: &str, value: &str) {
        let key = STANDARD.encode(format!("{PREFIX}{name}"));
        self.ask("kv/put", &json!({ "key": key, "value": STANDARD.encode(value) }));
    }

    /// Sets keys that are no members: more than are listed at once, and some with all that etcd takes.
    fn put_rubbish(&self) -> Vec<String> {
        let names: Vec<String> = (0..300).map(|number| format!("k{number}")).collect();
        for some in names.chunks(100) {
            let put = |name: &String| json!({ "request_put": { "key": STANDARD.encode(format!("{PREFIX}{name}")) } });
            self.ask("kv/txn", &json!({ "success": some.iter().map(put).collect::<Vec<_>>() }));
        }
        let large = ["large0", "large1", "large2"].map(str::to_owned);
        large.iter().for_each(|name| self.put(name, &"x".repeat(1_400_000)));
        [names, large.to_vec()].concat()
    }

    fn delete(&self, name: &str) {
        self.ask("kv/deleterange", &json!({ "key": STANDARD.encode(format!("{PREFIX}{name}")) }));
    }

    /// Whether a key is there.
    fn has(&self, name: &str) -> bool {
        let key = STANDARD.encode(format!("{PREFIX}{name}"));
        self.ask("kv/range", &json!({ "key": key })).get("kvs").is_some()
    }

    /// Forgets all earlier revisions.
    fn compact(&self) {
        let now = self.ask("kv/range", &json!({ "key": "YQ==" }))["header"]["revision"].clone();
        self.ask("kv/compaction", &json!({ "revision": now }));
    }
}

/// Three siblings find each other, and each stream is recorded by one of them. One is killed; etcd is gone for a
/// while.
#[test]
fn siblings_find_each_other_in_etcd() {
    let origin = origins();
    let mut etcd = Etcd::new(&origin);
    let rubbish = etcd.put_rubbish();
    etcd.add_users();
    let recordings: Vec<Directory> = NAMES.iter().map(|name| Directory::new(&format!("members-{name}"))).collect();
    let section = |at: usize| {
        let [ca, certificate, key] = ["ca.pem", "edge.pem", "edge.key"].map(|name| etcd.file(name));
        // At the first endpoint nobody is.
        let mut text = format!(
            "[controllers.media.peers]\nname = \"{}\"\ncheck = {{ interval = \"1s\", fall = 1 }}\n\
             [controllers.media.peers.siblings]\netcd = [\"https://10.0.2.14:2379\", \"https://10.0.2.11:2379\"]\n\
             prefix = \"{PREFIX}\"\nannounce = \"10.0.2.{}:8554\"\nttl = \"{}s\"\nca = \"{ca}\"\n\
             certificate = \"{certificate}\"\nkey = \"{key}\"\nuser = \"{USER}\"\npassword = \"{PASSWORD}\"\n\n\
             [controllers.media.cache]\ndirectory = \"{}\"\nfree = \"0 B\"\n",
            NAMES[at],
            at + 1,
            TTL.as_secs(),
            recordings[at].text(),
        );
        for stream in 0..4 {
            text += &format!(
                "\n[controllers.media.streams.s{stream}]\nurl = \"rtsp://10.0.2.{}:8554/live\"\nrecord = true\n",
                11 + stream
            );
        }
        text
    };
    // Together, as most of the time goes into their start.
    let sections: Vec<String> = (0..3).map(section).collect();
    let hub = &origin;
    let mut edges: Vec<Media> = std::thread::scope(|scope| {
        let sections = sections.iter().enumerate();
        let started: Vec<_> =
            sections.map(|(at, section)| scope.spawn(move || edge("afpacket", hub, at, section))).collect();
        started.into_iter().map(|own| own.join().unwrap()).collect()
    });
    let but = |names: &[&str], own: usize| -> Vec<String> {
        names.iter().filter(|name| **name != NAMES[own]).map(|name| (*name).to_owned()).collect()
    };
    for (at, edge) in edges.iter().enumerate() {
        edge.wait("siblings are not found", |edge| others(edge) == but(&NAMES, at));
        edge.wait("they are not up", |edge| {
            let peers = edge.json(&["media", "peers"]);
            peers["peers"].as_array().unwrap().iter().all(|own| own["server"]["up"] == true)
        });
        let source = source(edge);
        assert_eq!((&source["registered"], &source["connected"]), (&true.into(), &"https://10.0.2.11:2379".into()));
        assert_eq!((&source["members"], &source["refused"]), (&3.into(), &Json::Null));
    }

    // Who has a stream all agree on, and that one alone records it.
    let options = Options { live: true, tracks: 1, ..Options::default() };
    let addresses: Vec<String> = (0..4).map(|at| format!("10.0.2.{}:8554", 11 + at)).collect();
    let servers: Vec<Server> = addresses.iter().map(|own| Server::start(&origin, &[own], &options)).collect();
    let mut viewers = Vec::new();
    for (stream, server) in servers.iter().enumerate() {
        for edge in &edges {
            let mut own = viewer(edge, PROXIES[0], &format!("s{stream}"), 1);
            own.play();
            own.receive(0, 10);
            viewers.push(own);
        }
        assert_eq!(server.count("PLAY"), 1, "stream {stream}");
    }
    let owners: Vec<String> = (0..4).map(|stream| has(&edges[0], &format!("s{stream}"))).collect();
    for (at, edge) in edges.iter().enumerate() {
        assert_eq!((0..4).map(|stream| has(edge, &format!("s{stream}"))).collect::<Vec<_>>(), owners);
        let shown = edge.json(&["media", "cache", "ls"]);
        let mut recorded: Vec<_> = shown.as_array().unwrap().iter().map(|own| own["stream"].clone()).collect();
        recorded.sort_by_key(ToString::to_string);
        let own = (0..4).filter(|stream| owners[*stream] == NAMES[at]);
        assert_eq!(recorded, own.map(|stream| Json::from(format!("s{stream}"))).collect::<Vec<_>>(), "{}", NAMES[at]);
    }

    // What is no member is left out, and said.
    etcd.put("odd", "nothing");
    etcd.put("twin", r#"{"host": "10.0.2.2", "port": 8554}"#);
    let left_out = rubbish.iter().map(|name| (name.as_str(), "value")).chain([("odd", "value"), ("twin", "twice")]);
    let left_out: BTreeMap<&str, &str> = left_out.collect();
    edges[0].wait("it is not left out", |edge| source(edge)["left_out"] == json!(left_out));
    assert_eq!(others(&edges[0]), ["e2", "e3"]);
    assert!(edges[0].said().contains("left out"), "{}", edges[0].said());

    // A killed one is gone when its time is over, and others' viewers go on.
    let mut killed = edges.pop().unwrap();
    killed.kill();
    for (at, edge) in edges.iter().enumerate() {
        edge.wait("it stays", |edge| others(edge) == but(&NAMES[..2], at));
    }
    // Without etcd who was known stays so.
    etcd.kill();
    for (at, edge) in edges.iter().enumerate() {
        edge.wait("it is not noticed", |edge| source(edge)["connected"].is_null());
        assert_eq!(others(edge), but(&NAMES[..2], at));
        let shown = edge.millrace(&["media", "peers"]).ok();
        assert!(shown.contains("nowhere"), "{shown}");
    }
    // It is there again, and knows nothing of what was before.
    etcd.start();
    etcd.put("e3", r#"{"host": "10.0.2.13"}"#);
    etcd.compact();
    for (at, edge) in edges.iter().enumerate() {
        edge.wait("it is not watched again", |edge| others(edge) == but(&NAMES, at));
        edge.wait("it is not registered again", |edge| source(edge)["registered"] == true);
    }
    // Another one has the name: it is not fought for, and free when that one is gone.
    killed.start_again();
    killed.wait("nobody says so", |edge| {
        source(edge)["refused"].as_str().is_some_and(|why| why.contains("is registered already, at 10.0.2.13"))
    });
    etcd.delete("e3");
    killed.wait("it is not registered", |edge| source(edge)["registered"] == true);
    let address = |edge: &Media, name: &str| {
        let state = edge.json(&["media", "peers"]);
        let all = state["peers"].as_array().unwrap().clone();
        all.into_iter().find(|own| own["server"]["name"] == name).map(|own| own["origin"].clone())
    };
    edges[0].wait("its place is not known", |edge| address(edge, "e3") == Some("10.0.2.3:8554".into()));
    // At an orderly end it is removed at once.
    let said = killed.stop();
    // Where the disk is busy etcd may be slow: the lease ends then.
    assert!(!etcd.has("e3") || said.contains(NOT_TOLD), "{said}");
    assert!(etcd.has("e1") && etcd.has("e2"));
    edges[0].wait("it is a member still", |edge| others(edge) == ["e2"]);
    let key = std::fs::read_to_string(etcd.file("edge.key")).unwrap();
    // Who has another password there is told so, and finds nobody.
    edges.pop().unwrap().stop();
    let wrong = sections[1].replace(PASSWORD, "wrong");
    let refused = edge("afpacket", hub, 1, &wrong);
    refused.wait("nobody says so", |edge| {
        source(edge)["last_error"].as_str().is_some_and(|why| why.contains("invalid user ID or password"))
    });
    let said = refused.stop();
    assert!(!said.contains("wrong") && !said.contains(PASSWORD), "{said}");
    // An etcd that does not answer, in the midst of a request, delays nobody's end.
    etcd.halt();
    std::thread::sleep(TTL);
    let said = edges.pop().unwrap().stop();
    assert!(said.contains(NOT_TOLD), "{said}");
    assert!(!said.contains(PASSWORD) && !said.contains(key.lines().nth(1).unwrap()), "{said}");
}

#[test]
fn siblings_are_endpoints_of_a_service() {
    let origin = origins();
    let service = |revision: u64, endpoints: &[(&str, &str)]| slice("media-edge-x", revision, endpoints);
    let all = [("e1", "10.0.2.1"), ("e2", "10.0.2.2")];
    let api = ApiServer::start(&origin, "10.0.2.11:6443", 10, &[service(8, &all)]);
    let files = Directory::new("token");
    std::fs::create_dir_all(files.text()).unwrap();
    let token = format!("{}/token", files.text());
    std::fs::write(&token, "first-secret\n").unwrap();
    let section = format!(
        "[controllers.media.peers]\nname = \"e1\"\nsiblings = {{ kubernetes = {{ service = \"media-edge\", namespace = \
         \"tv\", port = \"rtsp\", api = \"http://10.0.2.11:6443\", token = \"{token}\" }} }}\n"
    );
    let edge = edge("afpacket", &origin, 0, &section);
    edge.wait("endpoints are not found", |edge| others(edge) == ["e2"]);
    let watched = |asked: &[&str]| edge.wait("it is not watched", |_| api.asked() == asked);
    watched(&["list", "watch 10"]);
    assert_eq!(api.tokens(), ["Bearer first-secret"]);
    // One comes, in pieces of a line.
    let with = [all[0], all[1], ("e3", "10.0.2.3")];
    api.say(&[&json!({ "type": "MODIFIED", "object": service(12, &with) })]);
    edge.wait("one more is not found", |edge| others(edge) == ["e2", "e3"]);
    assert_eq!(source(&edge)["revision"], "12");
    // A watch that ends goes on where it was, with another token.
    std::fs::write(&token, "second-secret\n").unwrap();
    api.say(&[&json!({ "type": "BOOKMARK", "object": { "metadata": { "resourceVersion": "20" } } })]);
    edge.wait("a bookmark is not known", |edge| source(edge)["revision"] == "20");
    api.hang_up();
    watched(&["list", "watch 10", "watch 20"]);
    assert_eq!(api.tokens(), ["Bearer first-secret", "Bearer second-secret"]);
    // What followed is forgotten: it is listed again. One ends, and one is new.
    let mut ending = service(30, &[all[0], all[1], ("e4", "10.0.2.4")]);
    ending["endpoints"][1]["conditions"] = json!({ "ready": false, "serving": true, "terminating": true });
    api.list(30, &[ending]);
    api.say(&[&json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410, "reason": "Expired" } })]);
    edge.wait("it is not listed again", |edge| others(edge) == ["e4"]);
    watched(&["list", "watch 10", "watch 20", "list", "watch 30"]);
    // An answer with that status is the same.
    api.list(40, &[service(40, &all)]);
    api.forget(40);
    api.hang_up();
    edge.wait("it is not listed again", |edge| others(edge) == ["e2"]);
    watched(&["list", "watch 10", "watch 20", "list", "watch 30", "watch 30", "list", "watch 40"]);
    // Without the API server who was known stays so.
    drop(api);
    edge.wait("it is not noticed", |edge| source(edge)["connected"].is_null());
    assert_eq!(others(&edge), ["e2"]);
    let said = edge.stop();
    assert!(!said.contains("secret"), "{said}");
}
