//! The counters that `millrace run` and `millrace replay` print, read back.

use std::collections::BTreeMap;

/// The tables of a report.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Ports, each with its columns.
    pub ports: BTreeMap<String, BTreeMap<String, u64>>,
    /// The other sections by title, each with its first column of numbers.
    pub sections: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Report {
    /// Reads a program's standard output.
    pub fn parse(text: &str) -> Report {
        let mut report = Report::default();
        let mut header: Vec<String> = Vec::new();
        for line in text.lines() {
            // Columns have at least two spaces between them; a single one stands between thousands.
            let cells: Vec<String> =
                line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect();
            let numbers = |cells: &[String]| -> Option<Vec<u64>> {
                cells.iter().map(|cell| cell.replace(' ', "").parse().ok()).collect()
            };
            match cells.as_slice() {
                [] | [_] => header.clear(),
                _ if header.is_empty() => header = cells,
                [name, values @ ..] if header[0] == "port" => {
                    let values = numbers(values).unwrap_or_else(|| panic!("not a line about a port: {line:?}"));
                    assert_eq!(values.len() + 1, header.len(), "{line:?}");
                    // `bytes` is there twice: after `received` and after `sent`.
                    let titles = header[1..].iter().enumerate().map(|(i, title)| match title.as_str() {
                        "bytes" => format!("bytes {}", header[i]),
                        other => other.to_owned(),
                    });
                    report.ports.insert(name.clone(), titles.zip(values).collect());
                }
                [name, count, ..] => {
                    let count = numbers(std::slice::from_ref(count)).unwrap_or_else(|| panic!("no count: {line:?}"))[0];
                    report.sections.entry(header[0].clone()).or_default().insert(name.clone(), count);
                }
            }
        }
        report
    }

    /// A counter of a port.
    pub fn port(&self, port: &str, what: &str) -> u64 {
        let columns = self.ports.get(port).unwrap_or_else(|| panic!("no port {port} in {self:?}"));
        *columns.get(what).unwrap_or_else(|| panic!("no column {what} in {self:?}"))
    }

    /// Packets dropped, by reason.
    pub fn drops(&self) -> Vec<(&str, u64)> {
        let drops = self.sections.get("packets dropped, by reason");
        drops.into_iter().flatten().map(|(reason, count)| (reason.as_str(), *count)).collect()
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.drops().iter().find(|(name, _)| *name == reason).map_or(0, |(_, count)| *count)
    }

    /// Packets into a PPF.
    pub fn ppf(&self, name: &str) -> u64 {
        self.sections.get("packets into each PPF").and_then(|ppfs| ppfs.get(name)).copied().unwrap_or(0)
    }
}
