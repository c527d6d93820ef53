//! `millrace man`: the command line as manual pages, one for each command.

use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::roff::{Roff, roman};
use cli::examples::TITLE;
use cli::failure::Failure;
use cli::say;

/// Where manual pages go.
#[derive(clap::Args)]
pub struct Args {
    /// The directory
    directory: PathBuf,
}

/// Runs `millrace man`.
pub fn run(args: &Args, parser: Command) -> Result<(), Failure> {
    let failed = |error| Failure::refused(format!("{}: {error}", args.directory.display()));
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    let mut parser = parser.disable_help_subcommand(true);
    parser.build();
    write(parser, &args.directory).map_err(failed)?;
    say!("{}: manual pages of all commands", args.directory.display());
    Ok(())
}

/// Writes the page of a command, and of those below it.
fn write(command: Command, to: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|own| !own.is_hide_set()).cloned() {
        write(below, to)?;
    }
    let file = to.join(clap_mangen::Man::new(command.clone()).get_filename());
    std::fs::write(file, page(command)?)
}

/// A page as `man` has them: what the help has below its options are notes, and examples as they are typed.
fn page(command: Command) -> io::Result<Vec<u8>> {
    let more = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, examples) = more.split_once(TITLE).unwrap_or((&more, ""));
    let has_subcommands = command.get_subcommands().any(|own| !own.is_hide_set());
    let has_options = command.get_arguments().any(|own| !own.is_hide_set());
    let has_version = command.get_version().is_some();
    let page = clap_mangen::Man::new(command).manual("Millrace");
    let mut out = Vec::new();
    page.render_title(&mut out)?;
    page.render_name_section(&mut out)?;
    page.render_synopsis_section(&mut out)?;
    page.render_description_section(&mut out)?;
    if has_options {
        page.render_options_section(&mut out)?;
    }
    if has_subcommands {
        page.render_subcommands_section(&mut out)?;
    }
    section("NOTES", notes, &mut out)?;
    section("EXAMPLES", examples, &mut out)?;
    if has_version {
        page.render_version_section(&mut out)?;
    }
    Ok(out)
}

/// Lines as they are, where there are some.
fn section(title: &str, text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    let text = text.trim_matches('\n');
    if text.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::default();
    roff.control("SH", [title]).control("nf", []);
    text.lines().for_each(|line| _ = roff.text([roman(line)]));
    roff.control("fi", []).to_writer(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_a_section() {
        let about = "More.\n\nExamples:\n  millrace table ls\n  millrace table ls --json";
        let ls = Command::new("ls").about("List").after_help(about);
        let page = String::from_utf8(page(ls).unwrap()).unwrap();
        for section in [
            "\n.SH NOTES\n.nf\nMore.\n.fi\n",
            "\n.SH EXAMPLES\n.nf\n  millrace table ls\n  millrace table ls \\-\\-json\n.fi\n",
        ] {
            assert!(page.contains(section), "{page}");
        }
        assert!(!page.contains("EXTRA"));
    }
}
