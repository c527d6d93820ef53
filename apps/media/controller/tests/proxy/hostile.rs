//! Anything in any order, from both sides: the proxy stays whole, and nothing is left when all have gone.

use std::time::Duration;

use proptest::prelude::*;
use wire::rtsp::framing::Item;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::tunnel::{Half, Opening};

use crate::model::{CLIENT, Model, OTHER};
use crate::origin::Options;
use crate::pools::pooled_model;

/// What one side does.
#[derive(Clone, Debug)]
enum Step {
    /// A client asks: which one, the method, the URL, the transport, whether it names the last session, a range.
    Ask(bool, usize, usize, usize, bool, Option<String>),
    /// A client sends data on a channel.
    Data(bool, u8, Vec<u8>),
    /// A client's connection ends, and another one begins.
    Reconnect(bool),
    /// A client's bytes can't be read.
    Garbage(bool),
    /// An origin says something that it was not asked.
    Origin(u16, Option<u32>, Vec<(usize, String)>, Vec<u8>),
    /// An origin sends data on a channel.
    OriginData(u8, Vec<u8>),
    /// An origin asks.
    OriginAsks(usize),
    /// An origin's connection ends.
    OriginGone,
    /// RTCP or RTP comes to some port.
    Datagram(u16, u16, Vec<u8>),
    /// A datagram comes to the group of a source without RTSP, from some port.
    Group(u16, Vec<u8>),
    /// A client has another half of a tunnel, with some cookie, or sends text by the last one that it had.
    Tunnel(bool, bool, u8),
    Text(bool, Vec<u8>),
    /// A packet is tapped.
    Tapped(u32, Vec<u8>),
    /// The process dies, and another one takes over after so many seconds.
    Die(u64),
    /// Time goes on.
    Wait(u64),
    /// The way to a client is lost, or is there again.
    Way(bool, bool),
}

