//! `millrace table`: reads and changes the tables of a running instance.

use std::path::{Path, PathBuf};

use baker::ir::DeclaredKind;
use cli::failure::Failure;
use cli::output::print;
use cli::remote::{Remote, failed, print_json};
use cli::report;
use cli::say;
use control::entries::{text, typed};
use control::socket::{Entry, Found, MAX_REQUEST, Request, TableInfo, USUALLY_FOUND};
use serde_json::{Value as Json, json};

/// Bytes of a request beside its entries.
const ROOM: usize = 256;

/// What to do with a table.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the tables
    Ls {
        #[command(flatten)]
        remote: Remote,
    },
    /// Show one entry; of an address, the route that it takes
    Get {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        remote: Remote,
    },
    /// Insert an entry, or replace its value
    Set {
        #[command(flatten)]
        at: At,
        /// The value, which a set needs not: 1, 10.0.0.1, 02:00:00:00:00:01, '{ domain = 1, mac = "02:00:00:00:00:01"
        /// }'
        #[arg(allow_hyphen_values = true, default_value = "true", hide_default_value = true)]
        value: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Insert many entries, or replace their values, from JSON as `dump --json` prints it
    Load {
        /// The table
        #[arg(value_name = "MODULE.TABLE")]
        table: String,
        /// The file, or - for standard input
        file: PathBuf,
        #[command(flatten)]
        remote: Remote,
    },
    /// Remove an entry; set that of an array to zero
    Del {
        #[command(flatten)]
        at: At,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show entries that have a text in their key or value, in the order of their keys
    Find {
        /// The table
        #[arg(value_name = "MODULE.TABLE")]
        table: String,
        /// The text, in capital or small letters; without it all
        #[arg(default_value = "", hide_default_value = true)]
        text: String,
        /// Only what is behind this key
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        after: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = USUALLY_FOUND)]
        limit: usize,
        #[command(flatten)]
        remote: Remote,
    },
    /// Show all entries; of an array, those that are not all zero
    Dump {
        /// The table
        #[arg(value_name = "MODULE.TABLE")]
        table: String,
        #[command(flatten)]
        remote: Remote,
    },
}

/// An entry. Keys and values are written as in the configuration; text needs no quotes.
#[derive(clap::Args)]
struct At {
    /// The table
    #[arg(value_name = "MODULE.TABLE")]
    table: String,
    /// The key: 3, p1, 10.0.1.0/24, 02:00:00:00:00:01; for `get` also an address, whose longest prefix is looked for:
    /// 10.0.1.7; a member of a group is { group = 3, member = 7 }, and without a number it joins by `set`
    #[arg(allow_hyphen_values = true)]
    key: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Ls { remote } => list(remote),
        Action::Get { at, remote } => {
            let request = Request::TableGet { table: at.table.clone(), key: typed(&at.key) };
            let entry: Entry = remote.connect()?.ask(&request).map_err(failed)?;
            let (key, value) = (text(&entry.key), text(&entry.value));
            // Of an address the longest prefix was looked for.
            let found = key.contains('/') && !at.key.contains('/');
            show(remote, &entry, &if found { format!("{key} = {value}") } else { value });
            Ok(())
        }
        Action::Set { at, value, remote } => {
            let request = Request::TableSet { table: at.table.clone(), key: typed(&at.key), value: typed(value) };
            let entry: Entry = remote.connect()?.ask(&request).map_err(failed)?;
            show(remote, &entry, &format!("{} = {}", text(&entry.key), text(&entry.value)));
            Ok(())
        }
        Action::Del { at, remote } => {
            let request = Request::TableDel { table: at.table.clone(), key: typed(&at.key) };
            let gone: Json = remote.connect()?.ask(&request).map_err(failed)?;
            if remote.json {
                print_json(&gone);
            }
            Ok(())
        }
        Action::Load { table, file, remote } => load(table, file, remote),
        Action::Find { table, text, after, limit, remote } => {
            let (table, search, after) = (table.clone(), text.clone(), after.as_deref().map(typed));
            find(Request::TableFind { table, search, after, limit: *limit }, remote)
        }
        Action::Dump { table, remote } => dump(table, remote),
    }
}

fn list(remote: &Remote) -> Result<(), Failure> {
    let tables: Vec<TableInfo> = remote.connect()?.ask(&Request::Tables).map_err(failed)?;
    if remote.json {
        print_json(&tables);
        return Ok(());
    }
    let row = |table: TableInfo| {
        // A kind that a newer instance has is shown by its name.
        let row = DeclaredKind::named(&table.kind).map(DeclaredKind::row);
        let types = row.map_or_else(|| table.kind.clone(), |row| row.written(&table.key, &table.value));
        vec![table.name, types, report::grouped(table.entries as u64), report::grouped(table.capacity.into())]
    };
    let mut out = String::new();
    report::table(&mut out, &["table", "kind", "entries", "of"], tables.into_iter().map(row).collect());
    print(format_args!("{out}"));
    Ok(())
}

/// As many entries in a request as one may hold.
fn load(table: &str, file: &Path, remote: &Remote) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::wrong(format!("error: {}: {error}", file.display()));
    let read =
        if file == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let entries: Vec<Entry> = serde_json::from_str(&read.map_err(|error| wrong(&error))?)
        .map_err(|error| wrong(&format_args!("{error}; accepted: [{{\"key\": …, \"value\": …}}, …]")))?;
    let mut client = remote.connect()?;
    let count = entries.len();
    let (mut next, mut bytes) = (Vec::new(), 0);
    let mut send = |entries: &mut Vec<Entry>| {
        let request = Request::TableLoad { table: table.into(), entries: std::mem::take(entries) };
        client.ask::<Json>(&request).map_err(failed)
    };
    for entry in entries {
        let size = json!(entry).to_string().len() + 1;
        if !next.is_empty() && bytes + size > MAX_REQUEST - table.len() - ROOM {
            send(&mut next)?;
            bytes = 0;
        }
        bytes += size;
        next.push(entry);
    }
    if !next.is_empty() {
        send(&mut next)?;
    }
    if remote.json {
        print_json(&json!({ "entries": count }))
    } else {
        say!("{count} entries")
    }
    Ok(())
}

fn dump(table: &str, remote: &Remote) -> Result<(), Failure> {
    let mut client = remote.connect()?;
    // All of it comes before anything is printed: the reader of our output may take long, the instance does not wait.
    let mut entries: Vec<Entry> = Vec::new();
    let request = Request::TableDump { table: table.into() };
    let _: Json = client.ask_all(&request, |entry| entries.push(entry)).map_err(failed)?;
    if remote.json {
        print_json(&entries);
    } else {
        list_entries(&entries);
    }
    Ok(())
}

fn find(request: Request, remote: &Remote) -> Result<(), Failure> {
    let found: Found = remote.connect()?.ask(&request).map_err(failed)?;
    if remote.json {
        print_json(&found);
        return Ok(());
    }
    list_entries(&found.entries);
    if let (true, Some(last)) = (found.more, found.entries.last()) {
        say!("there are more: --after '{}'", text(&last.key));
    }
    Ok(())
}

fn list_entries(entries: &[Entry]) {
    let width = entries.iter().map(|entry| text(&entry.key).chars().count()).max().unwrap_or(0);
    for entry in entries {
        say!("{:<width$} = {}", text(&entry.key), text(&entry.value));
    }
}

fn show(remote: &Remote, entry: &Entry, plain: &str) {
    if remote.json { print_json(entry) } else { say!("{plain}") }
}
