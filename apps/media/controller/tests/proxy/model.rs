//! The state machine between models of clients and origins.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use media::cache::recordings::Recorded;
use media::proxy::accounts::Ended;
use media::proxy::world::{Effect, From, Listening, World};
use media::proxy::{ClientId, Left, OriginId, Proxy};
use media::settings::cache::{CacheSettings, Films};
use media::settings::{Allowed, Credentials, Named, Settings};
use media::tables::{Flow, FlowKey, Leads, Progress, Receiver};
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::{Request, Response};

use crate::origin::{Options, Origin};

/// What the proxy asks for.
#[derive(Default)]
pub struct Surroundings {
    state: u64,
    /// Pairs of ports that are taken.
    pub pairs: BTreeSet<u16>,
    /// How many there may be.
    pub most_pairs: usize,
    /// Where streams come to, in order,
    pub listening: Vec<Listening>,
    /// and ports where none may.
    pub no_port: BTreeSet<u16>,
    /// Those that another program has.
    pub refused_pairs: BTreeSet<u16>,
    pub progress: BTreeMap<u32, Progress>,
    /// Members of groups, by group and number.
    pub members: BTreeMap<(u32, u32), Receiver>,
    pub clock: u64,
    /// Receivers to which the program does not know the way.
    pub unknown: BTreeSet<IpAddr>,
    /// Tracks that are recorded, and as what.
    pub recorded: BTreeMap<u32, String>,
    /// Those whose recordings could not go on.
    pub broken: Vec<u32>,
    /// Whether films are.
    pub keeps_films: bool,
}

/// A track of which it is not said yet as what it is recorded.
const EXPECTED: &str = "expected";

impl World for Surroundings {
    fn random(&mut self) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bind_pair(&mut self, _: IpAddr) -> Option<u16> {
        let free =
            (20000..).step_by(2).find(|port| !self.pairs.contains(port)).filter(|_| self.pairs.len() < self.most_pairs);
        free.inspect(|port| _ = self.pairs.insert(*port))
    }

    fn bind_pair_again(&mut self, _: IpAddr, port: u16) -> bool {
        !self.refused_pairs.contains(&port) && self.pairs.insert(port)
    }

    fn bind_media(&mut self, _: IpAddr) -> bool {
        true
    }

    fn listen(&mut self, at: &Listening) -> Result<(), String> {
        if self.no_port.contains(&at.port) {
            return Err("taken".into());
        }
        assert!(self.pairs.insert(at.port), "the port is free");
        self.listening.push(at.clone());
        Ok(())
    }

    fn leave(&mut self, _: IpAddr, port: u16) {
        assert!(self.pairs.remove(&port), "{port} was not taken");
    }

    fn has_way(&mut self, to: IpAddr) -> bool {
        !self.unknown.contains(&to)
    }

    fn progress(&mut self, track: u32) -> Progress {
        self.progress.get(&track).copied().unwrap_or_default()
    }

    fn set_progress(&mut self, track: u32, progress: &Progress) {
        self.progress.insert(track, *progress);
    }

    fn reset_progress(&mut self, track: u32) {
        self.progress.remove(&track);
    }

    fn join(&mut self, track: u32, receiver: &Receiver) -> Option<u32> {
        let member = (0..).find(|member| !self.members.contains_key(&(track, *member)))?;
        self.members.insert((track, member), *receiver);
        Some(member)
    }

    fn set_member(&mut self, track: u32, member: u32, receiver: &Receiver) {
        self.members.insert((track, member), *receiver).expect("a member");
    }

    fn begin_recording(&mut self, track: u32, what: &Recorded<'_>) -> bool {
        let at = what.film.as_ref().map_or_else(String::new, |own| format!(" from {}", own.source.position));
        let before = self.recorded.insert(track, format!("{} {}{at}", what.name, what.track));
        assert!(before.is_none_or(|own| own == EXPECTED), "it is recorded once");
        true
    }

    fn keeps_films(&self) -> bool {
        self.keeps_films
    }

