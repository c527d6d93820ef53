//! `millrace demo`: applications at work on this machine, in network namespaces of its own: four hosts around the L3
//! switch, clients and web servers with the splicer between them (`splice`), an origin and players with the media proxy
//! between them (`media`).
//!
//! Everything belongs to this process and is gone when it ends, however it ends: see the `lab` crate.

mod blast;
mod kernel;
mod transfer;

use std::time::{Duration, Instant};

use baker::ir::{TableId, TableStore};
use clap::builder::{PossibleValue, PossibleValuesParser};
use cli::failure::Failure;
use cli::output::print;
use cli::report;
use cli::say;
use control::config::Config;
use dataplane::ports::{Driver, PortSpec};
use dataplane::{EngineKind, Instance, Options, TableAccess, bench};
use lab::L3Switch;

use crate::apps;
use crate::commands::instance::ports;
use applications::{BUILT_IN, LINKED};

/// How to run it.
#[derive(clap::Args)]
pub struct Args {
    /// What to show
    #[arg(default_value = SWITCH, value_parser = PossibleValuesParser::new(scenes()))]
    what: String,
    /// Length of the packet blast, or of what another application shows
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = cli::arguments::seconds)]
    seconds: Duration,
    /// Megabytes fetched with curl
    #[arg(long, value_name = "MB", default_value = "256", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    megabytes: u64,
}

/// The scene without a controller.
const SWITCH: &str = "l3switch";

/// What there is to show.
fn scenes() -> Vec<PossibleValue> {
    let own = LINKED
        .iter()
        .filter_map(|linked| Some(PossibleValue::new(linked.application.name()).help(linked.scene.as_ref()?.about)));
    let switch = PossibleValue::new(SWITCH).help("The L3 switch between four hosts");
    std::iter::once(switch).chain(own).collect()
}

const PICTURE: &str = "
  h1 10.0.1.11 ── p1 ┐                            ┌ p3 ── h3 10.0.2.13
  h2 10.0.1.12 ── p2 ┤  apps/l3switch, in Baker,  ├ p4 ── h4 10.0.2.14
                     │  compiled to machine code  │
             10.0.1.1┴──── the kernel's stack ────┴10.0.2.1
";

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    // Comes first: a process with threads can't change its user namespace.
    if !lab::has_privileges().map_err(Failure::refused)? {
        lab::enter_user_namespace().map_err(Failure::refused)?;
        say!("not root: running as root of a user namespace of its own");
    }
    let scene = LINKED.iter().filter(|linked| linked.application.name() == args.what).find_map(|linked| linked.scene);
    if let Some(scene) = scene {
        return (scene.run)(&apps::compile(&apps::find(&args.what)?)?, args.seconds);
    }
    say!("Millrace demo: a Baker program switches and routes packets of real hosts\n{PICTURE}");
    let source = apps::find(SWITCH)?;
    let started = Instant::now();
    let program = apps::compile(&source)?;
    let checked = started.elapsed();
    let (name, text) = source.config.clone().unwrap_or_default();
    let config =
        Config::parse(&name, &text, &program, BUILT_IN).map_err(|errors| Failure::wrong(errors[0].to_string()))?;

    let network = L3Switch::new().map_err(Failure::refused)?;
    // The kernel is the slow path: it forwards the first packet to a neighbour it has yet to ask for.
    network.switch.set_sysctl("net.ipv4.ip_forward", "1").map_err(Failure::refused)?;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let options =
        Options { frames: config.frames, cpus: if cpus > 1 { vec![0] } else { Vec::new() }, ..Options::default() };
    let devices: Vec<PortSpec> = L3Switch::PORTS
        .iter()
        .map(|name| PortSpec { name: name.to_string(), driver: Driver::AfPacket { interface: name.to_string() } })
        .collect();
    let ports = ports(&config, &devices, None)?;
    let started = Instant::now();
    let prepared = network.switch.enter(|| Instance::prepare(program.clone(), &options, &ports));
    let prepared = prepared.map_err(Failure::refused)?.map_err(Failure::refused)?;
    let native = started.elapsed();
    config.fill(&program, &mut prepared.tables()).map_err(Failure::wrong)?;
    let instance = prepared.run().map_err(Failure::refused)?;
    say!(
        "1. compiled {}: {} PPFs checked in {:.1} ms; machine code and ports ready in {:.1} ms\n",
        source.name,
        program.ppfs.len(),
        millis(checked),
        millis(native)
    );

    say!("2. ping");
    ping(&network)?;
    say!("\n3. curl: {} MB from h3 to h1, routed", args.megabytes);
    transfer::run(&network, args.megabytes)?;

    say!(
        "\n4. blast: 64-byte UDP packets from h1, half switched to h2, half routed to h3 and h4, {:.0} s",
        args.seconds.as_secs_f64()
    );
    let packets = blast::packets(&network)?;
    let length = args.seconds.max(Duration::from_millis(100));
    let by_workers = blast::through(&network, &instance, length, cpus)?;

    let tables = instance.tables();
    let measured = bench::in_memory(
        &program,
        EngineKind::NATIVE,
        1,
        |to| {
            config.fill(&program, to).map_err(|e| e.to_string())?;
            copy_learned(&tables, to, program.tables.len())
        },
        &packets,
        20_000,
    )
    .map_err(Failure::refused)?;
    say!(
        "  {:.0} ns per packet with AF_PACKET in and out; {:.1} ns per packet in the program alone",
        1e9 / by_workers.rate().max(1.0),
        measured.ns_per_packet
    );

    let ran = started.elapsed();
    let done = instance.stop();
    say!("\n5. everything that happened, by the switch's own counters");
    print(format_args!("{}", report::render(&done.snapshot.clone().into(), Some(ran))));
    if !done.errors.is_empty() || done.free_frames != done.frames {
        return Err(Failure::refused(format!(
            "{} of {} frames given back; {}",
            done.free_frames,
            done.frames,
            done.errors.join("; ")
        )));
    }

    say!("\n6. the same blast with the kernel engine: packets pass in the XDP hook, and workers have the rest");
    let learned = kernel::Learned { program: &program, tables: &tables };
    if let Some(by_kernel) = kernel::run(&network, &source, &config, &options, &learned, length, cpus)? {
        let times = by_kernel.rate() / by_workers.rate().max(1.0);
        say!("  {times:.1} times the rate of workers with AF_PACKET");
    }
    let millrace = this_program();
    say!(
        "
What to try next:
  {millrace} emit l3switch --target ir      the program as the compiler sees it (also: llvm, asm, dot)
  {millrace} check examples/patch.baker     a first program; README.md explains it
  {millrace} replay examples/patch.baker --in examples/first.pcap --out /tmp/out.pcap
  {millrace} run l3switch --port p1=afpacket:eth0 …   on your own interfaces: docs/operations.md"
    );
    Ok(())
}

