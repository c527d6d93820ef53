//! `[[links]]`: two ends and what happens on the way.

use std::time::Duration;

use control::document::{self, Errors, Path, Table, Value};
use control::messages::{did_you_mean, list};
use lab::{Distribution, Impairments, Jitter, Loss, MAX_DELAY, MAX_GAP, Reorder};

use super::quantity::{rate, share, time};
use super::{End, Host};

/// Longest name of a network device.
const LONGEST_NAME: usize = 15;
/// Least and greatest MTU: what IPv4 asks for (RFC 791), and what its length field holds.
const MTU: (u64, u64) = (68, 65535);
/// What may be said of each direction.
const IMPAIRMENTS: [&str; 13] = [
    "rate",
    "queue",
    "loss",
    "burst_loss",
    "corrupt",
    "duplicate",
    "delay",
    "jitter",
    "jitter_distribution",
    "overtake",
    "reorder",
    "reorder_gap",
    "reorder_hold",
];

/// A link between two devices.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its ends.
    pub ends: [End; 2],
    /// Longest network-layer packet in bytes.
    pub mtu: u32,
    /// What happens from the first end to the second, and back.
    pub impairments: [Impairments; 2],
    /// A capture is taken at an end that only Millrace uses, where the kernel shows nothing: the lab sees to it.
    pub captured: bool,
}

impl Link {
    /// Whether the lab carries its packets: something is to happen to them, or they are to be captured on the way.
    pub fn is_carried(&self) -> bool {
        self.is_impaired() || self.captured
    }

    /// Whether something is to happen to its packets.
    pub fn is_impaired(&self) -> bool {
        self.impairments.iter().any(|direction| !direction.is_none())
    }
}

/// `HOST:DEVICE`.
pub fn end(value: &Value, path: &Path, hosts: &[Host], errors: &mut Errors) -> Option<End> {
    const ACCEPTED: &str = "\"HOST:DEVICE\", such as \"client:eth0\"";
    let text = document::string(value, path, ACCEPTED, errors)?;
    let at = value.span().start;
    let Some((name, device)) = text.split_once(':') else {
        errors.add(at, path, format!("{text:?} names no device"), ACCEPTED);
        return None;
    };
    let names = || hosts.iter().map(|host| host.name.as_str());
    let Some(host) = names().position(|known| known == name) else {
        let problem = format!("there is no host {name:?}{}", did_you_mean(name, names()));
        errors.add(at, path, problem, list(names()));
        return None;
    };
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if device.is_empty() || device.len() > LONGEST_NAME || !device.chars().all(valid) || device == "lo" {
        let accepted = format!("1 to {LONGEST_NAME} letters, digits, `_`, `-` and `.`, and not lo");
        errors.add(at, path, format!("{device:?} is not a name for a device"), accepted);
        return None;
    }
    Some(End { host, device: device.to_owned() })
}

/// `[[links]]`. Each device is the end of one link.
pub fn links(value: &Value, path: &Path, hosts: &[Host], errors: &mut Errors) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for (index, value) in document::array(value, path, errors).unwrap_or_default().iter().enumerate() {
        let path = path.index(index);
        let Some(table) = document::table(value, &path, errors) else { continue };
        let known = ["ends", "mtu", "forward", "backward"].into_iter().chain(IMPAIRMENTS);
        document::only(table, &path, &known.collect::<Vec<_>>(), errors);
        let both = impairments(table, &path, Impairments::default(), errors);
        let mut direction = |name: &str| {
            let Some(value) = table.get(name) else { return both.clone() };
            let path = path.key(name);
            let Some(table) = document::table(value, &path, errors) else { return both.clone() };
            document::only(table, &path, &IMPAIRMENTS, errors);
            impairments(table, &path, both.clone(), errors)
        };
        let impairments = [direction("forward"), direction("backward")];
        let mtu = table.get("mtu").and_then(|mtu| document::integer(mtu, &path.key("mtu"), MTU.0, MTU.1, errors));
        let Some(ends) = ends(table, value.span().start, &path, hosts, errors) else { continue };
        for end in &ends {
            let there = |link: &Link| link.ends.contains(end);
            if links.iter().any(there) || ends[0] == ends[1] {
                let problem = format!("{} is an end already", end.show(hosts));
                errors.add(value.span().start, &path.key("ends"), problem, "a device of its own for each end");
                break;
            }
        }
        links.push(Link { ends, mtu: mtu.map_or(1500, |mtu| mtu as u32), impairments, captured: false });
    }
    links
}

