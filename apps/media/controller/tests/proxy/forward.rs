//! Clients that send the origin's own URL to the proxy, and prove at the origin who they are.

use http_auth::{PasswordClient, PasswordParams};
use media::proxy::ClientId;
use media::settings::Credentials;
use media::settings::access::Access;
use media::tables::Leads;
use wire::rtsp::message::Response;
use wire::rtsp::rtp_info;
use wire::sdp::Description;

use crate::model::{CLIENT, Model, OTHER};
use crate::origin::Options;

const FILM: &str = "rtsp://10.0.2.11:8554/film";
const UDP: (&str, &str) = ("Transport", "RTP/AVP;unicast;client_port=5000-5001");

fn guarded(live: bool) -> Options {
    let password = Some(("viewer".to_owned(), "secret".to_owned()));
    Options { password, live, tracks: 1, ..Options::default() }
}

/// A client that answers challenges.
struct Prover {
    id: ClientId,
    asked: PasswordClient,
    password: &'static str,
}

impl Prover {
    /// Asks without a password, and takes the challenge.
    fn begin(model: &mut Model, from: &str, url: &str, password: &'static str) -> Prover {
        let id = model.client(from);
        let answer = model.ask(id, "DESCRIBE", url, &[]);
        assert_eq!(answer.status, 401);
        let challenges: Vec<_> = answer.headers.all("www-authenticate").collect();
        assert!(challenges.iter().all(|own| own.contains("cameras")), "the origin's and no other: {challenges:?}");
        Prover { id, asked: PasswordClient::try_from(challenges.join(", ").as_str()).unwrap(), password }
    }

    fn proof(&mut self, method: &str, url: &str) -> String {
        let password = self.password;
        self.asked.respond(&PasswordParams { username: "viewer", password, uri: url, method, body: None }).unwrap()
    }

    fn ask(&mut self, model: &mut Model, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
        let proof = self.proof(method, url);
        model.ask(self.id, method, url, &[&[("Authorization", proof.as_str())], headers].concat())
    }

    /// Plays it; the session.
    fn plays(&mut self, model: &mut Model) -> String {
        let answer = self.ask(model, "DESCRIBE", FILM, &[]);
        assert_eq!(answer.status, 200);
        let answer = self.ask(model, "SETUP", &format!("{FILM}/trackID=0"), &[UDP]);
        assert_eq!(answer.status, 200);
        let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
        let answer = self.ask(model, "PLAY", &format!("{FILM}/"), &[("Session", &session)]);
        assert_eq!(answer.status, 200);
        let info = &rtp_info::parse(answer.headers.get("rtp-info").unwrap())[0];
        assert_eq!(info.url, format!("{FILM}/trackID=0"));
        session
    }
}

#[test]
fn an_origins_own_url_is_asked_for_there() {
    let mut model = Model::new(Options { live: true, control: "track".into(), ..Options::default() });
    let client = model.client(CLIENT);
    let answer = model.good(client, "DESCRIBE", FILM, &[]);
    let text = String::from_utf8(answer.body).unwrap();
    let description = Description::parse(text.as_bytes()).unwrap();
    assert_eq!(description.media_control(1, "rtsp://x"), format!("{FILM}/track1"), "its URLs are the origin's");
    assert!(text.contains("c=IN IP4 0.0.0.0") && !text.contains("IN IP4 10.0.2.11"), "and its addresses the proxy's");
    let mut session = String::new();
    for track in 0..2 {
        let transport = format!("RTP/AVP;unicast;client_port={0}-{1}", 5000 + 2 * track, 5001 + 2 * track);
        let mut headers = vec![("Transport", transport.as_str()), ("Session", session.as_str())];
        headers.truncate(1 + track);
        let answer = model.good(client, "SETUP", &format!("{FILM}/track{track}"), &headers);
        session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    }
    model.good(client, "PLAY", &format!("{FILM}/"), &[("Session", &session)]);
    assert!(matches!(model.flow_from(6970).1.leads, Leads::Receiver { .. }));
    assert!(matches!(model.flow_from(6972).1.leads, Leads::Receiver { to, .. } if to.port() == 5002));
    // Who asks in the other way has the same, as nobody had to prove anything.
    let other = model.client(OTHER);
    let url = "rtsp://proxy/10.0.2.11:8554/film";
    let own = model.set_up(other, url, 1, 6000);
    model.good(other, "PLAY", url, &[("Session", &own)]);
    assert_eq!((model.flow_from(6970).1.leads, model.proxy.sizes().2), (Leads::Group, 1));
    let third = model.client(OTHER);
    model.good(third, "DESCRIBE", FILM, &[]);
    assert_eq!(model.proxy.sizes().2, 1);
    // One track of two, and all.
    model.good(client, "TEARDOWN", &format!("{FILM}/track1"), &[("Session", &session)]);
    assert_eq!(model.proxy.session_states()[0].tracks.len(), 1);
    model.good(client, "TEARDOWN", FILM, &[("Session", &session)]);
    model.good(other, "TEARDOWN", url, &[("Session", &own)]);
    model.is_empty();
    // Nobody is asked who is not allowed.
    for (url, status) in [("rtsp://10.0.3.11/film", 403), ("rtsp://nobody.example/", 404)] {
        assert_eq!(model.ask(client, "DESCRIBE", url, &[]).status, status, "{url}");
    }
}

