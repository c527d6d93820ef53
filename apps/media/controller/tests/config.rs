//! Mistakes in `[controllers.media]`: each is told with file, line, key and what is accepted.

#[path = "../../../../tests/support/compile.rs"]
mod common;

use std::path::Path;

use control::applications::Applications;
use control::config::Config;
use media::MediaApplication;
use routes::RoutesApplication;

const MEDIA: Applications = Applications::new(&[&MediaApplication, &RoutesApplication]);

const EXAMPLE: &str = include_str!("../../media.toml");

#[test]
fn mistakes_are_told() {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../media.baker"));
    let said = |from: &str, to: &str| -> Vec<String> {
        let text = EXAMPLE.replacen(from, to, 1);
        assert!(from.is_empty() || text != EXAMPLE, "{from}");
        let line = text.lines().position(|line| !to.is_empty() && line.contains(to)).map_or(0, |line| line + 1);
        match Config::parse("t.toml", &text, &program, MEDIA) {
            Ok(_) => Vec::new(),
            Err(errors) => errors
                .iter()
                .map(|error| {
                    assert_eq!(error.line, line, "{error}");
                    error.to_string()
                })
                .collect(),
        }
    };
    assert_eq!(said("", ""), [""; 0]);
    let own = "controllers.media.";
    for (from, to, expected) in [
        ("media_port = 8000", "media_ports = 8000", "media_ports: unknown key; did you mean `media_port`?"),
        ("media_port = 8000", "media_port = 8001", "media_port: this is an odd number"),
        ("media_port = 8000", "media_port = 80", "media_port: 80 is out of range"),
        (
            "media_port = 8000",
            "media_port = 25000",
            "media_port: 25000 and the next port are among the ports of origins",
        ),
        ("\"20000-29999\"", "\"29999-20000\"", "ports: \"29999-20000\" is none"),
        ("\"[::]:8554\"", "\"proxy:8554\"", "listen[1]: \"proxy:8554\" is none"),
        ("\"2001:db8:2::/64\"", "\"2001:db8:2::/164\"", "origins[1]: \"2001:db8:2::/164\" is none"),
        (
            "\"rtsp://10.0.2.11:8554/door\"",
            "\"http://10.0.2.11/door\"",
            "streams.door.url: \"http://10.0.2.11/door\" is none",
        ),
        ("# password = \"secret\"", "password = \"secret\"", "streams.door: `user` is missing"),
        ("# live = true ", "live = 1 ", "streams.door.live: this is an integer"),
        ("connections = 4096", "connections = 0", "limits.connections: 0 is out of range"),
        ("receivers = 4096", "receivers = 65537", "limits.receivers: 65537 is out of range"),
        ("session = \"60s\"", "session = \"60\"", "timeouts.session: \"60\" is none"),
        ("answer = \"10s\"", "answers = \"10s\"", "timeouts.answers: unknown key; did you mean `answer`?"),
    ] {
        let found = match to {
            // What is missing is told at the table.
            "password = \"secret\"" => {
                let text = EXAMPLE.replacen(from, to, 1);
                let errors = Config::parse("t.toml", &text, &program, MEDIA).map(|_| ()).unwrap_err();
                errors.iter().map(ToString::to_string).collect()
            }
            _ => said(from, to),
        };
        assert_eq!(found.len(), 1, "{to}: {found:?}");
        assert!(found[0].contains(&format!("{own}{expected}")), "{to}: {}", found[0]);
    }
    // User and password in the URL would be shown wherever it is.
    let text = EXAMPLE.replacen("rtsp://10.0.2.11", "rtsp://user:pass@10.0.2.11", 1);
    let errors = Config::parse("t.toml", &text, &program, MEDIA).map(|_| ()).unwrap_err();
    assert!(errors.iter().any(|error| error.to_string().contains("user and password stand in the URL")), "{errors:?}");
}

#[test]
fn copies_for_several_viewers_share_the_payload() {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../media.baker"));
    let copies = baker::opt::share::copies(&program);
    let channels = (0..).map(baker::ir::ChannelId).zip(&program.channels);
    let members = channels.filter(|(_, channel)| matches!(channel.from, Some(baker::ir::Source::Group(_))));
    let own: Vec<_> = members.map(|(id, _)| copies.of_members(id)).collect();
    // Of 1370 bytes, headers of both versions of IP, and no more.
    assert!(own.len() == 2 && own.iter().all(|bytes| bytes.is_some_and(|bytes| bytes < 128)), "{own:?}");
}
