//! Results: what was measured, as a table and as JSON.

use std::path::Path;

use serde::Serialize;

/// One system's value of one metric in one case.
#[derive(Serialize)]
pub struct Row {
    case: String,
    system: String,
    metric: String,
    unit: String,
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
}

/// All rows of a measurement.
#[derive(Default)]
pub struct Results {
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Results {
    /// Adds the values of all runs.
    pub fn add(&mut self, case: &str, system: &str, metric: &str, unit: &str, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return };
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        let [case, system, metric, unit] = [case, system, metric, unit].map(str::to_string);
        self.rows.push(Row { case, system, metric, unit, median, min, max, runs: values.len() });
    }

    /// Says something that belongs to the table: what could not be measured, and why.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Prints the table and writes `target/bench/NAME.json`.
    pub fn publish(&self, name: &str) -> Result<(), String> {
        println!("| case | system | metric | median | min | max | runs |\n|---|---|---|---|---|---|---|");
        for r in &self.rows {
            println!(
                "| {} | {} | {} ({}) | {:.1} | {:.1} | {:.1} | {} |",
                r.case, r.system, r.metric, r.unit, r.median, r.min, r.max, r.runs
            );
        }
        self.notes.iter().for_each(|note| println!("\n{note}"));
        let machine = machine();
        let json = serde_json::json!({ "bench": name, "machine": machine, "rows": self.rows });
        let folder = Path::new("target/bench");
        let write = || {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{name}.json")), format!("{json:#}\n"))
        };
        write().map_err(|error| format!("{}: {error}", folder.display()))?;
        println!("\n{machine}; also in {}/{name}.json", folder.display());
        Ok(())
    }
}

/// Processor and number of cores.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).map(|l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    format!("{}, {cores} cores", model.unwrap_or(std::env::consts::ARCH))
}