    fn expect_recording(&mut self, track: u32) {
        assert_eq!(self.recorded.insert(track, EXPECTED.into()), None);
    }

    fn end_recording(&mut self, track: u32) {
        self.recorded.remove(&track).expect("it is recorded");
    }

    fn take_broken_recordings(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.broken)
    }

    fn wall(&mut self) -> Duration {
        Duration::from_secs(1_795_546_800) + Duration::from_nanos(self.clock)
    }

    fn clock(&mut self) -> u64 {
        self.clock
    }
}

pub const CLIENT: &str = "10.0.1.11:50000";
pub const OTHER: &str = "10.0.1.12:50000";
/// What the examples ask for.
pub const URL: &str = "rtsp://proxy:8554/10.0.2.11:8554/film";

/// A cache of the configuration, with these films.
pub fn cache(films: Films) -> CacheSettings {
    CacheSettings { directory: "/nowhere".into(), own: media_cache::Settings::default(), films }
}

/// All of it.
pub struct Model {
    pub proxy: Proxy<Surroundings>,
    pub now: Duration,
    /// How origins are, by host; others can't be reached.
    pub hosts: BTreeMap<String, Options>,
    /// Connections to origins, also those that have ended.
    pub origins: BTreeMap<OriginId, (Origin, Framer)>,
    /// Data that came on their channels.
    pub origin_data: Vec<(u8, Vec<u8>)>,
    /// To which host each of them leads.
    pub places: BTreeMap<OriginId, String>,
    /// Those that the proxy has closed.
    pub closed_origins: BTreeSet<OriginId>,
    /// What clients got and have not looked at.
    pub got: BTreeMap<ClientId, (Framer, Vec<Item>)>,
    pub closed_clients: BTreeSet<ClientId>,
    /// Answers of HTTP that clients got: the status of each.
    pub http: Vec<(ClientId, u16)>,
    pub flows: BTreeMap<String, (FlowKey, Flow)>,
    pub datagrams: Vec<(From, SocketAddr, Vec<u8>)>,
    /// Packets that were given to the program.
    pub to_groups: usize,
    /// Receivers to which the way is looked for; the test says when that ends.
    pub sought: Vec<IpAddr>,
    /// The body of ANNOUNCE.
    pub announced: Vec<u8>,
    /// Sessions that have ended.
    pub logged: Vec<Ended>,
    /// Who would have got a packet of any stream over UDP, at each change of entries and members,
    pub audiences: Vec<BTreeSet<SocketAddr>>,
    /// where that is to be noted.
    pub watches: bool,
    /// What was added to the numbers of the first viewer when the process died for the first time.
    pub first_offset: Option<u16>,
    /// What outlasts the process.
    pub records: BTreeMap<String, Vec<u8>>,
    settings: Arc<Settings>,
    cseq: u32,
}

impl Model {
    pub fn new(options: Options) -> Model {
        Model::with(options, |_| {})
    }

    pub fn with(options: Options, change: impl FnOnce(&mut Settings)) -> Model {
        let credentials = Credentials { user: "viewer".into(), password: "secret".into() };
        let mut settings = Settings {
            origins: vec![Allowed::Prefix { address: "10.0.2.0".parse().unwrap(), length: 24 }],
            streams: vec![Named {
                name: "door".into(),
                url: "rtsp://camera.example/1".into(),
                credentials: Some(credentials),
                ..Named::default()
            }],
            ..Settings::default()
        };
        change(&mut settings);
        let surroundings = Surroundings { most_pairs: 1000, ..Surroundings::default() };
        let settings = Arc::new(settings);
        let hosts = ["10.0.2.11", "camera.example"].map(|host| (host.to_owned(), options.clone()));
        Model {
            proxy: Proxy::new(surroundings, settings.clone()),
            now: Duration::ZERO,
            hosts: hosts.into(),
            origins: BTreeMap::new(),
            origin_data: Vec::new(),
            places: BTreeMap::new(),
            closed_origins: BTreeSet::new(),
            got: BTreeMap::new(),
            closed_clients: BTreeSet::new(),
            http: Vec::new(),
            flows: BTreeMap::new(),
            datagrams: Vec::new(),
            to_groups: 0,
            sought: Vec::new(),
            announced: Vec::new(),
            logged: Vec::new(),
            audiences: Vec::new(),
            watches: true,
            first_offset: None,
            records: BTreeMap::new(),
            settings,
            cseq: 0,
        }
    }

