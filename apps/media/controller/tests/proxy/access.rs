//! Who may view: passwords, tokens, addresses.

use std::sync::Arc;
use std::time::Duration;

use http_auth::{PasswordClient, PasswordParams};
use media::settings::access::{Access, Secret};
use media::settings::{Credentials, Settings};
use wire::rtsp::auth::Scheme;
use wire::rtsp::message::Response;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

const DOOR: &str = "rtsp://proxy/door";
const TOKEN: &str = "a-token-of-many-letters";

fn guarded(settings: &mut Settings) {
    let user = |user: &str, password: &str| Credentials { user: user.into(), password: password.into() };
    settings.users = vec![user("alice", "wonderland"), user("bob", "builder")];
    settings.viewers = Arc::new(Access {
        users: vec!["alice".into()],
        tokens: vec![Secret(TOKEN.into())],
        addresses: vec![("10.0.1.0".parse().unwrap(), 24)],
    });
}

fn model(change: impl FnOnce(&mut Settings)) -> Model {
    Model::with(Options { tracks: 1, ..Options::default() }, |settings| {
        guarded(settings);
        change(settings);
    })
}

/// The challenge of an answer whose scheme begins so.
fn challenge(answer: &Response, of: &str) -> PasswordClient {
    let all: Vec<_> = answer.headers.all("www-authenticate").filter(|own| own.contains(of)).collect();
    assert_eq!((answer.status, all.len()), (401, 1), "{answer:?}");
    PasswordClient::try_from(all[0]).unwrap()
}

fn proof(asked: &mut PasswordClient, user: &str, password: &str, method: &str, uri: &str) -> String {
    asked.respond(&PasswordParams { username: user, password, uri, method, body: Some(&[]) }).unwrap()
}

#[test]
fn users_prove_their_passwords_in_each_way() {
    for (name, of) in [("sha-256", "SHA-256"), ("md5", "MD5"), ("basic", "Basic")] {
        let mut model = model(|settings| settings.schemes.push(Scheme::Basic));
        let client = model.client(CLIENT);
        let mut asked = challenge(&model.ask(client, "DESCRIBE", URL, &[]), of);
        assert!(model.origins.is_empty(), "no origin hears of it before");
        let said = proof(&mut asked, "alice", "wonderland", "DESCRIBE", URL);
        model.good(client, "DESCRIBE", URL, &[("Authorization", &said)]);
        // The presentation has to come from the origin first: a request that waits is checked once.
        let track = format!("{URL}/trackID=0");
        let said = proof(&mut asked, "alice", "wonderland", "SETUP", &track);
        let transport = ("Transport", "RTP/AVP;unicast;client_port=5000-5001");
        let answer = model.good(client, "SETUP", &track, &[("Authorization", &said), transport]);
        // Who has a session needs no more.
        let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
        model.good(client, "PLAY", URL, &[("Session", &session)]);
        assert_eq!(model.proxy.counts.wrong, 0, "{name}");
        // A proof is good once, and on its connection; a password has no such end.
        let (again, stale) = (model.ask(client, "SETUP", &track, &[("Authorization", &said), transport]), "stale=true");
        assert_eq!(again.status, if name == "basic" { 200 } else { 401 });
        if name != "basic" {
            assert!(again.headers.get("www-authenticate").unwrap().contains(stale), "{again:?}");
        }
        let other = model.client(OTHER);
        let elsewhere = model.ask(other, "SETUP", &track, &[("Authorization", &said), transport]);
        assert_eq!(elsewhere.status, if name == "basic" { 200 } else { 401 });
    }
}

#[test]
fn nonces_expire() {
    let mut model = model(|_| {});
    let client = model.client(CLIENT);
    let mut asked = challenge(&model.ask(client, "DESCRIBE", DOOR, &[]), "MD5");
    for (seconds, stale) in [(40, false), (290, true)] {
        for _ in 0..seconds / 10 {
            model.wait(Duration::from_secs(10));
            model.ask(client, "OPTIONS", "*", &[]);
        }
        let said = proof(&mut asked, "alice", "wonderland", "DESCRIBE", DOOR);
        let answer = model.ask(client, "DESCRIBE", DOOR, &[("Authorization", &said)]);
        assert_eq!(answer.status, if stale { 401 } else { 200 });
        if stale {
            let mut asked = challenge(&answer, "MD5");
            let said = proof(&mut asked, "alice", "wonderland", "DESCRIBE", DOOR);
            model.good(client, "DESCRIBE", DOOR, &[("Authorization", &said)]);
        }
    }
    assert_eq!(model.proxy.counts.wrong, 0);
}

