//! The published table of the IXP2400, beside what the model gives: `make bench B=paper`.
//!
//! Each application runs through `millrace sim` at 6 engines with packets of 64 bytes (`tools/npf`), as it is and once
//! more optimised by a profile of these packets, as the publication's compiler did. Then the memories' parameters that
//! no readable source gives are halved and doubled, one at a time. The model is deterministic: there is one run of
//! each.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Effort;
use crate::results::Results;
use crate::text;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const PLATFORM: &str = include_str!("../../platforms/ixp2400.toml");

/// Engines that ran the program in the published measurements.
const ENGINES: &str = "6";

/// A published row: DRAM accesses, bytes, instructions; `None` where the source can't be read.
type Published = [Option<f64>; 3];

/// The builds of the model: their names, the level, whether by profile, and which published row is theirs.
const BUILDS: [(&str, &str, bool, usize); 4] = [
    ("base", "base", false, 0),
    ("pac", "pac", false, 1),
    ("cgpc", "cgpc", false, 2),
    ("cgpc by profile", "cgpc", true, 2),
];

struct App {
    name: &'static str,
    title: &'static str,
    /// What `tools/npf` makes for it.
    trace: &'static str,
    /// By level.
    published: [Published; 3],
}

const APPS: [App; 3] = [
    App {
        name: "l3switch",
        title: "L3-Switch",
        trace: "l3-28k",
        published: [
            [Some(29.0), Some(696.0), Some(2033.0)],
            [None, Some(200.0), Some(1190.0)],
            [None, None, Some(770.0)],
        ],
    },
    App {
        name: "mpls",
        title: "MPLS",
        trace: "mpls-28k",
        published: [[None, None, Some(1851.0)], [None, None, Some(1428.0)], [None, None, Some(1495.0)]],
    },
    App {
        name: "firewall",
        title: "Firewall",
        trace: "firewall",
        published: [
            [Some(24.2), Some(580.0), Some(1742.0)],
            [Some(4.4), Some(140.0), Some(572.0)],
            [Some(1.0), Some(32.0), Some(375.0)],
        ],
    },
];

const METRICS: [(&str, &str); 4] = [
    ("dram_accesses", "per packet"),
    ("dram_bytes", "bytes per packet"),
    ("instructions", "per packet"),
    ("gbps", "Gbit/s"),
];

/// Parameters of memories that the platform's file calls unverified: section and key.
const SWEPT: [(&str, &str); 8] = [
    ("memory.dram", "latency"),
    ("memory.dram", "commands"),
    ("memory.dram", "bandwidth"),
    ("memory.sram", "latency"),
    ("memory.sram", "commands"),
    ("memory.sram", "bandwidth"),
    ("memory.scratch", "latency"),
    ("memory.scratch", "commands"),
];

/// Runs all applications that there are.
pub fn run(effort: Effort) -> Result<Results, String> {
    let millrace = millrace()?;
    let folder = Path::new("target/bench/paper");
    std::fs::create_dir_all(folder).map_err(text)?;
    let mut results = Results::default();
    let mut faster: Vec<Vec<f64>> = vec![Vec::new(); BUILDS.len()];
    // A smoke run has one application.
    for app in if effort.quick { &APPS[..1] } else { &APPS } {
        let input = input(app, folder, effort.quick)?;
        let found = metrics(&millrace, app, &input, "ixp2400")?;
        for (index, (name, level, _, row)) in BUILDS.into_iter().enumerate() {
            let case = format!("{} {name}", app.title);
            let wanted = app.published[row].into_iter().chain([(level == "cgpc").then_some(2.0)]);
            for (((metric, unit), published), value) in METRICS.into_iter().zip(wanted).zip(found[index]) {
                results.add(&case, "model", metric, unit, vec![value]);
                results.add(&case, "published", metric, unit, published.into_iter().collect());
            }
            faster[index].push(found[index][3] / found[0][3]);
        }
        let swept = if effort.quick { &SWEPT[..1] } else { &SWEPT };
        for &(section, key) in swept {
            for factor in [0.5, 2.0] {
                let platform = folder.join(format!("{section}.{key}.{factor}.toml"));
                std::fs::write(&platform, scaled(section, key, factor)?).map_err(text)?;
                let found = metrics(&millrace, app, &input, &platform.display().to_string())?;
                for ((name, ..), metrics) in BUILDS.into_iter().zip(found) {
                    let case = format!("{} {name}, {section}.{key} × {factor}", app.title);
                    results.add(&case, "model", "gbps", "Gbit/s", vec![metrics[3]]);
                }
            }
        }
    }
    for ((name, level, ..), faster) in BUILDS.into_iter().zip(faster).skip(1) {
        let case = format!("average, {name}");
        let mean = faster.iter().sum::<f64>() / faster.len() as f64;
        results.add(&case, "model", "speed-up", "times base", vec![mean]);
        results.add(
            &case,
            "published",
            "speed-up",
            "times base",
            (level == "cgpc").then_some(5.8).into_iter().collect(),
        );
    }
    results.note(
        "Published: Baker on the IXP2400, 6 engines, 64-byte packets; 2 Gbit/s is what packet caching is said to reach. Base's \
         bytes are 24 per access by a parameter that is derived from the published table, so they are no finding.",
    );
    Ok(results)
}

