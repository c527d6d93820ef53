//! The L3 switch's program and configuration, made once.

use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use baker::library::Library;
use baker::{check, diag, ir};
use control::config::Config;

const SOURCE: &str = include_str!("../../../apps/l3switch/l3switch.baker");
const CONFIG: &str = include_str!("../../../apps/l3switch/l3switch.toml");

/// The program.
pub fn program() -> &'static Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let compilation = check::check("l3switch.baker", SOURCE, &Library);
        let Some(program) = compilation.program else {
            panic!("{}", diag::render(&compilation.diagnostics, &compilation.sources, false));
        };
        Arc::new(Program { name: "l3switch".into(), ..ir::lower(&program) })
    })
}

/// Its configuration.
pub fn config() -> &'static Config {
    static CONFIGURATION: OnceLock<Config> = OnceLock::new();
    CONFIGURATION.get_or_init(|| Config::parse("l3switch.toml", CONFIG, program()).unwrap_or_else(|e| panic!("{e:?}")))
}
