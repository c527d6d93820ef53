//! `millrace timing`: how long packets of a running instance are in each PPF.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cli::failure::Failure;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use cli::report::{grouped, interval, table};
use control::socket::{Client, LookUps, MAX_TIMING, PpfTiming, Request, Timing};
use indicatif::{ProgressBar, ProgressFinish};

/// Between two looks whether the time is over.
const LOOK: Duration = Duration::from_millis(100);
/// How long the program that measures nothing may take to take over, and packets to come to it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Columns of the longest bar of a histogram.
const BAR: usize = 40;

/// What to measure.
#[derive(clap::Args)]
pub struct Args {
    /// For how long, up to 600
    #[arg(long = "for", value_name = "SECONDS", default_value = "10",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TIMING)))]
    seconds: u32,
    /// Also how many packets are there for how long, in this PPF
    #[arg(long, value_name = "PPF")]
    ppf: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut client = args.remote.connect()?;
    if let Some(ppf) = &args.ppf {
        let counters: control::socket::Counters = client.ask(&Request::Counters).map_err(failed)?;
        if !counters.ppfs.contains_key(ppf) {
            let known: Vec<_> = counters.ppfs.keys().map(String::as_str).collect();
            return Err(Failure::wrong(format!("error: there is no PPF {ppf}\n  PPFs: {}", known.join(", "))));
        }
    }
    let timing = measured(&mut client, args.seconds)?;
    if args.remote.json {
        print_json(&timing);
        return Ok(());
    }
    print(format_args!("{}", text(&timing)));
    if let Some(ppf) = &args.ppf {
        match timing.ppfs.iter().find(|own| own.ppf == *ppf) {
            Some(own) => print(format_args!("\n{}", histogram(own))),
            None => print(format_args!("\n{ppf}: no packet was there\n")),
        }
    }
    Ok(())
}

/// Has it measured, and waits until that is over.
fn measured(client: &mut Client, seconds: u32) -> Result<Timing, Failure> {
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear);
    bar.set_message("the program that measures is made");
    bar.enable_steady_tick(LOOK);
    client.ask::<serde_json::Value>(&Request::TimingStart { seconds }).map_err(failed)?;
    let end = Instant::now() + Duration::from_secs(seconds.into()) + PATIENCE;
    loop {
        std::thread::sleep(LOOK);
        let timing: Timing = client.ask(&Request::TimingShow).map_err(failed)?;
        if timing.left_ms == 0 {
            return Ok(timing);
        }
        bar.set_message(format!("measured for {} s more", timing.left_ms.div_ceil(1000)));
        if let Some(error) = timing.error.filter(|_| Instant::now() > end) {
            return Err(Failure::refused(format!("it is still measured: {error}")));
        }
    }
}

/// All PPFs.
fn text(timing: &Timing) -> String {
    let seconds = timing.measured_ms as f64 / 1e3;
    if timing.ppfs.is_empty() {
        return format!("no packet came in {seconds:.1} s\n");
    }
    let all: u64 = timing.ppfs.iter().map(|own| own.times.total_ns).sum();
    let mut out = format!("time of packets in PPFs, measured for {seconds:.1} s\n");
    let row = |PpfTiming { ppf, engine, times }: &PpfTiming| {
        let [half, most, nearly] =
            [times.p50_ns, times.p90_ns, times.p99_ns].map(|bound| format!("<{}", interval(bound as f64)));
        let share = format!("{:.1} %", times.total_ns as f64 * 100.0 / all.max(1) as f64);
        let engine = engine.clone().unwrap_or_default();
        vec![ppf.clone(), engine, grouped(times.count), interval(times.mean_ns()), half, most, nearly, share]
    };
    let header = ["PPF", "engine", "packets", "mean", "50 %", "90 %", "99 %", "of all time"];
    table(&mut out, &header, timing.ppfs.iter().map(row).collect());
    if !timing.tables.is_empty() {
        let row = |own: &LookUps| {
            let share = format!("{:.1} %", own.missed as f64 * 100.0 / own.count.max(1) as f64);
            vec![own.table.clone(), grouped(own.count), grouped(own.missed), share]
        };
        out.push('\n');
        table(&mut out, &["table", "look-ups", "found nothing", "of all"], timing.tables.iter().map(row).collect());
    }
    out
}

/// How many packets were in a PPF for how long.
fn histogram(own: &PpfTiming) -> String {
    let mut out =
        format!("{}{}\n", own.ppf, own.engine.iter().map(|engine| format!(" ({engine})")).collect::<String>());
    let most = own.times.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    for bucket in &own.times.buckets {
        let bar = "█".repeat((bucket.count as f64 * BAR as f64 / most as f64).ceil() as usize);
        let share = bucket.count as f64 * 100.0 / own.times.count as f64;
        let _ = writeln!(out, "  {:>10}  {share:>5.1} %  {bar}", format!("<{}", interval(bucket.below_ns as f64)));
    }
    out
}
