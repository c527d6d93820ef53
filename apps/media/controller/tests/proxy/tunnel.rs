//! Clients that speak RTSP over HTTP.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use media::proxy::ClientId;
use wire::rtsp::framing::{Item, interleaved};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::tunnel::{Beginning, beginning};

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

const GET: &str = "GET /film HTTP/1.0\r\nx-sessioncookie: k\r\nAccept: application/x-rtsp-tunnelled\r\n\r\n";
/// As most clients send it: the length means nothing.
const POST: &str = "POST /film HTTP/1.0\r\nx-sessioncookie: k\r\nContent-Length: 32767\r\n\r\n";

/// A connection that begins as half of a tunnel; whether more can be read.
fn half(model: &mut Model, from: &str, head: &str) -> (ClientId, bool) {
    let id = model.client(from);
    let Ok(Beginning::Tunnel(opening, length)) = beginning(head.as_bytes()) else { panic!("{head}") };
    assert_eq!(length, head.len());
    let open = model.proxy.tunnel_opened(id, opening);
    model.run();
    (id, open)
}

fn tunnel(model: &mut Model) -> (ClientId, ClientId) {
    let (get, post) = (half(model, CLIENT, GET), half(model, CLIENT, POST));
    assert!(get.1 && post.1);
    assert_eq!(model.http, [(get.0, 200)], "POST has no answer");
    (get.0, post.0)
}

fn request(method: &str, url: &str, headers: &[(&str, &str)]) -> String {
    let mut request = Request::new(method, url);
    [("CSeq", "9")].iter().chain(headers).for_each(|(name, value)| request.headers.push(name, *value));
    STANDARD.encode(request.to_bytes())
}

/// Sends text on a POST, so many characters at a time.
fn send(model: &mut Model, post: ClientId, text: &str, size: usize) -> bool {
    let open = text.as_bytes().chunks(size).all(|piece| model.proxy.tunnel_bytes(post, piece));
    model.run();
    open
}

#[track_caller]
fn good(model: &mut Model, (get, post): (ClientId, ClientId), size: usize, text: &str) -> Response {
    assert!(send(model, post, text, size));
    let answer = model.answer(get).expect("an answer on the connection of the GET");
    assert_eq!((answer.status, answer.cseq()), (200, Some(9)), "{answer:?}");
    answer
}

const CARRIED: (&str, &str) = ("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1");

#[test]
fn requests_come_by_post_and_all_else_goes_by_get() {
    for size in [1, 3, 50, 10_000] {
        let mut model = Model::new(Options { tracks: 1, ..Options::default() });
        let own = tunnel(&mut model);
        good(&mut model, own, size, &request("DESCRIBE", URL, &[]));
        let answer = good(&mut model, own, size, &request("SETUP", URL, &[CARRIED]));
        let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
        good(&mut model, own, size, &request("PLAY", URL, &[("Session", &session)]));
        let (_, flow) = model.flow_from(6970);
        model.proxy.deliver(flow.track, 0, &[0x80, 33, 0, 100, 0, 0, 0, 0, 1, 2, 3, 4, 42]);
        model.run();
        let data = model.data(own.0);
        assert_eq!((data.len(), data[0].0, data[0].1[12]), (1, 0, 42));
        assert_eq!(model.proxy.session_states()[0].tracks[0].to, "tunnelled");
        // What the client says of how it receives comes by POST, too.
        let ssrc = u32::from_be_bytes(data[0].1[8..12].try_into().unwrap());
        let report = wire::rtcp::Report {
            ssrc,
            fraction_lost: 128,
            lost: 4,
            highest: 0,
            jitter: 0,
            last_sender_report: 0,
            delay: 0,
        };
        let framed = interleaved(1, &wire::rtcp::receiver_report(1, "x", Some(&report))).unwrap();
        assert!(send(&mut model, own.1, &STANDARD.encode(framed), size));
        assert_eq!(model.proxy.session_states()[0].tracks[0].lost, Some(4));
        // It lives as long as its GET is there, whatever comes by POST.
        model.wait(Duration::from_secs(300));
        assert_eq!((model.proxy.sizes().0, model.proxy.sizes().1), (2, 1));
        model.proxy.client_closed(own.0);
        model.run();
        assert!(model.closed_clients.contains(&own.1));
        model.is_empty();
        assert_eq!(model.proxy.sizes().0, 0);
    }
}