fn ends(table: &Table, at: usize, path: &Path, hosts: &[Host], errors: &mut Errors) -> Option<[End; 2]> {
    const ACCEPTED: &str = "ends = [\"HOST:DEVICE\", \"HOST:DEVICE\"]";
    let Some(value) = table.get("ends") else {
        errors.add(at, path, "`ends` is missing", ACCEPTED);
        return None;
    };
    let path = path.key("ends");
    let [a, b] = document::array(value, &path, errors)? else {
        errors.add(value.span().start, &path, "a link has two ends", ACCEPTED);
        return None;
    };
    let (a, b) = (end(a, &path.index(0), hosts, errors), end(b, &path.index(1), hosts, errors));
    Some([a?, b?])
}

/// What a table says of a direction; what it does not say is as `base` has it.
fn impairments(table: &Table, path: &Path, base: Impairments, errors: &mut Errors) -> Impairments {
    let mut all = base;
    let mut read = Reader { table, path, errors };
    read.set("rate", |value, path, errors| rate(value, path, errors).map(Some), &mut all.rate);
    read.integer("queue", u64::from(u32::MAX), &mut all.queue.packets);
    if let Some(loss) = read.get("loss", share) {
        all.loss = if loss == 0.0 { Loss::None } else { Loss::Random(loss) };
    }
    if let (Some(value), true) = (table.get("burst_loss"), table.contains_key("loss")) {
        read.errors.add(value.span().start, &path.key("burst_loss"), "`loss` is given, too", "one of the two");
    }
    read.set("burst_loss", burst_loss, &mut all.loss);
    read.set("corrupt", share, &mut all.corrupt);
    read.set("duplicate", share, &mut all.duplicate);
    read.time("delay", &mut all.delay);
    let Jitter { spread, distribution, overtake } = &mut all.jitter;
    read.time("jitter", spread);
    read.set("jitter_distribution", jitter_distribution, distribution);
    read.set("overtake", document::boolean, overtake);
    let Reorder { probability, gap, hold } = &mut all.reorder;
    read.set("reorder", share, probability);
    read.integer("reorder_gap", u64::from(MAX_GAP), gap);
    read.time("reorder_hold", hold);
    all
}

/// Reads the keys of one direction.
struct Reader<'r, 't, 'e> {
    table: &'r Table<'t>,
    path: &'r Path<'r>,
    errors: &'r mut Errors<'e>,
}

impl Reader<'_, '_, '_> {
    fn get<T>(&mut self, key: &str, read: impl FnOnce(&Value, &Path, &mut Errors) -> Option<T>) -> Option<T> {
        read(self.table.get(key)?, &self.path.key(key), self.errors)
    }

    fn set<T>(&mut self, key: &str, read: impl FnOnce(&Value, &Path, &mut Errors) -> Option<T>, to: &mut T) {
        if let Some(value) = self.get(key, read) {
            *to = value;
        }
    }

    fn time(&mut self, key: &str, to: &mut Duration) {
        self.set(key, |value, path, errors| time(value, path, MAX_DELAY, errors), to);
    }

    fn integer(&mut self, key: &str, most: u64, to: &mut u32) {
        let read = |value: &Value, path: &Path, errors: &mut Errors| document::integer(value, path, 1, most, errors);
        if let Some(value) = self.get(key, read) {
            *to = value as u32;
        }
    }
}

fn jitter_distribution(value: &Value, path: &Path, errors: &mut Errors) -> Option<Distribution> {
    const ACCEPTED: &str = "\"uniform\" or \"normal\"";
    match document::string(value, path, ACCEPTED, errors)? {
        "uniform" => Some(Distribution::Uniform),
        "normal" => Some(Distribution::Normal),
        other => {
            errors.add(value.span().start, path, format!("{other:?} is not a distribution"), ACCEPTED);
            None
        }
    }
}

/// The chain of Gilbert and Elliott; the loss in each state has a default, the ways between them have none.
fn burst_loss(value: &Value, path: &Path, errors: &mut Errors) -> Option<Loss> {
    let table = document::table(value, path, errors)?;
    document::only(table, path, &["to_bad", "to_good", "good_loss", "bad_loss"], errors);
    let mut get = |key: &str, default: Option<f64>| match (table.get(key), default) {
        (Some(value), _) => share(value, &path.key(key), errors),
        (None, Some(default)) => Some(default),
        (None, None) => {
            errors.add(value.span().start, path, format!("`{key}` is missing"), format!("{key} = a share from 0 to 1"));
            None
        }
    };
    let (to_bad, to_good) = (get("to_bad", None), get("to_good", None));
    let (good_loss, bad_loss) = (get("good_loss", Some(0.0)), get("bad_loss", Some(1.0)));
    Some(Loss::GilbertElliott { to_bad: to_bad?, to_good: to_good?, good_loss: good_loss?, bad_loss: bad_loss? })
}