#[test]
fn proofs_pass_to_the_origin_and_are_their_clients_alone() {
    for live in [true, false] {
        let mut model = Model::new(guarded(live));
        let mut first = Prover::begin(&mut model, CLIENT, FILM, "secret");
        let session = first.plays(&mut model);
        assert_eq!(model.origins.len(), 1, "on the connection that the challenge came by");
        // One without a password gets a challenge, and no stream; nor does one with a wrong one, or by the proxy's URL.
        let mut wrong = Prover::begin(&mut model, OTHER, FILM, "secrets");
        assert_eq!(wrong.ask(&mut model, "DESCRIBE", FILM, &[]).status, 401);
        assert_eq!(wrong.ask(&mut model, "SETUP", &format!("{FILM}/trackID=0"), &[UDP]).status, 401);
        let plain = model.client(OTHER);
        let answer = model.ask(plain, "DESCRIBE", "rtsp://proxy/10.0.2.11:8554/film", &[]);
        assert_eq!((answer.status, &*answer.reason), (502, "The Server Asks For A Password"));
        assert_eq!(answer.headers.get("www-authenticate"), None);
        assert_eq!(model.proxy.session_states().len(), 1);
        // Another one with the right one has a session of its own.
        let mut second = Prover::begin(&mut model, OTHER, FILM, "secret");
        let own = second.plays(&mut model);
        assert_eq!(model.count("10.0.2.11", "PLAY"), 2);
        // Pauses pass, too; without a proof the origin says what it thinks of that.
        assert_eq!(model.ask(second.id, "PAUSE", FILM, &[("Session", &own)]).status, 401);
        assert_eq!(second.ask(&mut model, "PAUSE", FILM, &[("Session", &own)]).status, 200);
        // So do signs of life, by which the origin keeps the session.
        assert_eq!(second.ask(&mut model, "GET_PARAMETER", FILM, &[("Session", &own)]).status, 200);
        assert!(model.methods().contains(&"GET_PARAMETER"));
        // Its end is told to the origin, which believes it.
        let ended = *model.origins.keys().last().unwrap();
        assert_eq!(second.ask(&mut model, "TEARDOWN", FILM, &[("Session", &own)]).status, 200);
        let (origin, _) = &model.origins[&ended];
        let last = origin.asked.last().unwrap();
        assert_eq!((&*last.method, &*last.url), ("TEARDOWN", FILM));
        assert!(last.headers.get("authorization").is_some());
        first.ask(&mut model, "TEARDOWN", FILM, &[("Session", &session)]);
        model.wait(std::time::Duration::from_secs(100));
        model.is_empty();
    }
}

#[test]
fn a_track_whose_proof_is_wrong_may_be_asked_for_again() {
    let mut model = Model::new(guarded(false));
    let mut own = Prover::begin(&mut model, CLIENT, FILM, "secret");
    assert_eq!(own.ask(&mut model, "DESCRIBE", FILM, &[]).status, 200);
    let track = format!("{FILM}/trackID=0");
    for _ in 0..3 {
        let answer = model.ask(own.id, "SETUP", &track, &[UDP]);
        assert_eq!(answer.status, 401);
        assert!(answer.headers.get("www-authenticate").unwrap().contains("cameras"));
    }
    assert!(model.proxy.world.pairs.is_empty());
    let answer = own.ask(&mut model, "SETUP", &track, &[UDP]);
    assert_eq!(answer.status, 200);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    // A client that proves nothing more: its session goes on, and the proxy's own signs of life are no fault.
    assert_eq!(own.ask(&mut model, "PLAY", FILM, &[("Session", &session)]).status, 200);
    for _ in 0..4 {
        model.wait(std::time::Duration::from_secs(25));
        model.good(own.id, "OPTIONS", FILM, &[("Session", &session)]);
    }
    assert_eq!(model.proxy.counts.failed, 0);
    model.proxy.client_closed(own.id);
    model.wait(std::time::Duration::from_secs(100));
    model.is_empty();
}

#[test]
fn a_proxys_own_password_is_asked_for_by_fields_of_its_own() {
    let mut model = Model::with(guarded(true), |settings| {
        settings.users = vec![Credentials { user: "al".into(), password: "own".into() }];
        settings.viewers = Access { users: vec!["al".into()], ..Access::default() }.into();
    });
    let client = model.client(CLIENT);
    let answer = model.ask(client, "DESCRIBE", FILM, &[("Authorization", "Basic YWw6b3du")]);
    assert_eq!((answer.status, answer.headers.get("www-authenticate")), (407, None));
    assert!(model.origins.is_empty(), "nothing is asked for whom the proxy does not know");
    let challenge = answer.headers.all("proxy-authenticate").find(|own| own.contains("MD5")).unwrap();
    let mut asked = PasswordClient::try_from(challenge).unwrap();
    let mut own = |method, url: &str| {
        asked.respond(&PasswordParams { username: "al", password: "own", uri: url, method, body: None }).unwrap()
    };
    // Both passwords: each side gets its own.
    let answer = model.ask(client, "DESCRIBE", FILM, &[("Proxy-Authorization", &own("DESCRIBE", FILM))]);
    assert_eq!((answer.status, answer.headers.get("proxy-authenticate")), (401, None));
    let challenge = answer.headers.get("www-authenticate").unwrap();
    let mut prover = Prover { id: client, asked: PasswordClient::try_from(challenge).unwrap(), password: "secret" };
    let answer = prover.ask(&mut model, "DESCRIBE", FILM, &[("Proxy-Authorization", &own("DESCRIBE", FILM))]);
    assert_eq!(answer.status, 200);
    let (origin, _) = model.origins.values().last().unwrap();
    assert!(origin.asked.iter().all(|request| request.headers.get("proxy-authorization").is_none()));
    assert!(origin.asked.iter().all(|request| !request.to_bytes().windows(4).any(|part| part == b"\"al\"")));
}
