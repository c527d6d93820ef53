//! Viewers by HTTP: who may view what, and streams that come for them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use media::proxy::http::{Asked, Verdict};
use media::settings::Credentials;
use media::settings::access::{Access, Secret};
use media::settings::cache::{Films, Record};
use wire::rtsp::auth::Scheme;

use crate::model::{Model, cache};
use crate::origin::Options;

const TOKEN: &str = "a-token-of-some-length";

fn model(access: Access, schemes: Vec<Scheme>) -> Model {
    Model::with(Options { live: true, ..Options::default() }, move |settings| {
        settings.streams[0].record = Record::Viewed;
        settings.streams[0].viewers = Some(Arc::new(access.clone()));
        settings.users = vec![Credentials { user: "u".into(), password: "p".into() }];
        settings.schemes = schemes.clone();
        settings.cache = Some(cache(Films::default()));
    })
}

fn ask(model: &mut Model, asked: &Asked) -> Verdict {
    let address: IpAddr = "10.0.1.11".parse().unwrap();
    let verdict = model.proxy.admit_http(address, asked);
    model.run();
    verdict
}

fn door() -> Asked {
    Asked { name: "door".into(), method: "GET".into(), ..Asked::default() }
}

#[test]
fn it_comes_as_long_as_it_is_asked_for() {
    let mut model = model(Access::default(), vec![Scheme::Basic]);
    let open = |comes| Verdict::Admitted { is_open: true, comes };
    assert_eq!(ask(&mut model, &door()), open(false), "a segment is no reason to begin");
    assert_eq!(model.proxy.counts.upstreams, 0);
    let demand = Asked { demand: Some(Duration::from_secs(20)), ..door() };
    assert_eq!(ask(&mut model, &demand), open(true));
    for _ in 0..5 {
        model.wait(Duration::from_secs(15));
        assert_eq!(ask(&mut model, &demand), open(true));
    }
    assert_eq!(["PLAY", "TEARDOWN"].map(|method| model.count("camera.example", method)), [1, 0]);
    model.wait(Duration::from_secs(60));
    assert_eq!(model.count("camera.example", "TEARDOWN"), 1);
    model.is_empty();
    assert_eq!(ask(&mut model, &door()), open(false));
    assert_eq!(ask(&mut model, &Asked { name: "window".into(), ..door() }), Verdict::Nothing);
}

#[test]
fn only_who_may_view_it_does() {
    let tokens = vec![Secret(TOKEN.into())];
    let access = Access { users: vec!["u".into()], tokens: tokens.clone(), addresses: Vec::new() };
    let admitted = Verdict::Admitted { is_open: false, comes: false };
    let mut model = model(access.clone(), vec![Scheme::Sha256, Scheme::Basic]);
    let with = |token: Option<&str>, authorization: Option<&str>| Asked {
        token: token.map(str::to_owned),
        authorization: authorization.map(str::to_owned),
        ..door()
    };
    // u:p, and u:x.
    let (right, wrong) = ("Basic dTpw", "Basic dTp4");
    assert_eq!(ask(&mut model, &with(Some(TOKEN), None)), admitted);
    assert_eq!(ask(&mut model, &with(None, Some(right))), admitted);
    assert_eq!(ask(&mut model, &door()), Verdict::Unknown);
    assert_eq!(model.proxy.counts.wrong, 0);
    let demand = Asked { demand: Some(Duration::from_secs(20)), ..with(None, Some(wrong)) };
    assert_eq!(ask(&mut model, &demand), Verdict::Unknown);
    assert_eq!(model.proxy.counts.upstreams, 0, "nothing comes for who may not view it");
    for _ in 1..10 {
        assert_eq!(ask(&mut model, &with(Some("another-token-of-some-length"), None)), Verdict::Unknown);
    }
    assert_eq!(model.proxy.counts.wrong, 10);
    assert_eq!(ask(&mut model, &with(Some(TOKEN), None)), Verdict::Refused, "it has guessed too often");
    model.wait(Duration::from_secs(61));
    assert_eq!(ask(&mut model, &with(Some(TOKEN), None)), admitted);
    // Without Basic there is nothing to ask for.
    let mut model = self::model(access.clone(), vec![Scheme::Sha256]);
    assert_eq!(ask(&mut model, &door()), Verdict::Refused);
    assert_eq!(ask(&mut model, &with(None, Some(right))), Verdict::Refused);
    let elsewhere = Access { addresses: vec![("10.0.9.0".parse().unwrap(), 24)], ..access };
    let mut model = self::model(elsewhere, vec![Scheme::Basic]);
    assert_eq!(ask(&mut model, &with(Some(TOKEN), Some(right))), Verdict::Refused);
}
