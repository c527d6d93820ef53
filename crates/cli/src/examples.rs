//! Examples at the end of each command's help, and so in its manual page. Each crate with commands has one table of
//! them; a test of the command line sees to it that no command is without, and that all are accepted.

use clap::Command;

/// What stands above them.
pub const TITLE: &str = "Examples:";

/// Examples of one command.
#[derive(Clone, Copy, Debug)]
pub struct Examples {
    /// The command without `millrace`, such as `table get`.
    pub command: &'static str,
    /// Command lines as they can be typed, one to three.
    pub lines: &'static [&'static str],
}

/// Adds to the help of a command, and of those below it, the examples of a table; `path` is the command's own name
/// there.
pub fn add(command: Command, path: &str, table: &[Examples]) -> Command {
    let below = |own: Command| {
        let path = format!("{path} {}", own.get_name());
        add(own, path.trim_start(), table)
    };
    let command = command.mut_subcommands(below);
    let Some(own) = table.iter().find(|own| own.command == path) else { return command };
    let before = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let lines: Vec<String> = own.lines.iter().map(|line| format!("  {line}")).collect();
    command.after_help(format!("{before}{TITLE}\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stand_at_the_end() {
        let table = [
            Examples { command: "table", lines: &["millrace table ls"] },
            Examples { command: "table ls", lines: &["millrace table ls", "millrace table ls --json"] },
        ];
        let ls = Command::new("ls").after_help("More.");
        let all = add(Command::new("millrace").subcommand(Command::new("table").subcommand(ls)), "", &table);
        let table = all.find_subcommand("table").unwrap();
        assert_eq!(table.get_after_help().unwrap().to_string(), "Examples:\n  millrace table ls");
        let ls = table.find_subcommand("ls").unwrap().get_after_help().unwrap().to_string();
        assert_eq!(ls, "More.\n\nExamples:\n  millrace table ls\n  millrace table ls --json");
        assert_eq!(all.get_after_help().map(ToString::to_string), None);
    }
}
