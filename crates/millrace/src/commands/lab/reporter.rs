//! What a lab prints: lines for people, or one JSON object per line.

use std::process::ExitStatus;

use cli::output::print;
use cli::report::{grouped, table};
use cli::say;
use labfile::{Link, Plan};
use serde_json::{Map, Value as Json, json};

use super::network::{Counted, Network};

/// The reader that it is printed for.
#[derive(Clone)]
pub struct Reporter {
    /// For programs.
    pub json: bool,
}

impl Reporter {
    /// All is built and started.
    pub fn ready(&self, name: &str, plan: &Plan, network: &Network) {
        if self.json {
            let hosts = plan.hosts.iter().zip(network.hosts());
            let hosts: Map<String, Json> =
                hosts.map(|(h, ns)| (h.name.clone(), json!({ "path": ns.path() }))).collect();
            say!("{}", json!({ "event": "ready", "lab": name, "pid": std::process::id(), "hosts": hosts }));
            return;
        }
        say!("lab {name} is up:");
        for link in &plan.links {
            let how = match (link.is_impaired(), link.captured) {
                (true, _) => ", emulated",
                (false, true) => ", carried by the lab, which captures it",
                (false, false) => "",
            };
            say!("  {}{how}", show(link, plan));
        }
        say!("enter a host from any terminal:");
        for host in &plan.hosts {
            say!("  millrace lab exec --lab {name} {} -- COMMAND", host.name);
        }
        say!("Ctrl-C ends it");
    }

    /// A line that a program printed.
    pub fn output(&self, host: &str, line: &str) {
        if self.json {
            say!("{}", json!({ "event": "output", "host": host, "line": line }));
        } else {
            say!("[{host}] {line}");
        }
    }

    /// A program ended by itself.
    pub fn ended(&self, host: &str, command: &str, status: ExitStatus) {
        if self.json {
            say!("{}", json!({ "event": "ended", "host": host, "command": command, "status": status.code() }));
        } else {
            say!("[{host}] `{command}` ended: {status}");
        }
    }

    /// The lab ends.
    pub fn end(&self, plan: &Plan, counted: &Counted) {
        if self.json {
            say!("{}", as_json(plan, counted));
            return;
        }
        let mut rows = Vec::new();
        for (index, directions) in &counted.links {
            let [a, b] = plan.links[*index].ends.each_ref().map(|end| end.show(&plan.hosts));
            for ((from, to), counters) in [(&a, &b), (&b, &a)].into_iter().zip(directions) {
                let others = counters.named().into_iter().filter(|(name, n)| *n > 0 && !name.ends_with("bytes"));
                let others = others.filter(|(name, _)| !["received", "sent"].contains(name));
                let others: Vec<_> = others.map(|(name, n)| format!("{name} {}", grouped(n))).collect();
                let [received, sent] = [counters.received, counters.sent].map(grouped);
                rows.push(vec![format!("{from} → {to}"), received, sent, others.join(", ")]);
            }
        }
        if !rows.is_empty() {
            let mut out = "\n".to_owned();
            table(&mut out, &["links that the lab carries, packets", "received", "sent", "otherwise"], rows);
            print(format_args!("{out}"));
        }
        for (file, captured) in &counted.captures {
            match captured {
                Ok(captured) if captured.dropped > 0 => {
                    let [packets, dropped] = [captured.packets, captured.dropped].map(grouped);
                    say!("{file}: {packets} packets, and {dropped} that came too fast to be written");
                }
                Ok(captured) => say!("{file}: {} packets", grouped(captured.packets)),
                Err(error) => say!("{file}: {error}"),
            }
        }
    }
}

fn show(link: &Link, plan: &Plan) -> String {
    link.ends.each_ref().map(|end| end.show(&plan.hosts)).join(" ── ")
}

fn as_json(plan: &Plan, counted: &Counted) -> Json {
    let links = counted.links.iter().map(|(index, directions)| {
        let ends = plan.links[*index].ends.each_ref().map(|end| end.show(&plan.hosts));
        let [forward, backward] = directions.each_ref().map(|counters| {
            counters.named().into_iter().map(|(name, n)| (name.to_owned(), n.into())).collect::<Map<_, _>>()
        });
        json!({ "ends": ends, "forward": forward, "backward": backward })
    });
    let captures = counted.captures.iter().map(|(file, captured)| match captured {
        Ok(captured) => json!({ "file": file, "packets": captured.packets, "dropped": captured.dropped }),
        Err(error) => json!({ "file": file, "error": error.to_string() }),
    });
    json!({ "event": "end", "links": links.collect::<Vec<_>>(), "captures": captures.collect::<Vec<_>>() })
}
