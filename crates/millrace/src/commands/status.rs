//! `millrace status`: what runs, whether its controllers do, what its timers did, and what is sent to collectors.

use std::fmt::Write as _;

use cli::failure::Failure;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use cli::report;
use control::socket::{Client, Request, SentState, Status};

/// The instance to ask.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command: one instance where it is named, else all.
pub fn run(args: &Args) -> Result<(), Failure> {
    let ask = |mut client: Client| client.ask::<Status>(&Request::Status).map_err(failed);
    let all = args.remote.connect_all()?.into_iter().map(ask).collect::<Result<Vec<_>, _>>()?;
    if args.remote.json {
        print_json(&all);
        return Ok(());
    }
    let row = |status: &Status| {
        let pinned = status.cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let cpus = if pinned.is_empty() { "any".to_string() } else { pinned };
        let workers = format!("{} {}", status.workers, status.mode);
        let ports = status.ports.len().to_string();
        let (name, program, pid) = (status.instance.clone(), status.program.clone(), status.pid.to_string());
        let state = state(status);
        vec![name, program, status.engine.clone(), workers, cpus, ports, pid, report::uptime(status.uptime_ms), state]
    };
    let header = ["instance", "program", "engine", "workers", "cpus", "ports", "pid", "up", "state"];
    let mut out = String::new();
    report::table(&mut out, &header, all.iter().map(row).collect());
    if let [one] = &all[..] {
        report::frames(&mut out, &one.holders);
        report::controllers(&mut out, &one.controllers);
        report::timers(&mut out, &one.timers);
        if let Some(own) = &one.sflow {
            let counted = [(own.samples, "samples"), (own.sent.datagrams, "datagrams")];
            collectors(&mut out, "sflow", own.to_string(), counted, &own.sent);
        }
        if let Some(own) = &one.ipfix {
            let counted = [(own.flows, "flows"), (own.sent.datagrams, "messages")];
            collectors(&mut out, "ipfix", own.to_string(), counted, &own.sent);
        }
    }
    print(format_args!("{out}"));
    Ok(())
}

/// What is sent to collectors, by a protocol: where to, how many of what, in how many of what.
fn collectors(out: &mut String, named: &str, to: String, [counted, datagrams]: [(u64, &str); 2], sent: &SentState) {
    // A String takes all that is written.
    let _ = write!(out, "\n  {named}: {to}");
    for (number, what) in [counted, datagrams] {
        let _ = write!(out, ", {} {what}", report::grouped(number));
    }
    for (number, what, fate) in [(sent.lost, counted.1, "lost"), (sent.failed, datagrams.1, "failed")] {
        if number > 0 {
            let _ = write!(out, ", {} {what} {fate}", report::grouped(number));
        }
    }
    out.push('\n');
    if let Some(error) = &sent.error {
        let _ = writeln!(out, "  {named}: error: {error}");
    }
}

/// `running`, or which controllers or parts in the kernel do not.
fn state(status: &Status) -> String {
    let all = status.controllers.iter().map(|(name, own)| (&**name, &*own.state));
    let kernel = status.kernel.iter().map(|kernel| ("kernel", &*kernel.state));
    let wrong = all.chain(kernel).filter(|(_, state)| *state != "running");
    let wrong: Vec<String> = wrong.map(|(name, state)| format!("{name} {state}")).collect();
    if wrong.is_empty() { "running".into() } else { wrong.join(", ") }
}
