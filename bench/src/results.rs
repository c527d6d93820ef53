//! Results: what was measured, as a table and as JSON.

use std::path::Path;

use serde::Serialize;

/// The peers in C, wholly by hand, that the others are compared with.
const PEERS: [&str; 2] = ["c", "c-straight"];

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
    /// Those of all runs, from the least on.
    #[serde(skip)]
    values: Vec<f64>,
}

/// `target/bench/NAME.json`.
#[derive(Serialize)]
struct File<'a> {
    bench: &'a str,
    machine: &'a str,
    rows: &'a [Row],
    /// What could not be measured, and why.
    notes: &'a [String],
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
        self.rows.push(Row { case, system, metric, unit, median, min, max, runs: values.len(), values });
    }

    /// The values of all runs that were added, from the least on; none where there is no such row.
    pub fn values(&self, case: &str, system: &str, metric: &str) -> Vec<f64> {
        self.row(case, system, metric).map_or(Vec::new(), |row| row.values.clone())
    }

    /// The median that was added.
    pub fn median(&self, case: &str, system: &str, metric: &str) -> Option<f64> {
        self.row(case, system, metric).map(|row| row.median)
    }

    fn row(&self, case: &str, system: &str, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.system == system && row.metric == metric)
    }

    /// Says something that belongs to the table: what could not be measured, and why.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// As it is written to the file.
    fn file<'a>(&'a self, name: &'a str, machine: &'a str) -> File<'a> {
        File { bench: name, machine, rows: &self.rows, notes: &self.notes }
    }

    /// For people. Beside each median: how many times that of the best C peer, in the same case, it is.
    fn table(&self) -> String {
        let peer = |row: &&Row| PEERS.contains(&&*row.system);
        let best = |row: &Row| {
            let same = self.rows.iter().filter(peer).filter(|c| c.case == row.case && c.metric == row.metric);
            same.map(|c| c.median).min_by(f64::total_cmp)
        };
        let cells = |r: &Row| {
            let ratio = best(r).map_or(String::new(), |best| format!("{:.2}", r.median / best));
            let numbers = [r.median, r.min, r.max].map(number);
            let [median, min, max] = numbers;
            [r.case.clone(), r.system.clone(), r.metric.clone(), median, ratio, min, max, r.runs.to_string()]
        };
        let head = ["case", "system", "metric", "median", "× best C", "min", "max", "runs"].map(str::to_owned);
        let lines: Vec<_> = std::iter::once(head).chain(self.rows.iter().map(cells)).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                // Numbers to the right.
                let cell = if column < 3 { format!("{cell}{padding}") } else { format!("{padding}{cell}") };
                text += &format!("| {cell} ");
            }
            text += "|\n";
            if index == 0 {
                let rule = |(column, width): (usize, &usize)| {
                    if column < 3 { format!("|-{}-", "-".repeat(*width)) } else { format!("|-{}:", "-".repeat(*width)) }
                };
                text += &(widths.iter().enumerate().map(rule).collect::<String>() + "|\n");
            }
        }
        text
    }

    /// Prints the table and writes `target/bench/NAME.json`.
    pub fn publish(&self, name: &str) -> Result<(), String> {
        print!("{}", self.table());
        self.notes.iter().for_each(|note| println!("\n{note}"));
        let machine = machine();
        let file = self.file(name, &machine);
        let json = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())?;
        let folder = Path::new("target/bench");
        let write = || {
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{name}.json")), json + "\n")
        };
        write().map_err(|error| format!("{}: {error}", folder.display()))?;
        println!("\n{machine}; also in {}/{name}.json", folder.display());
        Ok(())
    }
}

/// A number with two decimals, or with more where it is small.
fn number(n: f64) -> String {
    if n != 0.0 && n.abs() < 0.1 { format!("{n:.5}") } else { format!("{n:.2}") }
}

/// Processor and number of cores.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).map(|l| l.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(0, |n| n.get());
    format!("{}, {cores} cores", model.unwrap_or(std::env::consts::ARCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_documented_shape() {
        let mut results = Results::default();
        results.add("16 routes", "millrace", "ns_per_packet", "ns", vec![3.0, 1.0, 2.0, 10.0]);
        results.add("16 routes", "c", "ns_per_packet", "ns", vec![5.0]);
        results.add("16 routes", "kernel", "mpps", "million packets/s", vec![]);
        results.note("testpmd: not installed");
        let json = serde_json::to_value(results.file("l3", "a machine")).unwrap();
        let expected = serde_json::json!({
            "bench": "l3",
            "machine": "a machine",
            "rows": [
                { "case": "16 routes", "system": "millrace", "metric": "ns_per_packet", "unit": "ns",
                  "median": 2.5, "min": 1.0, "max": 10.0, "runs": 4 },
                { "case": "16 routes", "system": "c", "metric": "ns_per_packet", "unit": "ns",
                  "median": 5.0, "min": 5.0, "max": 5.0, "runs": 1 },
            ],
            "notes": ["testpmd: not installed"],
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn the_table_compares_with_c() {
        let mut results = Results::default();
        results.add("16 routes", "millrace", "ns_per_packet", "ns", vec![3.0]);
        results.add("16 routes", "c", "ns_per_packet", "ns", vec![2.0]);
        results.add("16 routes", "c-straight", "ns_per_packet", "ns", vec![4.0]);
        results.add("compile", "millrace", "ms", "ms", vec![30.0]);
        let table = results.table();
        let cells = |system: &str| -> Vec<String> {
            let line = table.lines().find(|line| line.contains(system)).unwrap_or_default();
            line.split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(cells("16 routes | millrace")[4..6], ["3.00", "1.50"]);
        assert_eq!(cells("| c ")[4..6], ["2.00", "1.00"]);
        assert_eq!(cells("| c-straight ")[4..6], ["4.00", "2.00"]);
        assert_eq!(cells("compile")[4..6], ["30.00", ""]);
        assert_eq!([0.0, -0.00391, 0.25].map(number), ["0.00", "-0.00391", "0.25"]);
    }
}
