//! What `millrace sim` prints.

use cli::report::{grouped, table};
use npmodel::paths::ExecutionPath;
use npmodel::{MOST, Memory, Platform, Point, listing};
use serde_json::{Value, json};

use super::Build;

/// What is printed of.
pub(super) struct View<'a> {
    pub name: &'a str,
    pub app: &'a str,
    pub platform: &'a Platform,
    pub builds: &'a [Build],
    pub offered: Option<f64>,
    /// Execution paths whose micro-operations are listed.
    pub listed: usize,
}

impl View<'_> {
    /// As data.
    pub fn json(&self) -> Value {
        let builds: serde_json::Map<String, Value> = self
            .builds
            .iter()
            .map(|build| (build.traced.level.name().to_owned(), build_json(build, self.listed)))
            .collect();
        json!({
            "app": self.app, "platform": self.platform.name, "packets": self.builds[0].traced.packets.len(),
            "offered_gbps": self.offered, "builds": builds,
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let first = &self.builds[0].traced;
        let mut out = format!("{}: {} packets of the trace, ", self.name, grouped(first.packets.len() as u64));
        out += &format!(
            "{:.1} bytes on the line on average; {}\n",
            first.mean(|path| path.bits() as f64 / 8.0),
            self.platform.title
        );
        if first.packets.len() > MOST {
            out += &format!("rates are those of {} of them, spread evenly over the trace\n", grouped(MOST as u64));
        }
        out += "\nper packet, by the program\n";
        let header = ["", "instructions", "dram accesses", "bytes", "sram", "bytes", "scratch", "bytes", "paths"];
        let row = |build: &Build| {
            let traced = &build.traced;
            let mut cells = vec![traced.level.name().to_owned(), format!("{:.1}", traced.instructions())];
            for traffic in Memory::ALL.map(|memory| traced.traffic(memory)) {
                cells.extend([traffic.accesses, traffic.bytes].map(|number| format!("{number:.1}")));
            }
            cells.push(traced.paths.len().to_string());
            cells
        };
        table(&mut out, &header, self.builds.iter().map(row).collect());
        out += match self.offered {
            Some(_) => "\nGbit/s by number of engines, as offered\n",
            None => "\nGbit/s by number of engines, as fast as packets are taken\n",
        };
        let levels: Vec<&str> = self.builds.iter().map(|build| build.traced.level.name()).collect();
        let rates = (0..self.builds[0].points.len()).map(|index| {
            let point = |build: &Build| format!("{:.3}", build.points[index].bits_per_second / 1e9);
            let engines = self.builds[0].points[index].engines;
            std::iter::once(engines.to_string()).chain(self.builds.iter().map(point)).collect()
        });
        let rates: Vec<Vec<String>> = rates.collect();
        table(&mut out, &[&["engines"], &levels[..]].concat(), rates);
        for build in self.builds {
            out += &format!(
                "\n{}: percent of the engines' cycles, and of each memory's time\n",
                build.traced.level.name()
            );
            let header = [
                "engines",
                "busy",
                "wait dram",
                "sram",
                "scratch",
                "ring full",
                "no packet",
                "use of dram",
                "sram",
                "scratch",
                "receive",
                "transmit",
                "mapping",
            ];
            table(&mut out, &header, build.points.iter().map(cycles).collect());
        }
        let has = self.platform.application_engines() as usize;
        if self.builds[0].points.iter().any(|point| point.engines > has) {
            out += &format!(
                "\nthe processor has {has} engines beside those that receive and send; more is what it might have had\n"
            );
        }
        for build in self.builds.iter().filter(|build| build.points.iter().any(|point| !point.fits)) {
            let code: u32 = build.points[0].mapping.code(&build.traced);
            out += &format!(
                "\n{}: {} instructions of code do not fit into an engine's {}; the figures are as if they did\n",
                build.traced.level.name(),
                grouped(code.into()),
                grouped(self.platform.engines.code_store.whole().into())
            );
        }
        for build in self.builds {
            for path in most_taken(build, self.listed) {
                let packets = grouped(path.packets);
                out += &format!("\n{}: what {packets} packets execute\n", build.traced.level.name());
                out.extend(listing(&build.traced.program, &path.sequence).iter().map(|line| format!("  {line}\n")));
            }
        }
        out
    }
}

/// So many of the execution paths, those that most packets take first.
fn most_taken(build: &Build, count: usize) -> impl Iterator<Item = &ExecutionPath> {
    let mut paths: Vec<&ExecutionPath> = build.traced.paths.iter().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.packets));
    paths.into_iter().take(count)
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn cycles(point: &Point) -> Vec<String> {
    let cycles = point.cycles;
    let shares = [cycles.busy].into_iter().chain(cycles.waiting).chain([cycles.blocked, cycles.idle]);
    let shares = shares.chain(point.utilisation).chain(point.edges).map(percent);
    let groups: Vec<String> = point.mapping.groups.iter().map(|group| group.engines.to_string()).collect();
    let mapping = match groups.len() {
        1 => point.mapping.name().to_owned(),
        _ => format!("{} {}", point.mapping.name(), groups.join("+")),
    };
    std::iter::once(point.engines.to_string()).chain(shares).chain([mapping]).collect()
}

fn build_json(build: &Build, listed: usize) -> Value {
    let traced = &build.traced;
    let traffic = Memory::ALL.map(|memory| {
        let of = traced.traffic(memory);
        (memory.name().to_owned(), json!({"accesses": of.accesses, "bytes": of.bytes}))
    });
    let by_memory = |values: [f64; 3]| {
        Memory::ALL
            .iter()
            .zip(values)
            .map(|(memory, value)| (memory.name().to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
    };
    let point = |point: &Point| {
        let groups: Vec<Value> = point
            .mapping
            .groups
            .iter()
            .map(|group| {
                let name = |ppf: &baker::ir::PpfId| traced.program.ppfs[ppf.0 as usize].name.clone();
                json!({"engines": group.engines, "ppfs": group.ppfs.iter().map(name).collect::<Vec<_>>()})
            })
            .collect();
        json!({
            "engines": point.engines, "gbps": point.bits_per_second / 1e9, "mpps": point.packets_per_second / 1e6,
            "lost": point.lost, "mapping": point.mapping.name(), "groups": groups,
            "code": point.mapping.code(traced), "fits": point.fits,
            "cycles": {
                "busy": point.cycles.busy, "waiting": by_memory(point.cycles.waiting), "ring_full": point.cycles.blocked,
                "no_packet": point.cycles.idle,
            },
            "utilisation": by_memory(point.utilisation), "receive": point.edges[0], "transmit": point.edges[1],
        })
    };
    let path =
        |path: &ExecutionPath| json!({"packets": path.packets, "operations": listing(&traced.program, &path.sequence)});
    json!({
        "instructions": traced.instructions(), "memories": serde_json::Map::from_iter(traffic),
        "paths": traced.paths.len(), "forwarded": traced.forwarded(), "listed": most_taken(build, listed).map(path).collect::<Vec<_>>(), "points": build.points.iter().map(point).collect::<Vec<_>>(),
    })
}
