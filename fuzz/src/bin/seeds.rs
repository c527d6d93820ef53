//! Writes the seeds of a target into a folder, a file each: `seeds TARGET FOLDER`.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, folder] = &arguments[..] else {
        eprintln!("usage: seeds TARGET FOLDER");
        return ExitCode::FAILURE;
    };
    let write = || -> Result<(), String> {
        let target = fuzz::target(target)?;
        let fault = |error: std::io::Error| format!("{folder}: {error}");
        std::fs::create_dir_all(folder).map_err(fault)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(Path::new(folder).join(format!("seed-{number:03}")), seed).map_err(fault)?;
        }
        Ok(())
    };
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seeds: {error}");
            ExitCode::FAILURE
        }
    }
}