const METHODS: [&str; 11] = [
    "OPTIONS",
    "DESCRIBE",
    "SETUP",
    "PLAY",
    "PAUSE",
    "TEARDOWN",
    "GET_PARAMETER",
    "SET_PARAMETER",
    "ANNOUNCE",
    "RECORD",
    "REDIRECT",
];
/// URLs: of a film or a live stream, of one that clients publish, of one without RTSP, and of the origin itself.
const URLS: [&str; 13] = [
    "rtsp://proxy:8554/10.0.2.11:8554/film",
    "rtsp://proxy:8554/10.0.2.11:8554/film/",
    "rtsp://proxy:8554/10.0.2.11:8554/film/trackID=0",
    "rtsp://proxy:8554/10.0.2.11:8554/film/trackID=1",
    "rtsp://proxy:8554/10.0.2.11:8554/film/trackID=999",
    "rtsp://proxy/stage",
    "rtsp://proxy/stage/trackID=0",
    "rtsp://proxy/stage/x",
    "rtsp://proxy/hall",
    "rtsp://proxy/hall/trackID=0",
    "rtsp://10.0.2.11:8554/film",
    "rtsp://10.0.2.11:8554/film/trackID=0",
    "rtsp://10.0.2.11:8554/other/",
];
/// What is announced.
const SDP: &[u8] = b"v=0\r\nm=video 0 RTP/AVP 33\r\na=control:trackID=0\r\nm=audio 0 RTP/AVP 8\r\na=control:x\r\n";
const TRANSPORTS: [&str; 5] = [
    "RTP/AVP;unicast;client_port=5000-5001",
    "RTP/AVP/TCP;unicast;interleaved=0-1",
    "RTP/AVP/TCP",
    "RTP/AVP;multicast",
    "",
];
const HEADERS: [&str; 6] = ["Session", "Transport", "RTP-Info", "Content-Base", "Location", "WWW-Authenticate"];

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let range = prop::option::of("(npt=[0-9.]{1,3}-|npt=now-|[a-z=-]{1,6})");
    prop_oneof![
        8 => (any::<bool>(), 0..METHODS.len(), 0..URLS.len(), 0..TRANSPORTS.len(), prop::bool::weighted(0.8), range)
            .prop_map(|(other, method, end, transport, named, range)| Step::Ask(other, method, end, transport, named, range)),
        1 => (any::<bool>(), 0u8..4, bytes()).prop_map(|(other, channel, bytes)| Step::Data(other, channel, bytes)),
        1 => any::<bool>().prop_map(Step::Reconnect),
        1 => any::<bool>().prop_map(Step::Garbage),
        2 => (200u16..600, prop::option::of(0u32..12), prop::collection::vec((0..HEADERS.len(), "[a-zA-Z0-9=;/:,\" -]{0,30}"), 0..3), bytes())
            .prop_map(|(status, cseq, headers, body)| Step::Origin(status, cseq, headers, body)),
        1 => (0u8..4, bytes()).prop_map(|(channel, bytes)| Step::OriginData(channel, bytes)),
        1 => (0..METHODS.len()).prop_map(Step::OriginAsks),
        1 => Just(Step::OriginGone),
        1 => (20000u16..20006, 6968u16..6975, bytes()).prop_map(|(to, from, bytes)| Step::Datagram(to, from, bytes)),
        1 => (7000u16..7003, prop_oneof![bytes(), Just([[0x80, 33].as_slice(), &[7; 20]].concat()), Just(vec![0x47; 188])])
            .prop_map(|(from, bytes)| Step::Group(from, bytes)),
        1 => (any::<bool>(), any::<bool>(), 0u8..2).prop_map(|(other, post, cookie)| Step::Tunnel(other, post, cookie)),
        1 => (any::<bool>(), prop_oneof![bytes(), "[A-Za-z0-9+/=]{0,40}".prop_map(String::into_bytes)])
            .prop_map(|(other, text)| Step::Text(other, text)),
        1 => (0u32..3, bytes()).prop_map(|(track, bytes)| Step::Tapped(track, bytes)),
        1 => prop_oneof![4 => 0u64..20, 1 => 60u64..100].prop_map(Step::Die),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(other, lost)| Step::Way(other, lost)),
        2 => (1u64..40).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_left(live in any::<bool>(), tcp_only in any::<bool>(), guarded in prop::bool::weighted(0.2), pooled in any::<bool>(), tracks in 1usize..3,
                       silent in prop::option::of(0..METHODS.len()), steps in prop::collection::vec(step(), 0..40)) {
        let silent = silent.map(|method| METHODS[method].to_owned()).into_iter().collect();
        let password = guarded.then(|| ("viewer".to_owned(), "secret".to_owned()));
        let coding = Some(("H264", 96));
        let options =
            Options { live, tcp_only, tracks, silent, password, timeout: 20, coding, ..Options::default() };
        let mut model =
            if pooled { pooled_model(options) } else { Model::with(options, |settings| {
                crate::publish::stage(settings);
                settings.streams.push(crate::source::hall("udp://239.1.2.3:5004", None));
                settings.limits.late_join = if live { 400 } else { 0 };
            }) };
        model.announced = SDP.to_vec();
        let mut clients = [model.client(CLIENT), model.client(OTHER)];
        let mut sessions = [String::new(), String::new()];
        let mut posts = [0; 2];
        for step in steps {
            match step {
                Step::Ask(other, method, end, transport, named, range) => {
                    let at = usize::from(other);
                    let kind = ("Content-Type", "application/sdp");
                    let mut headers = vec![("Transport", TRANSPORTS[transport]), kind];
                    // A wrong proof, or one of the other user's.
                    if transport == 1 {
                        headers.push(("Authorization", "Basic dmlld2VyOnNlY3JldA=="));
                    }
                    let session = sessions[at].clone();
                    if named && !session.is_empty() {
                        headers.push(("Session", &session));
                    }
                    range.as_ref().into_iter().for_each(|range| headers.push(("Range", range)));
                    let url = URLS[end].replace(URLS[0], if pooled { "rtsp://proxy/door" } else { URLS[0] });
                    let answer = model.try_ask(clients[at], METHODS[method], &url, &headers);
                    if let Some(said) = answer.as_ref().and_then(|answer| answer.headers.get("session")) {
                        sessions[at] = said.split(';').next().unwrap().to_owned();
                    }
                }
                Step::Data(other, channel, packet) => {
                    model.proxy.client_item(clients[usize::from(other)], Item::Data { channel, packet });
                }
                Step::Reconnect(other) => {
                    model.proxy.client_closed(clients[usize::from(other)]);
                    clients[usize::from(other)] = model.client([CLIENT, OTHER][usize::from(other)]);
                }
                Step::Garbage(other) => {
                    model.proxy.client_failed(clients[usize::from(other)], wire::refused::Refused(400));
                    clients[usize::from(other)] = model.client([CLIENT, OTHER][usize::from(other)]);
                }
                Step::Origin(status, cseq, headers, body) => {
                    let Some(id) = model.origins.keys().last().copied() else { continue };
                    let mut response = Response::new(status, cseq);
                    for (name, value) in headers {
                        response.headers.push(HEADERS[name], value);
                    }
                    response.body = body;
                    model.proxy.origin_item(id, Item::Response(response));
                }
                Step::OriginData(channel, packet) => {
                    let Some(id) = model.origins.keys().last().copied() else { continue };
                    model.proxy.origin_item(id, Item::Data { channel, packet });
                }
                Step::OriginAsks(method) => {
                    let Some(id) = model.origins.keys().last().copied() else { continue };
                    let mut request = Request::new(METHODS[method], "*");
                    request.headers.push("Location", URLS[0]);
                    model.proxy.origin_item(id, Item::Request(request));
                }
                Step::OriginGone => {
                    let Some(id) = model.origins.keys().last().copied() else { continue };
                    model.proxy.origin_closed(id, "gone");
                }
                Step::Datagram(to, from, bytes) => {
                    let (own, from) = ("10.0.2.1".parse().unwrap(), format!("10.0.2.11:{from}").parse().unwrap());
                    model.proxy.media_at_socket(own, to, from, &bytes);
                    model.proxy.report_from_origin(own, to, from, &bytes);
                    model.proxy.report_from_client("10.0.1.11".parse().unwrap(), &bytes);
                }
                Step::Group(from, bytes) => {
                    let (group, from) = ("239.1.2.3".parse().unwrap(), format!("10.0.2.11:{from}").parse().unwrap());
                    model.proxy.media_at_socket(group, 5004, from, &bytes);
                    model.proxy.report_from_origin(group, 5004, from, &bytes);
                }
                Step::Tunnel(other, post, cookie) => {
                    let id = model.client([CLIENT, OTHER][usize::from(other)]);
                    let half = if post { Half::Post } else { Half::Get };
                    let opening = Opening { half, cookie: cookie.to_string(), length: (cookie == 0).then_some(8) };
                    if model.proxy.tunnel_opened(id, opening) && post {
                        posts[usize::from(other)] = id;
                    }
                }
                Step::Text(other, text) => _ = model.proxy.tunnel_bytes(posts[usize::from(other)], &text),
                Step::Tapped(track, bytes) => {
                    // Some of it begins as a packet of pictures does.
                    let unit = bytes.first().copied().unwrap_or_default();
                    let head = [0x80, 96, 0, unit, 0, 0, 0, unit / 4, 1, 2, 3, 4];
                    model.proxy.deliver(track, u32::from(unit) % 3, &[&head[..], &bytes].concat());
                    model.proxy.deliver(track, 0, &bytes);
                },
                Step::Die(seconds) => {
                    model.die(Duration::from_secs(seconds), |_, _| {});
                    clients = [model.client(CLIENT), model.client(OTHER)];
                    posts = clients;
                }
                Step::Way(other, lost) => {
                    let address = [CLIENT, OTHER][usize::from(other)].parse::<std::net::SocketAddr>().unwrap().ip();
                    if lost {
                        model.proxy.world.unknown.insert(address);
                    } else if !model.proxy.world.unknown.remove(&address) || model.sought.contains(&address) {
                        model.sought.retain(|own| *own != address);
                        model.proxy.way_sought(address);
                    }
                }
                Step::Wait(half_seconds) => model.wait(Duration::from_millis(500 * half_seconds)),
            }
            model.run();
            model.proxy.stream_states();
            model.proxy.session_states();
        }
        clients.into_iter().for_each(|client| model.proxy.client_closed(client));
        std::mem::take(&mut model.sought).into_iter().for_each(|address| model.proxy.way_sought(address));
        model.run();
        model.wait(Duration::from_secs(100));
        model.proxy.end();
        model.run();
        model.is_empty();
        prop_assert_eq!(model.proxy.sizes(), (0, 0, 0));
    }
}