#[test]
fn posts_may_follow_each_other() {
    let mut model = Model::new(Options::default());
    let (get, first) = tunnel(&mut model);
    // A message in two parts, by two connections; the first is given up, or is ended.
    let text = request("OPTIONS", URL, &[]);
    assert!(send(&mut model, first, &text[..20], 7));
    let (second, open) = half(&mut model, CLIENT, POST);
    assert!(open && model.closed_clients.contains(&first));
    good(&mut model, (get, second), 9, &text[20..]);
    model.proxy.client_closed(second);
    let whole = request("OPTIONS", URL, &[]);
    let head = POST.replace("32767", &whole.len().to_string());
    // One with a true length is answered, and another one may come behind it on the same connection.
    let (third, _) = half(&mut model, CLIENT, &head);
    for size in [1, 4096] {
        model.http.clear();
        good(&mut model, (get, third), size, &whole);
        assert_eq!(model.http, [(third, 200)]);
        assert!(send(&mut model, third, &head, size));
    }
    // One that says a length and sends more.
    let short = POST.replace("32767", "8");
    let (fourth, _) = half(&mut model, CLIENT, &short);
    model.http.clear();
    good(&mut model, (get, fourth), 5, &whole);
    good(&mut model, (get, fourth), 5, &whole);
    assert!(model.closed_clients.contains(&third));
    model.proxy.client_closed(get);
    model.run();
    assert_eq!(model.proxy.sizes().0, 0);
}

#[test]
fn what_is_no_tunnel_is_refused() {
    let mut model = Model::new(Options::default());
    let (get, post) = tunnel(&mut model);
    // A cookie is its client's alone, and only once.
    for (from, head, status) in
        [(OTHER, POST, 404), (CLIENT, &*POST.replace(": k", ": other"), 404), (CLIENT, GET, 409)]
    {
        let (id, open) = half(&mut model, from, head);
        assert!(!open && model.closed_clients.contains(&id));
        assert_eq!(model.http.last(), Some(&(id, status)));
    }
    // Another client may have the same cookie, and knows nothing of the first.
    let (other, open) = half(&mut model, OTHER, GET);
    assert!(open);
    good(&mut model, (get, post), 10, &request("OPTIONS", URL, &[]));
    assert!(model.answer(other).is_none());
    // What comes on the connection of the GET means nothing.
    assert!(model.proxy.tunnel_bytes(other, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"));
    model.run();
    assert!(model.answer(other).is_none());
    // Without a POST it is as any connection without a session.
    model.wait(Duration::from_secs(61));
    assert!(model.closed_clients.contains(&other));
    // So is one by which nothing comes that is a request.
    for _ in 0..20 {
        assert!(send(&mut model, post, &"\r\n".repeat(5000), 1000) || model.closed_clients.contains(&post));
        model.wait(Duration::from_secs(10));
    }
    assert!(model.closed_clients.contains(&get) && model.closed_clients.contains(&post));
    assert_eq!(model.proxy.sizes().0, 0);
}

#[test]
fn endless_and_broken_text_ends_the_tunnel() {
    let endless = STANDARD.encode([b'A'; 30_000]);
    let many = request("DESCRIBE", URL, &[]).repeat(200);
    let slow = Options { silent: vec!["DESCRIBE".into()], ..Options::default() };
    for (text, status, options) in [
        (endless.as_str(), 431, Options::default()),
        ("T1BU!!!!", 400, Options::default()),
        (&STANDARD.encode("no request\r\n\r\n"), 400, Options::default()),
        (&many, 400, slow),
    ] {
        let mut model = Model::new(options);
        let (get, post) = tunnel(&mut model);
        assert!(!send(&mut model, post, text, 1000), "{status}");
        assert_eq!(model.answer(get).unwrap().status, status);
        assert!(model.closed_clients.contains(&get) && model.closed_clients.contains(&post));
        assert_eq!(model.proxy.sizes().0, 0);
        assert!(!model.proxy.tunnel_bytes(post, b"QUJD"), "nothing is read any more");
    }
}

#[test]
fn a_tunnel_publishes_as_any_connection() {
    let mut model = Model::with(Options::default(), crate::publish::stage);
    let own = tunnel(&mut model);
    let url = "rtsp://proxy/stage";
    let mut announce = Request::new("ANNOUNCE", url);
    announce.headers.push("CSeq", "9");
    announce.headers.push("Content-Type", "application/sdp");
    announce.body = b"v=0\r\nm=audio 0 RTP/AVP 8\r\na=control:a\r\n".to_vec();
    good(&mut model, own, 11, &STANDARD.encode(announce.to_bytes()));
    let wanted = [("Transport", "RTP/AVP/TCP;interleaved=0-1;mode=record")];
    good(&mut model, own, 11, &request("SETUP", &format!("{url}/a"), &wanted));
    good(&mut model, own, 11, &request("RECORD", url, &[]));
    let packet = vec![0x80, 8, 0, 1, 0, 0, 0, 0, 9, 9, 9, 9, 42];
    assert!(send(&mut model, own.1, &STANDARD.encode(interleaved(0, &packet).unwrap()), 2));
    assert_eq!(model.proxy.stream_states()[0].tracks[0].packets, 1);
    // The same straight to the client, as a connection without a tunnel has it.
    model.proxy.client_item(own.0, Item::Data { channel: 0, packet });
    model.proxy.client_closed(own.1);
    model.run();
    assert_eq!(model.proxy.stream_states().len(), 1);
    model.proxy.client_closed(own.0);
    model.run();
    model.is_empty();
}