/// The program, beside this one.
fn millrace() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(text)?;
    let path = own.with_file_name("millrace");
    if path.is_file() { Ok(path) } else { Err(format!("{}: build it first: make build", path.display())) }
}

/// Options of `millrace sim` that say which packets.
fn input(app: &App, folder: &Path, quick: bool) -> Result<Vec<String>, String> {
    let kind = app.trace;
    let packets = if quick { "2000" } else { "20000" };
    let made = Command::new(format!("{ROOT}/tools/npf")).arg(kind).arg(folder).args(["--packets", packets]).output();
    let made = made.map_err(|error| format!("tools/npf: {error}"))?;
    if !made.status.success() {
        return Err(format!("tools/npf: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let file = |ending: &str| folder.join(format!("{kind}.{ending}")).display().to_string();
    Ok(vec!["--trace".into(), file("pcapng"), "--config".into(), file("toml")])
}

/// For each of [`BUILDS`], in the order of [`METRICS`].
fn metrics(millrace: &Path, app: &App, input: &[String], platform: &str) -> Result<Vec<[f64; 4]>, String> {
    let plain = sim(millrace, app, input, platform)?;
    // The first two of the input are the trace.
    let profile = ["--profile".to_owned(), input[1].clone()];
    let profiled = sim(millrace, app, &[input, &profile[..]].concat(), platform)?;
    BUILDS
        .into_iter()
        .map(|(_, level, by_profile, _)| build(if by_profile { &profiled } else { &plain }, level))
        .collect()
}

fn sim(millrace: &Path, app: &App, input: &[String], platform: &str) -> Result<Value, String> {
    let mut command = Command::new(millrace);
    command.args(["sim", app.name, "--json", "--engines", ENGINES, "--platform", platform]).args(input);
    let done = command.output().map_err(|error| format!("{}: {error}", millrace.display()))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    serde_json::from_slice(&done.stdout).map_err(text)
}

/// In the order of [`METRICS`].
fn build(found: &Value, level: &str) -> Result<[f64; 4], String> {
    let build = &found["builds"][level];
    let dram = &build["memories"]["dram"];
    let values = [&dram["accesses"], &dram["bytes"], &build["instructions"], &build["points"][0]["gbps"]];
    let numbers: Option<Vec<f64>> = values.into_iter().map(Value::as_f64).collect();
    numbers
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| format!("millrace sim gave no figures for {level}"))
}

/// The platform's file with one value multiplied.
fn scaled(section: &str, key: &str, factor: f64) -> Result<String, String> {
    let gone = || format!("platforms/ixp2400.toml has no {section}.{key}");
    let start = PLATFORM.find(&format!("[{section}]")).ok_or_else(gone)?;
    let line = start + PLATFORM[start..].find(&format!("\n{key} = ")).ok_or_else(gone)?;
    let value = line + PLATFORM[line..].find("value = ").ok_or_else(gone)? + "value = ".len();
    let end = value + PLATFORM[value..].find(',').ok_or_else(gone)?;
    let number: f64 = PLATFORM[value..end].trim().parse().map_err(text)?;
    Ok(format!("{}{}{}", &PLATFORM[..value], (number * factor).round(), &PLATFORM[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swept_platform_differs_in_one_value() {
        for (section, key) in SWEPT {
            let changed = scaled(section, key, 2.0).unwrap();
            let differing = changed.lines().zip(PLATFORM.lines()).filter(|(a, b)| a != b).count();
            assert_eq!((differing, changed.lines().count()), (1, PLATFORM.lines().count()), "{section}.{key}");
        }
        assert!(scaled("memory.dram", "latency", 2.0).unwrap().contains("latency = { value = 240,"));
        assert!(scaled("memory.dram", "colour", 2.0).is_err());
    }
}