    /// A client connects.
    pub fn client(&mut self, from: &str) -> ClientId {
        let id = self.proxy.client_opened(from.parse().unwrap(), "10.0.1.1:8554".parse().unwrap()).expect("room");
        self.got.insert(id, (Framer::default(), Vec::new()));
        id
    }

    /// Carries out what the proxy has done, until it does nothing more.
    pub fn run(&mut self) {
        while let Some(effect) = self.proxy.next_effect() {
            let changes = matches!(effect, Effect::SetFlow(..) | Effect::RemoveFlow(_) | Effect::Leave(..));
            match effect {
                Effect::ToClient(id, bytes) if bytes.starts_with(b"HTTP/") => {
                    assert!(bytes.ends_with(b"\r\n\r\n"));
                    let status = std::str::from_utf8(&bytes[9..12]).unwrap().parse().unwrap();
                    self.http.push((id, status));
                }
                Effect::ToClient(id, bytes) | Effect::MediaToClient(id, bytes, _) => {
                    let Some((framer, items)) = self.got.get_mut(&id) else { continue };
                    framer.push(&bytes);
                    while let Some(item) = framer.next_item().expect("what the proxy sends can be read") {
                        items.push(item);
                    }
                }
                Effect::CloseClient(id) => _ = self.closed_clients.insert(id),
                Effect::Connect { id, host, .. } => match self.hosts.get(&host) {
                    Some(options) => {
                        self.places.insert(id, host.clone());
                        self.origins.insert(id, (Origin::new(options.clone()), Framer::default()));
                        let peer = SocketAddr::new(host.parse().unwrap_or([10, 0, 2, 99].into()), 8554);
                        self.proxy.origin_opened(id, "10.0.2.1:40000".parse().unwrap(), peer);
                    }
                    None => self.proxy.origin_closed(id, "nobody is there"),
                },
                Effect::ToOrigin(id, bytes) => {
                    let Some((origin, framer)) = self.origins.get_mut(&id) else { continue };
                    framer.push(&bytes);
                    let mut answers = Vec::new();
                    while let Some(item) = framer.next_item().expect("what the proxy sends can be read") {
                        match item {
                            Item::Request(request) => answers.extend(origin.answer(&request)),
                            Item::Data { channel, packet } => self.origin_data.push((channel, packet)),
                            Item::Response(_) => {}
                        }
                    }
                    answers.into_iter().for_each(|answer| self.proxy.origin_item(id, Item::Response(answer)));
                }
                Effect::CloseOrigin(id) => _ = self.closed_origins.insert(id),
                Effect::Seek(address) => self.sought.push(address),
                Effect::SetFlow(key, flow) => _ = self.flows.insert(format!("{key:?}"), (key, flow)),
                Effect::RemoveFlow(key) => {
                    self.flows.remove(&format!("{key:?}")).expect("a flow that was set");
                }
                Effect::Log(ended) => self.logged.push(*ended),
                Effect::Leave(track, member) => {
                    self.proxy.world.members.remove(&(track, member)).expect("a member");
                }
                // Each member gets it with what it knows, as the program does it.
                Effect::ToGroup(track, _, packet) => {
                    let header = wire::rtp::Header::read(&packet).expect("RTP");
                    for ((_, _), to) in self.proxy.world.members.range((track, 0)..=(track, u32::MAX)) {
                        let mut copy = packet.clone();
                        to.rewrite.apply(header).write(&mut copy);
                        self.datagrams.push((From::Media(to.from.ip()), to.to, copy));
                    }
                    self.to_groups += 1;
                }
                Effect::ReleasePair(_, port) => assert!(self.proxy.world.pairs.remove(&port), "{port} was not taken"),
                Effect::Datagram(from, to, bytes) => {
                    if let From::Pair(_, port) = from {
                        assert!(self.proxy.world.pairs.contains(&port), "there is no socket that a datagram leaves by");
                    }
                    self.datagrams.push((from, to, bytes));
                }
            }
            if changes && self.watches {
                self.audiences.push(self.audience());
            }
        }
        for (key, value) in self.proxy.take_records().into_iter().chain(self.proxy.take_alive()) {
            match value {
                Some(value) => _ = self.records.insert(key, value),
                None => _ = self.records.remove(&key),
            }
        }
    }

