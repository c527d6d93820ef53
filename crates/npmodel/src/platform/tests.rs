//! Platforms that come with Millrace, and files that can't be taken.

use super::*;

fn ixp2400() -> String {
    text_of("ixp2400")
}

#[test]
fn those_that_come_with_millrace() {
    assert_eq!(known(), ["ixp1200", "ixp2400", "pci33"]);
    for name in known() {
        let found = match built_in(&name).unwrap_or_else(|error| panic!("{error}")) {
            AnyPlatform::Processor(platform) => platform.name,
            AnyPlatform::HostBus(platform) => platform.name,
        };
        assert_eq!(found, name);
    }
    assert_eq!(Platform::parse("ixp2400", &ixp2400()).unwrap().application_engines(), 6);
    let Err(error) = built_in("ixp9") else { panic!("there is an ixp9") };
    assert_eq!(
        error.to_string(),
        "there is no platform ixp9\n  platforms: ixp1200, ixp2400, pci33; or a file, NAME.toml"
    );
}

/// A change to the file, and the message.
#[test]
fn what_is_wrong_is_said_with_its_line() {
    let text = ixp2400();
    let line = |what: &str| text[..text.find(what).unwrap()].matches('\n').count() + 1;
    let dram = line("[memory.dram]");
    let cases = [
        (
            "latency = { value = 120,",
            "latency = { value = -3,",
            dram + 1,
            "memory.dram.latency: -3 is not from 1 to 100000",
        ),
        (
            "latency = { value = 120,",
            "latency = { value = nan,",
            dram + 1,
            "memory.dram.latency: NaN is not from 1 to 100000",
        ),
        ("count = { value = 8,", "count = { value = 7.5,", line("count ="), "engines.count: 7.5 is not a whole number"),
        (
            "count = { value = 8,",
            "count = { value = \"8\",",
            line("count ="),
            "engines.count: invalid type: string \"8\"",
        ),
        ("engines = { value = 1,", "engines = { value = 7,", line("count ="), "engines.count: 8 receive and send"),
        ("clock_hz =", "clock =", line("clock_hz"), "engines.clock: unknown field `clock`"),
        (
            "descriptors = \"sram\"",
            "descriptors = \"rom\"",
            line("descriptors ="),
            "place.descriptors: unknown variant `rom`",
        ),
        ("burst = { value = 64,", "burst = { value = 4,", dram + 5, "memory.dram.burst: 4 is not from 8 to 4096"),
        ("[lpm]", "[lpm", line("[lpm]"), "lpm"),
    ];
    for (from, to, line, wanted) in cases {
        let error = Platform::parse("p.toml", &text.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(error.starts_with(&format!("p.toml:{line}: ")), "{to}: {error}");
        assert!(error.contains(wanted), "{to}: {error}");
    }
    let without: String = text.lines().filter(|l| !l.starts_with("swap")).map(|l| format!("{l}\n")).collect();
    let error = Platform::parse("p.toml", &without).unwrap_err().to_string();
    assert_eq!(error, format!("p.toml:{}: engines: missing field `swap`", line("[engines]")));
}