/// How to call this program from where the user is.
fn this_program() -> String {
    let place = std::env::current_exe().ok();
    let here = std::env::current_dir().ok();
    let nearer = place.as_ref().zip(here.as_ref()).and_then(|(place, here)| place.strip_prefix(here).ok());
    nearer.or(place.as_deref()).map_or_else(|| "millrace".to_owned(), |path| path.display().to_string())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Pings through the switch and to it.
fn ping(network: &L3Switch) -> Result<(), Failure> {
    let pairs = [
        (1, "10.0.1.12", "h2", "switched"),
        (1, "10.0.2.13", "h3", "routed"),
        (4, "10.0.1.12", "h2", "routed"),
        (1, "10.0.1.1", "10.0.1.1", "answered by the switch's own stack"),
    ];
    for (from, address, to, how) in pairs {
        let host = network.host(from);
        // Until five are answered: otherwise `ping` waits 0.2 s for the last answer, which a busy machine may not keep.
        let output =
            host.ns.command("ping").args(["-c", "5", "-i", "0.2", "-w", "10", address]).limit(Duration::from_secs(15));
        let text = output.run().map_err(Failure::refused)?.text();
        // iputils: "5 packets transmitted, 5 received, …" and "rtt min/avg/max/mdev = 0.031/0.052/0.101/0.02 ms".
        let number = |behind: &str| text.split(behind).next().and_then(|s| s.rsplit(['\n', ' ']).next()).unwrap_or("0");
        let (sent, received) = (number(" packets transmitted"), number(" received"));
        let average = text.split("= ").nth(1).and_then(|s| s.split('/').nth(1)).unwrap_or("-");
        say!("  {} → {to:<9} {received}/{sent} answered, {average} ms on average; {how}", host.name);
        if received != "5" {
            return Err(Failure::refused(format!("{} did not get all answers from {address}\n{text}", host.name)));
        }
    }
    Ok(())
}

/// Copies what the running switch has learned, so that the program alone does the same work.
fn copy_learned(from: &TableAccess, to: &mut TableAccess, tables: usize) -> Result<(), String> {
    for table in (0..tables as u32).map(TableId) {
        for entry in from.dump(table) {
            to.insert(table, &entry).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}
