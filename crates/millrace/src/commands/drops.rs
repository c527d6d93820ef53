//! `millrace drops`: the packets that a running instance has dropped since its start, by reason.

use std::time::Instant;

use cli::failure::Failure;
use cli::remote::{Remote, failed};
use cli::report;
use cli::watch::Watch;
use control::socket::{Counters, Request};
use indexmap::IndexMap;

/// The instance to ask, and how often.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    watch: Watch,
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut before: Option<(IndexMap<String, u64>, Instant)> = None;
    args.watch.run(|| {
        let mut client = args.remote.connect()?;
        let asked = Instant::now();
        let drops = client.ask::<Counters>(&Request::Counters).map_err(failed)?.drops;
        // They were counted some time between.
        let at = asked + asked.elapsed() / 2;
        match (args.remote.json, args.watch.is_on()) {
            (true, _) => args.watch.json(&drops)?,
            (false, false) => args.watch.text(&report::drops(&drops)),
            (false, true) => {
                let old = before.as_ref().map(|(drops, then)| (drops, at - *then));
                args.watch.text(&report::drop_rates(&drops, old));
            }
        }
        before = Some((drops, at));
        Ok(())
    })
}