    /// The process dies at once, with its connections and sockets, and another one takes over after a time.
    pub fn die(&mut self, time: Duration, change: impl FnOnce(&mut Settings, &mut Surroundings)) {
        let offset = self.proxy.world.members.values().next().map(|own| own.rewrite.sequence);
        self.first_offset = self.first_offset.or(offset);
        // Numbers of connections are given anew.
        self.origins.clear();
        self.places.clear();
        self.closed_origins.clear();
        self.closed_clients.clear();
        self.got.clear();
        self.now += time;
        let mut settings = Settings::clone(&self.settings);
        let mut world = std::mem::take(&mut self.proxy.world);
        world.pairs.clear();
        world.recorded.clear();
        world.clock = self.now.as_nanos() as u64;
        change(&mut settings, &mut world);
        self.settings = Arc::new(settings);
        let members = world.members.iter().map(|((group, member), own)| (*group, *member, *own)).collect();
        let flows = self.flows.values().copied().collect();
        let records = self.records.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        self.proxy = Proxy::new(world, self.settings.clone());
        self.proxy.take_up(Left { records, flows, members });
        self.run();
    }

    /// A host is gone, with its connections.
    pub fn kill(&mut self, host: &str) {
        self.hosts.remove(host);
        let open = |id: &&OriginId| self.places[*id] == host && !self.closed_origins.contains(id);
        let open: Vec<OriginId> = self.places.keys().filter(open).copied().collect();
        for id in open {
            self.closed_origins.insert(id);
            self.proxy.origin_closed(id, "reset");
        }
        self.run();
    }

    /// How often a host was asked for something.
    pub fn count(&self, host: &str, method: &str) -> usize {
        let of_host = self.origins.iter().filter(|(id, _)| self.places[id] == host);
        of_host.flat_map(|(_, (origin, _))| &origin.asked).filter(|request| request.method == method).count()
    }

    /// Who gets packets over UDP, as the program does it.
    pub fn audience(&self) -> BTreeSet<SocketAddr> {
        let members = |track: u32| self.proxy.world.members.range((track, 0)..=(track, u32::MAX));
        let of = |(_, flow): &(FlowKey, Flow)| match flow.leads {
            Leads::Nobody => Vec::new(),
            Leads::Receiver { to, .. } => vec![to],
            Leads::Group => members(flow.track).map(|(_, receiver)| receiver.to).collect(),
        };
        self.flows.values().flat_map(of).collect()
    }

    /// Sends a request; the answer, if it has come.
    pub fn try_ask(&mut self, client: ClientId, method: &str, url: &str, headers: &[(&str, &str)]) -> Option<Response> {
        let mut request = Request::new(method, url);
        self.cseq += 1;
        request.headers.push("CSeq", self.cseq.to_string());
        headers.iter().for_each(|(name, value)| request.headers.push(name, *value));
        if method == "ANNOUNCE" {
            request.body.clone_from(&self.announced);
        }
        self.send(client, request);
        self.answer(client)
    }

    pub fn send(&mut self, client: ClientId, request: Request) {
        self.proxy.client_item(client, Item::Request(request));
        self.run();
    }

