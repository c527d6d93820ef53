//! The example configuration, and mistakes in it: each is told by line and key, with what is accepted.

use std::time::Duration;

use control::document::{Errors, Path, root};
use translate::settings::{Fill, Policy, Rate, Settings, Start, read};

const EXAMPLE: &str = include_str!("../../translate.toml");

/// Reads a section, of a file or alone: the settings, or what is wrong with it.
fn read(text: &str) -> Result<Settings, Vec<String>> {
    let mut errors = Errors::new("translate.toml", text);
    let settings = {
        let all = root(text, &mut errors);
        let section =
            all.get("controllers").and_then(|own| own.get_ref().as_table()).and_then(|own| own.get("translate"));
        let section = section.expect("a section");
        let (root, controllers) = (Path::Root, "controllers");
        let path = root.key(controllers);
        read::settings(section, &path.key("translate"), &mut errors)
    };
    let errors = errors.finish();
    if errors.is_empty() {
        Ok(settings.expect("settings where there is no error"))
    } else {
        assert!(settings.is_none());
        Err(errors.iter().map(ToString::to_string).collect())
    }
}

fn changed(from: &str, to: &str) -> Result<Settings, Vec<String>> {
    let text = EXAMPLE.replacen(from, to, 1);
    assert_ne!(text, EXAMPLE, "{from}");
    read(&text)
}

#[test]
fn the_example_says_what_holds_without_it() {
    let (found, default) = (read(EXAMPLE).unwrap(), Settings::default());
    assert_eq!((found.limits, found.timeouts, &found.delivery), (default.limits, default.timeouts, &default.delivery));
    assert_eq!(found.listen.len(), 2);
    assert_eq!(found.sources.timeouts, media::settings::Settings::default().timeouts);
    let hall = found.delivery(Some("hall"));
    assert_eq!((hall.title.as_deref(), hall.fill, hall.rate), (Some("The hall"), Fill::Buffered, Rate::Tfrc));
    let tower = found.sources.stream("tower").unwrap().plain.clone().unwrap();
    assert_eq!((tower.places[0].1, tower.interface.as_deref()), (5004, Some("servers")));
    assert!(found.permits_group("239.9.9.9".parse().unwrap()) && !found.permits_group("240.0.0.1".parse().unwrap()));
}

#[test]
fn single_streams_differ() {
    let more = "title = \"The hall\"\nfill = \"fresh\"\npolicy = \"newest\"\nplayout = \"250ms\"\nrate = \"playout\"\n\
        bandwidth = \"5 Mbit/s\"\nstart = \"access point\"\nstart_within = \"1500ms\"\n";
    let found = changed("title = \"The hall\"", more).unwrap();
    let hall = found.delivery(Some("hall"));
    assert_eq!((hall.fill, hall.policy, hall.rate), (Fill::Fresh, Policy::Newest, Rate::Playout));
    assert_eq!((hall.playout, hall.bandwidth), (Duration::from_millis(250), Some(5_000_000)));
    assert_eq!((hall.start, hall.start_within), (Start::AccessPoint, Duration::from_millis(1500)));
    let tower = found.delivery(Some("tower"));
    assert_eq!((tower.fill, tower.start), (Fill::Buffered, Start::Newest));
}

#[test]
fn mistakes_are_told() {
    for (from, to, told) in [
        ("listen = [", "lissen = [", "listen"),
        ("\"10.0.1.1:8080\", ", "\"0.0.0.0:8080\", ", "own address"),
        ("\"10.0.1.1:8080\", ", "\"10.0.1.1:0\", ", "own address"),
        ("\"10.0.1.1:8080\", ", "\"[2001:db8:1::1]:8080\", ", "twice"),
        ("groups = [\"239.0.0.0/8\"", "groups = [\"239.0.0.0/33\"", "group"),
        ("fill = \"buffered\"", "fill = \"full\"", "buffered"),
        ("rate = \"tfrc\"", "rate = \"playout\"", "bandwidth"),
        ("playout = \"1s\"", "playout = \"1h\"", "30000ms"),
        ("playout = \"1s\"", "playout = \"0s\"", "nothing could be sent again"),
        ("head = 8192", "head = 100000", "16000"),
        ("streams = 128 ", "streams = 129 ", "128"),
        ("first = \"10s\"", "first = \"0s\"", "1s"),
        ("url = \"rtp://239.1.2.3:5004\"", "url = \"rtp://224.0.0.1:5004\"", "nowhere"),
        ("url = \"rtp://239.1.2.3:5004\"", "url = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"", "payload"),
        ("streams.tower]", "streams.rtp]", "own path"),
        ("streams.tower]", "streams.\"status\"]", "own path"),
        ("title = \"The hall\"", "title = \"The\\nhall\"", "control characters"),
        ("origins = [\"10.0.2.0/24\"", "origins = [\"10.0.2.0/99\"", "origin"),
        ("# http_server = \"127.0.0.1:80\"", "http_server = \"localhost\"", "HTTP server"),
        ("# https_server = \"127.0.0.1:443\"", "https_server = \"127.0.0.1:0\"", "TLS server"),
        ("# at_end = \"keep\"", "at_end = \"kept\"", "\"keep\""),
        ("requests = 1000", "requests = 0", "1"),
        ("idle = \"15s\"", "idle = \"0s\"", "1s"),
        ("# pages = false", "schemes = \"ntlm\"", "sha-256"),
        ("# pages = false", "pages = \"no\"", "pages"),
        ("# user = \"viewer\"", "publish.addresses = \"10.0.0.0/8\"", "publish"),
    ] {
        let errors = changed(from, to).expect_err(to);
        assert!(errors.iter().any(|error| error.contains(told)), "{to}: {errors:?}");
    }
}
