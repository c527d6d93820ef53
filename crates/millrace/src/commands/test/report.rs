//! What came of cases, for people and as JSON.

use std::fmt::Write;
use std::time::Duration;

use control::cases::{Case, CaseFailure, Outcome, Suite};
use serde_json::{Value, json};

/// Why the kernel ran nothing.
pub struct NotRun {
    /// At which hooks, as on the command line.
    pub engine: String,
    /// Why.
    pub why: String,
    /// It lets this process load nothing; otherwise the program is the reason.
    pub is_refused: bool,
}

/// What came of cases.
pub struct Report<'r> {
    /// Name of the program's file.
    pub name: &'r str,
    /// Name of the program.
    pub program: &'r str,
    /// The variants.
    pub suite: &'r Suite,
    /// Why the kernel is none of them, where it should be.
    pub not_run: Option<NotRun>,
    /// The cases.
    pub cases: Vec<Case>,
    /// What came of each case, in each variant.
    pub outcomes: Vec<Vec<Outcome>>,
}

impl Report<'_> {
    /// Each case with what came of it.
    pub fn each(&self) -> impl Iterator<Item = (&Case, &[Outcome])> {
        self.cases.iter().zip(self.outcomes.iter().map(Vec::as_slice))
    }

    /// How many cases failed in any variant.
    pub fn failed(&self) -> usize {
        self.outcomes.iter().filter(|outcomes| has_failed(outcomes)).count()
    }

    /// Names of the variants.
    pub fn variants(&self) -> impl Iterator<Item = &str> {
        self.suite.variants().iter().map(|variant| variant.name.as_str())
    }

    /// What is to be said of the kernel where it ran nothing.
    pub fn not_run_text(&self) -> Option<String> {
        let NotRun { why, is_refused, .. } = self.not_run.as_ref()?;
        let instead = format!("; its code ran on Millrace's own BPF machine instead (`{}`)", Suite::MACHINE);
        Some(format!("{why}{}", if *is_refused { &instead } else { "" }))
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let variants: Vec<&str> = self.variants().collect();
        let _ = writeln!(out, "{}: {}, run by: {}", self.name, count(self.cases.len()), variants.join("; "));
        let width = self.cases.iter().map(|case| case.name().chars().count()).max().unwrap_or(0);
        for (case, outcomes) in self.each() {
            let failed: Vec<&str> = failed_variants(&variants, outcomes).collect();
            let (name, about) = (case.name(), &case.description);
            let _ = match failed.len() {
                0 => writeln!(out, "  ok      {name:width$}  {about}"),
                all if all == variants.len() => writeln!(out, "  FAILED  {name:width$}  {about}"),
                _ => writeln!(out, "  FAILED  {name:width$}  {about} (by: {})", failed.join("; ")),
            };
        }
        for outcomes in &self.outcomes {
            for (failure, failed) in distinct(&variants, outcomes) {
                let _ = writeln!(out, "\nFAILED {}: {}", failure.place(), failure.description);
                if failed.len() < variants.len() {
                    let _ = writeln!(out, "  by: {}", failed.join("; "));
                }
                for line in failure.problems.lines() {
                    let _ = writeln!(out, "  {line}");
                }
            }
        }
        let runs = self.outcomes.iter().flatten().count();
        let time: Duration = self.outcomes.iter().flatten().map(|outcome| outcome.time).sum();
        let (all, failed) = (self.cases.len(), self.failed());
        let _ = writeln!(
            out,
            "\n{}: {} passed, {failed} failed; {runs} runs in {:.2} s",
            count(all),
            all - failed,
            time.as_secs_f64()
        );
        if let Some((NotRun { engine, .. }, why)) = self.not_run.as_ref().zip(self.not_run_text()) {
            let _ = writeln!(out, "NOT RUN: {engine}: {why}");
        }
        out
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let run = |(variant, outcome): (&str, &Outcome)| {
            let mut run = json!({
                "variant": variant, "passed": outcome.failure.is_none(), "seconds": outcome.time.as_secs_f64(),
            });
            if let Some(failure) = &outcome.failure {
                run["line"] = json!(failure.line);
                run["about"] = json!(failure.description);
                run["problems"] = json!(failure.problems.lines().collect::<Vec<_>>());
            }
            run
        };
        let case = |(case, outcomes): (&Case, &[Outcome])| {
            json!({
                "name": case.name(), "file": case.file, "description": case.description,
                "passed": !has_failed(outcomes),
                "runs": self.variants().zip(outcomes).map(run).collect::<Vec<_>>(),
            })
        };
        let failed = self.failed();
        json!({
            "program": self.name, "variants": self.variants().collect::<Vec<_>>(),
            "passed": self.cases.len() - failed, "failed": failed,
            "not_run": self.not_run.as_ref().map(|not| json!({"engine": not.engine, "why": self.not_run_text()})),
            "cases": self.each().map(case).collect::<Vec<_>>(),
        })
    }
}

/// `1 case`, `2 cases`.
pub fn count(cases: usize) -> String {
    if cases == 1 { "1 case".into() } else { format!("{cases} cases") }
}

fn has_failed(outcomes: &[Outcome]) -> bool {
    outcomes.iter().any(|outcome| outcome.failure.is_some())
}

/// The variants in which a case failed.
fn failed_variants<'w>(variants: &[&'w str], outcomes: &[Outcome]) -> impl Iterator<Item = &'w str> {
    variants.iter().zip(outcomes).filter(|(_, outcome)| outcome.failure.is_some()).map(|(variant, _)| *variant)
}

/// Each failure of a case that is not as another one, with all the variants in which it happened.
fn distinct<'o, 'w>(variants: &[&'w str], outcomes: &'o [Outcome]) -> Vec<(&'o CaseFailure, Vec<&'w str>)> {
    let mut found: Vec<(&CaseFailure, Vec<&str>)> = Vec::new();
    for (variant, outcome) in variants.iter().zip(outcomes) {
        let Some(failure) = &outcome.failure else { continue };
        let same = |other: &CaseFailure| (other.line, &other.problems) == (failure.line, &failure.problems);
        match found.iter_mut().find(|(other, _)| same(other)) {
            Some((_, variants)) => variants.push(variant),
            None => found.push((failure, vec![variant])),
        }
    }
    found
}
