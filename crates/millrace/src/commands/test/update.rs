//! Writes what was found into case files: only what all engines agree on, and only where the case passes with it.

use std::path::Path;

use cli::failure::Failure;
use control::cases::{Case, Loader, updated};

use super::report::Report;

/// Updates the files of cases that failed, and takes what comes of them then. Gives a line about each.
pub fn update(report: &mut Report, loader: &Loader) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for index in 0..report.cases.len() {
        if report.outcomes[index].iter().all(|outcome| outcome.failure.is_none()) {
            continue;
        }
        let file = report.cases[index].file.clone();
        let shown = file.display();
        let (case, text) = match new_case(report, loader, &report.cases[index]) {
            Ok(new) => new,
            Err(why) => {
                lines.push(format!("not updated: {shown}: {why}"));
                continue;
            }
        };
        std::fs::write(&file, text)
            .map_err(|error| Failure::refused(format!("{shown}: cannot be written: {error}")))?;
        report.outcomes[index] = report.suite.run(&case);
        report.cases[index] = case;
        lines.push(format!("updated: {shown}"));
    }
    Ok(lines)
}

/// A case that passes, with its text; the error: why there is none.
fn new_case(report: &Report, loader: &Loader, case: &Case) -> Result<(Case, String), String> {
    let observed = report.suite.observe(case).map_err(|failure| failure.problems.trim_end().to_owned())?;
    let observed = observed.ok_or("the engines do not agree on what comes out: that is a fault of Millrace")?;
    let text = updated(loader.program, case, &observed).map_err(|error| error.to_string())?;
    if text == case.text {
        return Err("what fails is in [after], which is not updated".into());
    }
    let read = |path: &Path| if path == case.file { Ok(text.clone()) } else { (loader.read)(path) };
    let again = Loader { read: &read, config: loader.config.clone(), ..*loader };
    let case = again.load(&case.file).map_err(|error| format!("it would be wrong then: {error}"))?;
    match report.suite.run(&case).into_iter().find_map(|outcome| outcome.failure) {
        None => Ok((case, text)),
        Some(failure) => Err(format!("it would fail then, too: {}", failure.problems.trim_end())),
    }
}
