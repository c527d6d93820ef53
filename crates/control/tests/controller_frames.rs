//! `controllers` of `[frames]`: frames for controllers, by name.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::path::Path;

use control::applications::Applications;
use control::config::Config;

fn parse(text: &str) -> Result<Config, Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/responder/responder.baker");
    let config = Config::parse("t.toml", text, &common::compile(&path), Applications::NONE);
    config.map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

#[test]
fn each_controller_may_have_a_number() {
    assert_eq!(parse("").unwrap().controller_frames, []);
    let config = parse("[frames]\ncount = 4096\ncontrollers = { responder = 1024 }").unwrap();
    assert_eq!(
        (config.frames.count, &config.options().controller_frames[..]),
        (4096, &[("responder".into(), 1024)][..])
    );
    let errors = |text| parse(text).unwrap_err();
    assert_eq!(
        errors("[frames]\ncontrollers = { respondr = 100, responder = 1 }"),
        [
            "t.toml:2: frames.controllers.respondr: the program is not wired to a controller of this name; did you mean `responder`?; \
             accepted: responder",
            "t.toml:2: frames.controllers.responder: 1 is out of range; accepted: an integer from 2 to 33554432",
        ]
    );
    assert_eq!(
        errors("[frames]\ncontrollers = 100"),
        ["t.toml:2: frames.controllers: this is an integer; accepted: a table: write [frames.controllers], or { … }"]
    );
}
