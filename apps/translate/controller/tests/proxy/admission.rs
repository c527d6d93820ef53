//! Who may view: proofs of passwords.

use std::time::Duration;

use translate::http::refusal;
use translate::settings::Settings;
use wire::rtsp::auth::Scheme;

use crate::model::{Model, key, settings};

/// A field that proves a password, as curl has it: made by a client's library, not by what checks it.
fn proven(challenge: &str, target: &str, user: &str, password: &str) -> String {
    let mut client = http_auth::PasswordClient::try_from(challenge).unwrap();
    let parameters =
        http_auth::PasswordParams { username: user, password, uri: target, method: "GET", body: Some(&[]) };
    client.respond(&parameters).unwrap()
}

fn with(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// The challenges of an answer.
fn challenges(text: &str) -> Vec<String> {
    assert!(text.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{text}");
    text.lines().filter_map(|line| line.strip_prefix("WWW-Authenticate: ")).map(str::to_owned).collect()
}

#[test]
fn passwords_are_proven_by_digests() {
    let mut model = Model::new(settings());
    let (own, other) = (key("10.0.1.11", 1), key("10.0.1.12", 1));
    let number = model.ask(own, &with("/vault", "")).unwrap();
    let said = challenges(&model.taken(number));
    assert!(said[0].contains("SHA-256") && said[1].contains("MD5"), "{said:?}");
    let password = "her password";
    let right = proven(&said[0], "/vault?x", "alice", password);
    let field = |own: &str| with("/vault?x", &format!("Authorization: {own}\r\n"));
    // Another client's, another URL's, and one of nobody.
    let number = model.ask(other, &field(&right)).unwrap();
    let text = model.taken(number);
    assert!(challenges(&text)[0].contains("stale=true") && text.ends_with("one for another time.\n"), "{text}");
    for wrong in [
        field(&proven(&said[0], "/hall", "alice", password)),
        field(&proven(&said[0], "/vault?x", "alice", "guess")),
        field(&proven(&said[0], "/vault?x", "mallory", password)),
        field(&right.replace("Millrace", "Elsewhere")),
        field("Digest nonsense"),
    ] {
        model.more(other, &wrong);
        let text = model.taken(number);
        assert!(!challenges(&text)[0].contains("stale"), "{text}");
    }
    assert_eq!(model.proxy.counts.wrong, 5);
    // On another connection of the same client, once.
    for (scheme, port) in [(0, 10), (1, 20)] {
        let number = model.ask(key("10.0.1.11", port), &with("/vault", "")).unwrap();
        let said = challenges(&model.taken(number));
        let field = field(&proven(&said[scheme], "/vault?x", "alice", password));
        let number = model.ask(key("10.0.1.11", port + 1), &field).unwrap();
        assert_eq!(model.open[&number].documents, 0, "it awaits the stream");
        let number = model.ask(key("10.0.1.11", port + 2), &field).unwrap();
        assert!(challenges(&model.taken(number))[0].contains("stale=true"), "a proof counts once");
    }
    // A nonce does not last.
    let number = model.ask(own, &with("/vault", "")).unwrap();
    let said = challenges(&model.taken(number));
    model.wait(Duration::from_secs(14));
    model.now += Duration::from_secs(290);
    let number = model.ask(own, &field(&proven(&said[0], "/vault?x", "alice", password))).unwrap();
    assert!(challenges(&model.taken(number))[0].contains("stale=true"));
}

#[test]
fn schemes_are_those_of_the_configuration() {
    let mut sources = (*settings().sources).clone();
    sources.schemes = vec![Scheme::Sha256];
    let mut model = Model::new(Settings { sources: sources.into(), ..settings() });
    let own = key("10.0.1.11", 1);
    let basic = "Authorization: Basic YWxpY2U6aGVyIHBhc3N3b3Jk\r\n";
    let number = model.ask(own, &with("/vault", basic)).unwrap();
    let text = model.taken(number);
    assert!(text.ends_with(&format!("{}.\n", refusal::WRONG_PASSWORD.reason)));
    let said = challenges(&text);
    assert_eq!(said.len(), 1);
    model.more(
        own,
        &with("/vault", &format!("Authorization: {}\r\n", proven(&said[0], "/vault", "alice", "her password"))),
    );
    assert_eq!(model.taken(number), "", "it awaits the stream");
}
