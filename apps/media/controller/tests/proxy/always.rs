//! Streams that are recorded whether somebody views them or not.

use std::sync::Arc;
use std::time::Duration;

use media::settings::Settings;
use media::settings::cache::{Films, Record};

use crate::model::{CLIENT, Model, cache};
use crate::origin::Options;
use crate::source;

const DOOR: &str = "rtsp://proxy/door";
const HOST: &str = "camera.example";

fn records(settings: &mut Settings) {
    settings.streams[0].record = Record::Always;
    settings.cache = Some(cache(Films::default()));
}

fn model(live: bool) -> Model {
    Model::with(Options { live, ..Options::default() }, records)
}

fn recorded(model: &Model) -> Vec<&str> {
    model.proxy.world.recorded.values().map(String::as_str).collect()
}

fn views(model: &mut Model) {
    let client = model.client(CLIENT);
    let session = model.set_up(client, DOOR, 2, 5000);
    model.good(client, "PLAY", DOOR, &[("Session", &session)]);
    model.good(client, "TEARDOWN", DOOR, &[("Session", &session)]);
    model.proxy.client_closed(client);
    model.run();
}

#[test]
fn it_comes_without_viewers() {
    let mut model = model(true);
    model.wait(Duration::from_secs(1));
    let begins = ["OPTIONS", "DESCRIBE", "SETUP", "SETUP", "PLAY"];
    assert_eq!(model.methods(), begins);
    assert_eq!(recorded(&model), ["door 0", "door 1"]);
    // Viewers share it, and leave it as it is.
    views(&mut model);
    model.wait(Duration::from_secs(70));
    assert_eq!(model.methods()[..5], begins);
    assert_eq!(["PLAY", "TEARDOWN"].map(|method| model.count(HOST, method)), [1, 0]);
    assert!(model.count(HOST, "GET_PARAMETER") >= 2, "the session is kept");
    // Its server is lost for longer than a viewer's session would last.
    for gone in [5, 100] {
        let options = model.hosts[HOST].clone();
        let before = model.count(HOST, "PLAY");
        model.kill(HOST);
        assert!(recorded(&model).is_empty());
        model.wait(Duration::from_secs(gone));
        model.hosts.insert(HOST.into(), options);
        model.wait(Duration::from_secs(31));
        assert_eq!((recorded(&model), model.count(HOST, "PLAY")), (vec!["door 0", "door 1"], before + 1));
    }
    // Until it is to be recorded no more.
    let mut settings = Settings::clone(model.proxy.settings());
    settings.streams[0].record = Record::Viewed;
    model.proxy.set_settings(Arc::new(settings));
    model.wait(Duration::from_secs(12));
    assert_eq!(model.count(HOST, "TEARDOWN"), 1);
    model.is_empty();
}

#[test]
fn the_next_process_goes_on_with_it() {
    let mut model = model(true);
    model.wait(Duration::from_secs(1));
    model.die(Duration::from_secs(2), |_, _| {});
    model.wait(Duration::from_secs(1));
    assert_eq!(recorded(&model), ["door 0", "door 1"]);
    assert!(!model.methods().contains(&"DESCRIBE"), "{:?}", model.methods());
    views(&mut model);
    assert_eq!(recorded(&model), ["door 0", "door 1"]);
}

/// The last one that views it leaves just then.
#[test]
fn one_that_is_viewed_is_taken_over() {
    let mut model = Model::with(Options { live: true, ..Options::default() }, |settings| {
        records(settings);
        settings.streams[0].record = Record::Viewed;
    });
    let client = model.client(CLIENT);
    let session = model.set_up(client, DOOR, 1, 5000);
    model.good(client, "PLAY", DOOR, &[("Session", &session)]);
    assert_eq!(recorded(&model), ["door 0", "door 1"]);
    let mut settings = Settings::clone(model.proxy.settings());
    settings.streams[0].record = Record::Always;
    model.proxy.set_settings(Arc::new(settings));
    model.wait(Duration::from_secs(1));
    model.good(client, "TEARDOWN", DOOR, &[("Session", &session)]);
    model.wait(Duration::from_secs(30));
    assert_eq!((model.count(HOST, "DESCRIBE"), recorded(&model)), (1, vec!["door 0", "door 1"]));
}

#[test]
fn films_and_what_is_not_there_are_asked_for_seldom() {
    let mut film = model(false);
    film.wait(Duration::from_secs(100));
    assert_eq!((film.count(HOST, "DESCRIBE"), recorded(&film)), (1, vec![]));
    film.is_empty();
    let mut gone = model(true);
    gone.hosts.get_mut(HOST).unwrap().status.push(("DESCRIBE".into(), 404));
    gone.wait(Duration::from_secs(100));
    assert!((4..=10).contains(&gone.count(HOST, "DESCRIBE")), "{}", gone.count(HOST, "DESCRIBE"));
}

/// A group is joined, and its sender recorded.
#[test]
fn sources_without_rtsp_are_recorded() {
    let mut model = Model::with(Options::default(), |settings| {
        records(settings);
        settings.streams = vec![source::hall("rtp://239.1.2.3:5004", None)];
        settings.streams[0].record = Record::Always;
    });
    model.wait(Duration::from_secs(1));
    assert_eq!(model.proxy.world.listening.len(), 1);
    source::comes(&mut model, source::A, &source::rtp(1, 1, 1));
    model.wait(Duration::from_secs(5));
    assert_eq!(recorded(&model), ["hall 0"]);
}

/// The disk is full for a while: the controller gets no copies of packets meanwhile, and then it is recorded again.
#[test]
fn what_can_t_be_recorded_is_recorded_later() {
    let mut model = model(true);
    model.wait(Duration::from_secs(1));
    let breaks = |model: &mut Model| {
        let numbers: Vec<u32> = std::mem::take(&mut model.proxy.world.recorded).into_keys().collect();
        model.proxy.world.broken.extend(numbers);
        model.wait(Duration::from_secs(1));
        assert!(recorded(model).is_empty());
    };
    // Each time it waits twice as long.
    for pause in [10, 20, 40] {
        assert!(model.flow_from(6970).1.tapped);
        breaks(&mut model);
        assert!(!model.flow_from(6970).1.tapped);
        model.wait(Duration::from_secs(pause - 3));
        assert!(recorded(&model).is_empty(), "{pause} s");
        model.wait(Duration::from_secs(4));
        assert_eq!(recorded(&model), ["door 0", "door 1"], "{pause} s");
    }
    // It has gone well for a while.
    model.wait(Duration::from_secs(70));
    breaks(&mut model);
    model.wait(Duration::from_secs(12));
    assert_eq!(recorded(&model), ["door 0", "door 1"]);
    assert_eq!(model.count(HOST, "PLAY"), 1);
}
