//! What monitoring systems read of an instance, read as they do.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A family: how it is read, what is counted, and the base unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    pub kind: String,
    pub about: String,
    pub unit: String,
}

/// OpenMetrics, taken apart.
#[derive(Debug, Default)]
pub struct Scrape {
    /// Families by name, in order.
    pub families: Vec<(String, Described)>,
    /// Values by name and labels as they are written.
    pub samples: BTreeMap<String, String>,
}

impl Scrape {
    /// Reads a text that must be whole.
    #[track_caller]
    pub fn read(text: &str) -> Scrape {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let mut scrape = Scrape::default();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", name, about] => {
                    assert!(scrape.families.iter().all(|(own, _)| own != name), "{name} comes twice");
                    scrape.families.push((name.into(), Described { about: about.into(), ..Described::default() }));
                }
                ["#", "TYPE", name, kind] => scrape.family(name).kind = kind.into(),
                ["#", "UNIT", name, unit] => scrape.family(name).unit = unit.into(),
                ["#", "EOF"] => {}
                _ => {
                    let (name, value) = line.rsplit_once(' ').unwrap();
                    let before = scrape.samples.insert(name.into(), value.into());
                    assert_eq!(before, None, "{name} comes twice");
                }
            }
        }
        scrape
    }

    fn family(&mut self, name: &str) -> &mut Described {
        let (last, family) = self.families.last_mut().unwrap();
        assert_eq!(last, name);
        family
    }

    /// The value of a sample: `name{labels}` as it is written.
    #[track_caller]
    pub fn value(&self, sample: &str) -> &str {
        self.samples.get(sample).unwrap_or_else(|| panic!("no {sample}: {:#?}", self.samples))
    }
}

/// What an HTTP server answers: its head and its body.
pub fn get(address: &str, path: &str, fields: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.into(), body.into())
}

/// What a monitoring system reads at an address.
pub fn scrape(address: &str) -> Scrape {
    let (head, body) = get(address, "/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    Scrape::read(&body)
}
