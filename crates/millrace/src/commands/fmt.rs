//! `millrace fmt`: writes Baker files in the one style.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use baker::source::Sources;
use baker::{diag, format};
use cli::failure::Failure;
use cli::output::print;
use cli::say;

/// What to format.
#[derive(clap::Args)]
pub struct Args {
    /// Baker files; directories, for all Baker files in them; `-` for standard input, formatted to standard output
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Change nothing: list the files that are not formatted, and end with status 1 if there are any
    #[arg(long)]
    check: bool,
}

/// Runs the command. A file that is wrong is left as it is and does not keep the others from being formatted.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut failures = Vec::new();
    let mut differ = 0usize;
    for path in &args.files {
        let files = find(path).unwrap_or_else(|error| {
            failures.push(format!("error: {}: {error}", path.display()));
            Vec::new()
        });
        for file in files {
            match one(&file, args.check) {
                Ok(same) => differ += usize::from(!same),
                Err(text) => failures.push(text),
            }
        }
    }
    match differ {
        0 => {}
        _ if !args.check => {}
        1 => failures.push("error: one file is not formatted: run `millrace fmt` on it".into()),
        count => failures.push(format!("error: {count} files are not formatted: run `millrace fmt` on them")),
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::wrong(failures.join("\n\n"))) }
}

/// Formats a file; whether it was formatted already. The error is text for the user.
fn one(path: &Path, check: bool) -> Result<bool, String> {
    let is_input = path == Path::new("-");
    let name = if is_input { "standard input".to_string() } else { path.display().to_string() };
    let failed = |error: io::Error| format!("error: {name}: {error}");
    let text = if is_input { read_input() } else { fs::read_to_string(path) }.map_err(failed)?;
    let mut sources = Sources::default();
    let file = sources.add(&name, &text);
    let formatted = format::format(file, &text)
        .map_err(|errors| diag::render(&errors, &sources, io::stderr().is_terminal()).trim_end().to_string())?;
    let same = formatted == text;
    match (check, is_input) {
        (true, _) if !same => say!("{name}"),
        (false, true) => print(format_args!("{formatted}")),
        (false, false) if !same => fs::write(path, formatted).map_err(failed)?,
        _ => {}
    }
    Ok(same)
}

fn read_input() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// The file, or all Baker files in a directory and those in it, in the order of their names. Hidden directories and
/// links to directories are left out.
fn find(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && !entry.file_name().as_encoded_bytes().starts_with(b".") {
                open.push(entry.path());
            } else if !kind.is_dir() && entry.path().extension().is_some_and(|ending| ending == "baker") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