    /// The next answer that a client has got.
    pub fn answer(&mut self, client: ClientId) -> Option<Response> {
        let items = &mut self.got.get_mut(&client)?.1;
        let at = items.iter().position(|item| matches!(item, Item::Response(_)))?;
        match items.remove(at) {
            Item::Response(response) => Some(response),
            _ => None,
        }
    }

    /// The packets that a client has got on its connection.
    pub fn data(&mut self, client: ClientId) -> Vec<(u8, Vec<u8>)> {
        let items = std::mem::take(&mut self.got.get_mut(&client).unwrap().1);
        items
            .into_iter()
            .filter_map(|item| match item {
                Item::Data { channel, packet } => Some((channel, packet)),
                _ => None,
            })
            .collect()
    }

    /// Sends a request and gets the answer, with the number of the request.
    #[track_caller]
    pub fn ask(&mut self, client: ClientId, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
        let answer = self.try_ask(client, method, url, headers).expect("an answer");
        assert_eq!(answer.cseq(), Some(self.cseq), "{method}");
        answer
    }

    /// The same where it must succeed.
    #[track_caller]
    pub fn good(&mut self, client: ClientId, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
        let answer = self.ask(client, method, url, headers);
        assert_eq!(answer.status, 200, "{method} {url}: {answer:?}");
        answer
    }

    /// Sets up tracks over UDP, from a port on; the session.
    #[track_caller]
    pub fn set_up(&mut self, client: ClientId, url: &str, tracks: usize, port: u16) -> String {
        let mut session = String::new();
        for track in 0..tracks {
            let port = port + 2 * track as u16;
            let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
            let mut headers = vec![("Transport", transport.as_str())];
            if !session.is_empty() {
                headers.push(("Session", &session));
            }
            let answer = self.good(client, "SETUP", &format!("{url}/trackID={track}"), &headers);
            let said = answer.headers.get("session").unwrap();
            session = said.split(';').next().unwrap().to_owned();
        }
        session
    }

    /// Time goes on, with a look at what is due each half second.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(500);
            self.proxy.world.clock = self.now.as_nanos() as u64;
            self.proxy.set_now(self.now);
            self.proxy.tick();
            self.run();
        }
    }

    /// The only flow entry from a port.
    #[track_caller]
    pub fn flow_from(&self, port: u16) -> (FlowKey, Flow) {
        let mut found = self.flows.values().filter(|(key, _)| key.src.port() == port);
        let one = found.next().unwrap_or_else(|| panic!("no flow from {port}: {:?}", self.flows));
        assert!(found.next().is_none());
        *one
    }

    /// What the last connection to an origin was asked: methods.
    pub fn methods(&self) -> Vec<&str> {
        let (origin, _) = self.origins.values().last().expect("an origin");
        origin.asked.iter().map(|request| request.method.as_str()).collect()
    }

    /// Nothing is left: no session, no presentation, no port, no flow.
    #[track_caller]
    pub fn is_empty(&self) {
        // Connections of clients may be there, and nothing else.
        let theirs = ["clients", "addresses of clients", "halves of tunnels"];
        let held = self.proxy.held();
        assert!(held["addresses of clients"] <= held["clients"], "{held:?}");
        let left: Vec<_> = held.into_iter().filter(|(what, count)| *count > 0 && !theirs.contains(what)).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(self.proxy.world.pairs.is_empty(), "{:?}", self.proxy.world.pairs);
        assert!(self.flows.is_empty(), "{:?}", self.flows);
        assert!(self.proxy.world.members.is_empty(), "{:?}", self.proxy.world.members);
        assert!(self.proxy.world.recorded.is_empty(), "{:?}", self.proxy.world.recorded);
        let open: Vec<_> = self.origins.keys().filter(|id| !self.closed_origins.contains(id)).collect();
        assert!(open.is_empty(), "{open:?}");
        let records: Vec<_> = self.records.keys().filter(|key| *key != "alive").collect();
        assert!(records.is_empty(), "{records:?}");
    }
}
