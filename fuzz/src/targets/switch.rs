//! The L3 switch's program and configuration, made once.

use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use baker::library::Library;
use baker::{check, diag, ir};
use control::applications::Applications;
use control::config::Config;

const SOURCE: &str = include_str!("../../../apps/l3switch/l3switch.baker");
const CONFIG: &str = include_str!("../../../apps/l3switch/l3switch.toml");

fn compile(source: &str) -> Arc<Program> {
    let compilation = check::check("l3switch.baker", source, &Library);
    let Some(program) = compilation.program else {
        panic!("{}", diag::render(&compilation.diagnostics, &compilation.sources, false));
    };
    Arc::new(Program { name: "l3switch".into(), ..ir::lower(&program) })
}

fn read(program: &Program) -> Config {
    Config::parse("l3switch.toml", CONFIG, program, Applications::NONE).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// The program.
pub fn program() -> &'static Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(SOURCE))
}

/// Its configuration.
pub fn config() -> &'static Config {
    static CONFIGURATION: OnceLock<Config> = OnceLock::new();
    CONFIGURATION.get_or_init(|| read(program()))
}

/// The program with small tables for what it learns, which fill up and are quickly read and emptied; and its
/// configuration.
pub fn small() -> &'static (Arc<Program>, Config) {
    static SMALL: OnceLock<(Arc<Program>, Config)> = OnceLock::new();
    SMALL.get_or_init(|| {
        let source = ["neighbours", "stations"].iter().fold(SOURCE.to_owned(), |source, table| {
            let small = source.replace(&format!("{table}[65536]"), &format!("{table}[8]"));
            assert_ne!(small, source, "the program declares no table {table}[65536]");
            small
        });
        let program = compile(&source);
        let config = read(&program);
        (program, config)
    })
}
