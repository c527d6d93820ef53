//! `millrace sessions`: the connections of a running splicer.

use cli::examples::Examples;
use cli::failure::Failure;
use cli::linked::Subcommand;
use cli::remote::{Remote, print_json};
use cli::report::{grouped, table};
use cli::say;
use cli::watch::Watch;
use serde_json::Value as Json;

use crate::admin::sessions::{Filter, Listed, MOST, Session};

/// Which to show, or what to do with them.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    which: Which,
    /// Show so many at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    remote: Remote,
}

#[derive(clap::Subcommand)]
enum Action {
    /// End connections with resets to both sides
    #[command(arg_required_else_help = true)]
    Kill {
        /// Ids of connections
        #[arg(value_name = "ID")]
        ids: Vec<u64>,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        remote: Remote,
    },
}

/// All that fit everything that is said.
#[derive(clap::Args, Clone)]
struct Which {
    /// Of this service
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// To this server
    #[arg(long, value_name = "POOL/NAME")]
    server: Option<String>,
    /// Of this client
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    client: Option<String>,
}

impl Which {
    fn filter(&self) -> Filter {
        let Which { service, server, client } = self.clone();
        Filter { service, server, client, ..Filter::default() }
    }
}

impl Subcommand for Args {
    const NAME: &'static str = "sessions";
    const ABOUT: &'static str = "Show the connections of a running splicer, or end them";
    const EXAMPLES: &'static [Examples] = &[
        Examples {
            command: "sessions",
            lines: &[
                "millrace sessions --service www --limit 20",
                "millrace sessions --server web/a --watch",
                "millrace sessions kill 1674",
            ],
        },
        Examples {
            command: "sessions kill",
            lines: &["millrace sessions kill 1674 1675", "millrace sessions kill --client 192.0.2.7"],
        },
    ];

    fn run(&self) -> Result<(), Failure> {
        if let Some(Action::Kill { ids, which, remote }) = &self.action {
            let filter = Filter { ids: ids.clone(), ..which.filter() };
            let done: Json = remote.query("splice", "kill", &filter)?;
            match remote.json {
                true => print_json(&done),
                false => say!("ended: {}", done["killed"]),
            }
            return Ok(());
        }
        self.watch.run(|| self.watch.show(self.remote.json, &list(self)?, shown))
    }
}

/// As many as are wanted, some of them at a time.
fn list(args: &Args) -> Result<Listed, Failure> {
    let mut all = Listed::default();
    let mut filter = args.which.filter();
    loop {
        filter.limit = Some((args.limit - all.sessions.len()).min(MOST));
        let some: Listed = args.remote.query("splice", "sessions", &filter)?;
        let Some(last) = some.sessions.last().map(|session| session.id) else {
            if all.sessions.is_empty() {
                all = some;
            }
            return Ok(all);
        };
        let is_all = some.sessions.len() == some.fit;
        if filter.after == 0 {
            (all.fit, all.all) = (some.fit, some.all);
        }
        all.sessions.extend(some.sessions);
        if is_all || all.sessions.len() >= args.limit {
            return Ok(all);
        }
        filter.after = last;
    }
}

fn shown(listed: &Listed) -> String {
    let header = ["client", "id", "service", "server", "state", "mode", "age", "idle", "up", "down", "no", "request"];
    let row = |own: &Session| {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        let request = own.request.as_ref().map(|request| {
            let status = request.status.map(|status| format!(" {status}")).unwrap_or_default();
            printable(&format!("{} {}{}{status}", request.method, request.host, request.path))
        });
        vec![
            own.client.clone(),
            own.id.to_string(),
            text(&own.service),
            text(&own.server),
            own.state.clone(),
            own.modes.iter().flatten().map(String::as_str).collect::<Vec<_>>().join("/"),
            time(own.age_ms),
            time(own.idle_ms),
            grouped(own.up),
            grouped(own.down),
            own.requests.to_string(),
            text(&request),
        ]
    };
    let mut out = String::new();
    if !listed.sessions.is_empty() {
        table(&mut out, &header, listed.sessions.iter().map(row).collect());
    }
    let (shown, fit, all) = (listed.sessions.len(), listed.fit, listed.all);
    out + &format!("{} of {} that fit, of {} in all\n", shown, grouped(fit as u64), grouped(all as u64))
}

/// What came from a client, without what a terminal would take for something else, and not too long.
fn printable(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    visible.take(60).collect()
}

/// `12.3 s`, `5 min`, `3 h`.
pub fn time(milliseconds: u64) -> String {
    match milliseconds {
        ms @ 0..100_000 => format!("{}.{} s", ms / 1000, ms / 100 % 10),
        ms @ 100_000..7_200_000 => format!("{} min", ms / 60_000),
        ms => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_client_reaches_the_terminal_as_a_command() {
        assert_eq!(printable("GET h/\u{1b}[2J\u{9b}x"), "GET h/\u{fffd}[2J\u{fffd}x");
        assert_eq!(printable(&"x".repeat(1000)).len(), 60);
    }

    #[test]
    fn times() {
        assert_eq!(
            [0, 99_999, 100_000, 7_199_999, 7_200_000].map(time),
            ["0.0 s", "99.9 s", "1 min", "119 min", "2 h"]
        );
    }
}