#[test]
fn what_is_wrong_is_counted_and_then_refused() {
    let mut model = model(|settings| settings.limits.guesses = 7);
    let client = model.client(CLIENT);
    let mut asked = challenge(&model.ask(client, "DESCRIBE", DOOR, &[]), "MD5");
    for (user, password, method, url) in [
        ("alice", "guess", "DESCRIBE", DOOR),
        ("nobody", "", "DESCRIBE", DOOR),
        // Not a viewer; another method; another URL.
        ("bob", "builder", "DESCRIBE", DOOR),
        ("alice", "wonderland", "SETUP", DOOR),
        ("alice", "wonderland", "DESCRIBE", "rtsp://proxy/window"),
    ] {
        let said = proof(&mut asked, user, password, method, url);
        let answer = model.ask(client, "DESCRIBE", DOOR, &[("Authorization", &said)]);
        asked = challenge(&answer, "MD5");
        assert!(!answer.headers.get("www-authenticate").unwrap().contains("stale"));
    }
    // Basic is not offered, and so not taken. `alice:wonderland`
    model.ask(client, "DESCRIBE", DOOR, &[("Authorization", "Basic YWxpY2U6d29uZGVybGFuZA==")]);
    model.ask(client, "DESCRIBE", &format!("{DOOR}?token=x"), &[]);
    assert_eq!((model.proxy.counts.wrong, model.proxy.counts.locked), (7, 0));
    let right = |model: &mut Model, client| model.ask(client, "DESCRIBE", &format!("{DOOR}?token={TOKEN}"), &[]).status;
    assert_eq!(right(&mut model, client), 403, "not even the right one");
    assert_eq!(model.proxy.counts.locked, 1);
    let other = model.client(OTHER);
    assert_eq!(right(&mut model, other), 200, "others are not harmed");
    model.wait(Duration::from_secs(61));
    let client = model.client(CLIENT);
    assert_eq!(right(&mut model, client), 200);
}

#[test]
fn tokens_stand_in_urls_and_are_not_shown() {
    let mut model = model(|_| {});
    let client = model.client(CLIENT);
    let url = format!("{URL}?a=b&token={TOKEN}");
    let answer = model.good(client, "DESCRIBE", &url, &[]);
    // Players ask for tracks by the URLs of the description, which have it, too.
    assert!(String::from_utf8(answer.body).unwrap().contains(&format!("a=control:{url}/trackID=0\r\n")));
    let session = model.set_up(client, &url, 1, 5000);
    model.good(client, "PLAY", &url, &[("Session", &session)]);
    let (origin, _) = model.origins.values().last().unwrap();
    assert!(origin.asked.iter().all(|request| !request.url.contains(TOKEN)), "{:?}", origin.asked);
    assert!(origin.asked[1].url.ends_with("/film?a=b"));
    let shown = format!("{:?}{:?}", model.proxy.session_states(), model.proxy.stream_states());
    assert!(shown.contains("token=***") && !shown.contains(TOKEN), "{shown}");
    // Where tokens are all that is taken, no password is asked for.
    let mut model = Model::with(Options::default(), |settings| {
        settings.viewers = Arc::new(Access { tokens: vec![Secret(TOKEN.into())], ..Access::default() });
    });
    let client = model.client(CLIENT);
    assert_eq!(model.ask(client, "DESCRIBE", URL, &[]).status, 403);
    assert_eq!(model.proxy.counts.wrong, 0);
}

#[test]
fn streams_have_viewers_of_their_own() {
    let mut model = model(|settings| {
        let addresses = vec![("10.0.1.12".parse().unwrap(), 32)];
        settings.streams[0].viewers = Some(Arc::new(Access { addresses, ..Access::default() }));
    });
    let (client, other) = (model.client(CLIENT), model.client(OTHER));
    assert_eq!(model.ask(client, "DESCRIBE", DOOR, &[]).status, 403);
    model.good(other, "DESCRIBE", DOOR, &[]);
    assert_eq!(model.ask(other, "DESCRIBE", URL, &[]).status, 401, "others have those of all");
    let far = model.client("10.0.9.1:5000");
    assert_eq!(model.ask(far, "DESCRIBE", URL, &[]).status, 403);
}
