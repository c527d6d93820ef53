//! `millrace trace`: what becomes of packets of a running instance, step by step.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cli::failure::Failure;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use cli::say;
use control::socket::{Request, Trace, Traces};
use control::walk::lines;
use dataplane::ports::{PcapngOutput, PcapngPacket};
use jiff::Timestamp;

/// Between two looks whether the packets have come.
const LOOK: Duration = Duration::from_millis(100);

/// What to do.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Trace packets from now on, and forget those that were traced before
    Add {
        /// How many, up to 1000
        packets: u32,
        /// Only packets that come in on this port
        #[arg(long, value_name = "PORT")]
        port: Option<String>,
        /// Only packets that are dropped
        #[arg(long)]
        drops_only: bool,
        /// Only packets that are dropped, and of each reason only the first
        #[arg(long)]
        per_reason: bool,
        /// Only packets of which this holds, by the program's names of headers and fields: ipv4.dst == 10.0.1.80 &&
        /// (tcp.dst_port == 443 || udp). Of several all must hold
        #[arg(long = "where", value_name = "CONDITION")]
        conditions: Vec<String>,
        /// Wait until they have come, for so many seconds at most, and show them
        #[arg(long, value_name = "SECONDS")]
        wait: Option<u32>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show what became of the packets that were traced
    Show {
        /// Capture file (pcapng) to write the packets to, each with its way as a comment, as Wireshark shows it
        #[arg(long, value_name = "OUT.pcapng")]
        pcap: Option<PathBuf>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Trace no more packets
    Stop {
        #[command(flatten)]
        remote: Remote,
    },
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Add { packets, port, drops_only, per_reason, conditions, wait, remote } => {
            let request = Request::TraceAdd {
                packets: *packets,
                port: port.clone(),
                drops_only: *drops_only,
                per_reason: *per_reason,
                conditions: conditions.clone(),
            };
            let mut client = remote.connect()?;
            client.ask::<serde_json::Value>(&request).map_err(failed)?;
            let Some(seconds) = wait else {
                if !remote.json {
                    let what = if *drops_only || *per_reason { "packets that are dropped" } else { "packets" };
                    say!("the next {packets} {what} are traced; `millrace trace show` shows them");
                }
                return Ok(());
            };
            let end = Instant::now() + Duration::from_secs((*seconds).into());
            loop {
                let found: Traces = client.ask(&Request::TraceShow).map_err(failed)?;
                if found.wanted == 0 || Instant::now() >= end {
                    show(&found, remote.json);
                    return Ok(());
                }
                std::thread::sleep(LOOK);
            }
        }
        Action::Show { pcap, remote } => {
            let found: Traces = remote.connect()?.ask(&Request::TraceShow).map_err(failed)?;
            match pcap {
                Some(path) => write(path, &found)?,
                None => show(&found, remote.json),
            }
            Ok(())
        }
        Action::Stop { remote } => {
            remote.connect()?.ask::<serde_json::Value>(&Request::TraceStop).map_err(failed)?;
            Ok(())
        }
    }
}

fn show(found: &Traces, json: bool) {
    if json {
        return print_json(found);
    }
    for trace in &found.traces {
        print(format_args!("{}\n", text(trace)));
    }
    match (found.traces.len(), found.wanted) {
        (0, 0) => say!("no packets were traced; `millrace trace add 10` traces some"),
        (_, 0) => {}
        (count, wanted) => say!("{count} traced; {wanted} more are waited for"),
    }
}

/// A packet with its way.
fn text(trace: &Trace) -> String {
    let Trace { number, at, port, bytes, headers, steps, .. } = trace;
    let at = Timestamp::from_nanosecond(i128::from(*at)).map(|at| format!(" {at:.6}")).unwrap_or_default();
    let mut out = String::new();
    let _ = writeln!(out, "{number}: port {port}, {bytes} bytes{at}");
    let _ = writeln!(out, "  {headers}");
    out + &lines(steps)
}

/// Writes the packets into a capture file, in which an interface is a port.
fn write(path: &Path, found: &Traces) -> Result<(), Failure> {
    let mut output = PcapngOutput::create(path).map_err(Failure::refused)?;
    let mut ports: Vec<&str> = Vec::new();
    for trace in &found.traces {
        let Trace { at, port, bytes: length, steps, .. } = trace;
        let known = ports.iter().position(|own| own == port);
        if known.is_none() {
            output.interface(port).map_err(Failure::refused)?;
            ports.push(port);
        }
        let packet = PcapngPacket {
            interface: known.unwrap_or(ports.len() - 1) as u32,
            time: Duration::from_nanos(*at),
            is_sent: false,
            length: *length as u32,
            bytes: &trace.packet_bytes(),
            comment: Some(&lines(steps)),
        };
        output.write(&packet).map_err(Failure::refused)?;
    }
    output.finish().map_err(Failure::refused)?;
    say!("{}: {} packets", path.display(), found.traces.len());
    Ok(())
}
