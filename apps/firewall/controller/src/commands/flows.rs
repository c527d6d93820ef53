//! `millrace flows`: the flows of a running firewall.

use std::thread;
use std::time::Duration;

use cli::examples::Examples;
use cli::failure::Failure;
use cli::linked::Subcommand;
use cli::remote::{Remote, print_json};
use cli::report::{grouped, rate, table, uptime};
use cli::say;
use cli::watch::Watch;
use serde_json::Value as Json;

use crate::filter::{Filter, Sort};
use crate::flows::{Flow, Listed, USUAL};

/// Which to show, or what to do with them.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    which: Which,
    /// Which come first: those with most bits per second, bytes, packets, age, or idle time
    #[arg(long, value_name = "BY", default_value = "rate")]
    sort: Sort,
    /// Show so many at most
    #[arg(long, value_name = "N", default_value_t = USUAL)]
    limit: usize,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    remote: Remote,
}

#[derive(clap::Subcommand)]
enum Action {
    /// End flows: the rules decide about their next packets
    #[command(arg_required_else_help = true)]
    Kill {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        remote: Remote,
    },
}

/// All that fit everything that is said.
#[derive(clap::Args, Clone)]
struct Which {
    /// With this address at one of their ends
    #[arg(long, value_name = "ADDRESS[:PORT]|PREFIX")]
    address: Option<String>,
    /// With this port at one of their ends
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Of this protocol: tcp, udp, icmp, icmpv6 or a number
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// In this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Let in by this rule: its name or number; 0: by none
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
}

impl Which {
    fn filter(&self) -> Filter {
        let Which { address, port, protocol, state, rule } = self.clone();
        Filter { address, port, protocol, state, rule, ..Filter::default() }
    }
}

impl Subcommand for Args {
    const NAME: &'static str = "flows";
    const ABOUT: &'static str = "Show the flows of a running firewall, those that carry most first, or end them";
    const EXAMPLES: &'static [Examples] = &[
        Examples {
            command: "flows",
            lines: &[
                "millrace flows --watch",
                "millrace flows --address 10.0.1.0/24 --sort bytes --limit 20",
                "millrace flows --rule web --state established --json",
            ],
        },
        Examples {
            command: "flows kill",
            lines: &["millrace flows kill --address 192.0.2.7", "millrace flows kill --rule games"],
        },
    ];

    fn run(&self) -> Result<(), Failure> {
        if let Some(Action::Kill { which, remote }) = &self.action {
            let done: Json = remote.query("firewall", "kill", &which.filter())?;
            match remote.json {
                true => print_json(&done),
                false => say!("ended: {}", done["killed"]),
            }
            return Ok(());
        }
        // Rates are known from the second look on, where nobody has had flows counted.
        let first: Listed = self.remote.query("firewall", "flows", &Filter { limit: Some(0), ..Filter::default() })?;
        thread::sleep(Duration::from_millis(1000u64.saturating_sub(first.counted_ms)));
        let filter = Filter { sort: self.sort, limit: Some(self.limit), ..self.which.filter() };
        self.watch.run(|| {
            let listed: Listed = self.remote.query("firewall", "flows", &filter)?;
            self.watch.show(self.remote.json, &listed, shown)
        })
    }
}

fn shown(listed: &Listed) -> String {
    let header =
        ["client", "server", "protocol", "state", "rule", "bit/s", "up", "down", "packets up", "down", "age", "idle"];
    let row = |own: &Flow| {
        vec![
            own.client.clone(),
            own.server.clone(),
            own.protocol.clone(),
            own.state.clone(),
            own.rule.clone().unwrap_or_else(|| "-".into()),
            rate(own.bits_per_s),
            grouped(own.up),
            grouped(own.down),
            grouped(own.up_packets),
            grouped(own.down_packets),
            uptime(own.age_ms),
            uptime(own.idle_ms),
        ]
    };
    let mut out = String::new();
    if !listed.flows.is_empty() {
        table(&mut out, &header, listed.flows.iter().map(row).collect());
    }
    let (shown, fit, all) = (listed.flows.len(), listed.fit as u64, listed.all as u64);
    out + &format!(
        "{shown} of {} that fit, of {} in all; counted for {}\n",
        grouped(fit),
        grouped(all),
        uptime(listed.counted_ms)
    )
}
