//! `millrace drops`: the packets that a running instance has dropped since its start, by reason, with examples.

use std::fmt::Write as _;
use std::time::Instant;

use cli::failure::Failure;
use cli::remote::{Remote, failed};
use cli::report;
use cli::watch::Watch;
use control::socket::{Counters, MAX_TRACES, Request, Trace, Traces};
use indexmap::IndexMap;
use serde_json::json;

/// Bytes of an example that are shown, and in a line.
const SHOWN: usize = 128;
const LINE: usize = 16;

/// The instance to ask, and how often.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    watch: Watch,
    /// With --watch: also the first packet that is dropped for each reason from now on. Packets are traced for that, in
    /// place of what `millrace trace` asked for
    #[arg(long, requires = "watch")]
    examples: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut before: Option<(IndexMap<String, u64>, Instant)> = None;
    if args.examples {
        let (packets, port, conditions) = (MAX_TRACES, None, Vec::new());
        let request = Request::TraceAdd { packets, port, drops_only: true, per_reason: true, conditions };
        args.remote.connect()?.ask::<serde_json::Value>(&request).map_err(failed)?;
    }
    args.watch.run(|| {
        let mut client = args.remote.connect()?;
        let asked = Instant::now();
        let drops = client.ask::<Counters>(&Request::Counters).map_err(failed)?.drops;
        // They were counted some time between.
        let at = asked + asked.elapsed() / 2;
        let found = args.examples.then(|| client.ask::<Traces>(&Request::TraceShow).map_err(failed)).transpose()?;
        match (args.remote.json, args.watch.is_on(), &found) {
            (true, _, None) => args.watch.json(&drops)?,
            (true, _, Some(found)) => args.watch.json(&json!({ "drops": drops, "examples": found.traces }))?,
            (false, false, _) => args.watch.text(&report::drops(&drops)),
            (false, true, found) => {
                let old = before.as_ref().map(|(drops, then)| (drops, at - *then));
                let examples = found.as_ref().map(|found| found.traces.iter().map(example).collect::<String>());
                args.watch.text(&(report::drop_rates(&drops, old) + &examples.unwrap_or_default()));
            }
        }
        before = Some((drops, at));
        Ok(())
    })
}

/// A packet that was dropped: why, what it is, and its first bytes.
fn example(trace: &Trace) -> String {
    let Trace { port, bytes: length, headers, dropped, .. } = trace;
    let mut out = format!("\n{}: port {port}, {length} bytes\n  {headers}\n", dropped.as_deref().unwrap_or_default());
    let shown = trace.packet_bytes();
    let shown = &shown[..shown.len().min(SHOWN)];
    for (number, line) in shown.chunks(LINE).enumerate() {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let text: String =
            line.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '.' }).collect();
        let _ = writeln!(out, "  {:04x}  {:<47}  {text}", number * LINE, digits.join(" "));
    }
    if *length > shown.len() {
        let _ = writeln!(out, "  … {} more", length - shown.len());
    }
    out
}
