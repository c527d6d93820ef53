//! What `millrace sim` prints of a host-based router: rates by packet length and access mode, and the published points.

use cli::failure::Failure;
use cli::output::print;
use cli::remote::print_json;
use cli::report::table;
use npmodel::HostBus;
use npmodel::bus::{Access, Published, What};
use serde_json::json;

/// Bytes of packets.
const LENGTHS: [u32; 10] = [64, 128, 256, 512, 1024, 1500, 2048, 4096, 8192, 9000];

/// Prints it.
pub fn run(platform: &HostBus, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print_json(&data(platform));
    } else {
        print(format_args!("{}", text(platform)));
    }
    Ok(())
}

fn data(platform: &HostBus) -> serde_json::Value {
    let curve = |access: Access| {
        let point = |bytes: u32| {
            let rate = platform.rate(access, bytes);
            json!({
                "bytes": bytes, "mbps": rate.bits / 1e6, "packets_per_second": rate.packets, "cpu": rate.cpu, "bus": rate.bus,
                "bus_bytes": rate.crossing,
            })
        };
        (access.name().to_owned(), LENGTHS.map(point).into())
    };
    let published = |of: &Published| {
        json!({
            "what": of.what.title(), "access": of.access.name(), "bytes": of.bytes, "least": of.least, "most": of.most,
            "model": platform.model(of), "agrees": platform.agrees(of), "source": of.source,
        })
    };
    json!({
        "platform": platform.name,
        "access": Access::ALL.map(curve).into_iter().collect::<serde_json::Map<_, _>>(),
        "published": platform.published.iter().map(published).collect::<Vec<_>>(),
    })
}

fn text(platform: &HostBus) -> String {
    let mut out = format!("{}\n", platform.title);
    let titles = Access::ALL.map(Access::name);
    let header = [&["bytes"][..], &titles, &["gain"]].concat();
    let mut section = |title: &str, gain: bool, cell: &dyn Fn(Access, u32) -> f64, digits: usize| {
        out += &format!("\n{title}\n");
        let row = |bytes: u32| {
            let mut row = vec![bytes.to_string()];
            row.extend(Access::ALL.map(|access| format!("{:.digits$}", cell(access, bytes))));
            // Of header copy over copy, as it was published.
            let gain = gain.then(|| 100.0 * (cell(Access::HeaderCopy, bytes) / cell(Access::Copy, bytes) - 1.0));
            row.extend(gain.map(|gain| format!("{gain:.0} %")));
            row
        };
        table(&mut out, &header[..header.len() - usize::from(!gain)], LENGTHS.map(row).into());
    };
    section("Mbit/s", true, &|access, bytes| platform.rate(access, bytes).bits / 1e6, 0);
    section("packets/s", false, &|access, bytes| platform.rate(access, bytes).packets, 0);
    section("percent of the CPU", false, &|access, bytes| 100.0 * platform.rate(access, bytes).cpu, 0);
    section("percent of the bus", false, &|access, bytes| 100.0 * platform.rate(access, bytes).bus, 0);
    section("bytes over the bus per packet", false, &|access, bytes| platform.rate(access, bytes).crossing, 0);
    out += "\npublished, and the model\n";
    let row = |of: &Published| {
        let bounds = match (of.least, of.most) {
            (least, most) if least == most => format!("{most}"),
            (0.0, most) => format!("below {most}"),
            (least, most) => format!("{least} to {most}"),
        };
        let slack = match of.what {
            What::Gain => format!("± {} points", of.tolerance),
            _ => format!("± {} %", of.tolerance * 100.0),
        };
        let said = if platform.agrees(of) { "within" } else { "beyond" };
        let model = format!("{:.0}", platform.model(of));
        let bytes = of.bytes.to_string();
        [of.access.name(), &bytes, of.what.title(), &bounds, &model, &slack, said].map(str::to_owned).into()
    };
    let header = ["access", "bytes", "", "published", "model", "tolerance", ""];
    table(&mut out, &header, platform.published.iter().map(row).collect());
    out
}
