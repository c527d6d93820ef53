//! `millrace report`: all that a report of a mistake needs, in one archive, without secrets.
//!
//! | file | idea |
//! |---|---|
//! | `redact` | leaves secrets out |
//! | `archive` | the files of a report, what is missing, and the archive |
//! | `program` | programs of the system, bounded |
//! | `host` | the machine |
//! | `process` | an instance's process |

mod archive;
mod host;
mod process;
mod program;
mod redact;

use std::path::{Path, PathBuf};

use cli::failure::Failure;
use cli::remote::Place;
use cli::say;
use control::socket::{Client, Counters, Request, Status, TableInfo};
use figures::exposition::{Format, text};
use serde::Serialize;
use serde_json::Value as Json;

use self::archive::{Archive, Contents, Kind, MISSING};
use self::redact::Secrets;
use super::metrics::look;
use crate::apps;

/// Which instances, and where the report goes.
#[derive(clap::Args)]
pub struct Args {
    /// The archive, a new file; otherwise millrace-report-DATE.tar.gz here
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Runs the command: for the instance that is named, else for all that run.
pub fn run(args: &Args) -> Result<(), Failure> {
    let path = args.file.clone().unwrap_or_else(file_of_now);
    let sockets = args.place.paths()?;
    let archive = Archive::create(&path)?;
    let (mut contents, mut secrets) = (Contents::default(), Secrets::default());
    contents.add("version.txt", Kind::Data, Ok::<_, String>(format!("millrace {}\n", env!("CARGO_PKG_VERSION"))));
    host::add(&mut contents);
    let mut names = Vec::new();
    for socket in &sockets {
        let name = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match Client::connect(socket) {
            Ok(client) => instance(&mut contents, &mut secrets, &name, client),
            Err(error) => {
                contents.miss(&name, error);
                contents.add(format!("{name}/log.txt"), Kind::Log, process::log(&format!("millrace@{name}")));
            }
        }
        names.push(name);
    }
    if sockets.is_empty() {
        contents.miss("instances", "none is running");
        // One that has crashed has left its log.
        contents.add("log.txt", Kind::Log, process::log("millrace@*"));
    }
    let files = contents.finish(|kind, text| match kind {
        Kind::Data => secrets.known(text),
        Kind::Log => secrets.log(text),
    });
    archive.write(&files)?;
    tell(&path, &names, &files);
    Ok(())
}

/// `millrace-report-20261127T114500Z.tar.gz`.
fn file_of_now() -> PathBuf {
    format!("millrace-report-{}.tar.gz", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")).into()
}

/// Says what is in it.
fn tell(path: &Path, names: &[String], files: &[(String, String)]) {
    let about = if names.is_empty() { "no instance".to_owned() } else { names.join(", ") };
    say!("{}: a report of {about}", path.display());
    for (name, text) in files.iter().filter(|(name, _)| name != MISSING) {
        say!("  {name}: {} bytes", cli::report::grouped(text.len() as u64));
    }
    if let Some((_, missing)) = files.iter().find(|(name, _)| name == MISSING) {
        say!("  {MISSING}: what could not be got: {}", missing.lines().count());
    }
    say!(
        "Passwords, tokens and keys of configurations are left out where their names say what they are. Addresses and \
         names of hosts, interfaces and streams are in it: look through it before you pass it on."
    );
}

/// Adds what an instance says of itself, and what is known of its process.
fn instance(contents: &mut Contents, secrets: &mut Secrets, name: &str, mut client: Client) {
    let status = client.ask::<Status>(&Request::Status);
    contents.add(format!("{name}/status.json"), Kind::Data, json(&status));
    contents.add(format!("{name}/counters.json"), Kind::Data, json(&client.ask::<Counters>(&Request::Counters)));
    contents.add(format!("{name}/tables.json"), Kind::Data, json(&client.ask::<Vec<TableInfo>>(&Request::Tables)));
    contents.add(format!("{name}/queries.json"), Kind::Data, json(&client.ask::<Json>(&Request::Queries)));
    contents.add(
        format!("{name}/metrics.txt"),
        Kind::Data,
        look(&mut client).map(|seen| text(&seen, Format::OpenMetrics)),
    );
    let Ok(status) = status else { return };
    let configuration = configuration(&status).and_then(|text| secrets.configuration(&text));
    contents.add(format!("{name}/configuration.toml"), Kind::Data, configuration);
    process::add(contents, name, &status);
}

fn json<T: Serialize, E: std::fmt::Display>(answer: &Result<T, E>) -> Result<String, String> {
    let answer = answer.as_ref().map_err(ToString::to_string)?;
    serde_json::to_string_pretty(answer).map_err(|error| error.to_string())
}

/// The configuration as it is now: the file, or what is built in beside the program.
fn configuration(status: &Status) -> Result<String, String> {
    if let Some(path) = &status.config {
        return host::read(path);
    }
    let stem = Path::new(&status.program).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = apps::find(&stem).map_err(|_| "the instance has none")?;
    source.config.map(|(_, text)| text).ok_or_else(|| "the instance has none".into())
}
