//! Counters as a person reads them.

use std::fmt::Write;
use std::time::Duration;

use control::socket::{ControllerState, Counters, PortState, TimerState, Times};
use indexmap::IndexMap;

/// Ports, channels and drops; lines with nothing to say are left out. Rates where it is known how long the packets
/// took.
pub fn render(counters: &Counters, time: Option<Duration>) -> String {
    let mut out = if counters.ports.is_empty() { String::new() } else { ports(&counters.ports) };
    section(&mut out, ["packets into each PPF", "packets"], &counters.ppfs, time);
    section(&mut out, ["packets through each channel", "packets"], &counters.channels, time);
    section(&mut out, DROPS, &counters.drops, time);
    let ended = IndexMap::from([("packet_end".to_string(), counters.ended)]);
    section(&mut out, ["packets ended, not dropped", "packets"], &ended, time);
    section(&mut out, ["insertions refused by a full table", "times"], &counters.tables_full, time);
    section(&mut out, ["failed calls of functions of controllers", "times"], &counters.externs_failed, time);
    section(&mut out, ["failures of controllers", "times"], &counters.controllers_failed, time);
    timers(&mut out, &counters.timers);
    let mut cells = IndexMap::new();
    for (name, values) in &counters.counters {
        let one = values.len() == 1;
        let named = |(i, value): (usize, &u64)| (if one { name.clone() } else { format!("{name}[{i}]") }, *value);
        cells.extend(values.iter().enumerate().map(named));
    }
    section(&mut out, ["the program's counters", "sum"], &cells, time);
    out
}

/// What each timer did, where there are any.
pub fn timers(out: &mut String, timers: &IndexMap<String, TimerState>) {
    let row = |(name, timer): (&String, &TimerState)| {
        vec![name.clone(), grouped(timer.runs), grouped(timer.entries), timer.table.clone().unwrap_or_default()]
    };
    if !timers.is_empty() {
        out.push('\n');
        table(out, &["timers", "runs", "entries", "over"], timers.iter().map(row).collect());
    }
}

/// How many frames each holder has.
pub fn frames(out: &mut String, holders: &IndexMap<String, u32>) {
    let row = |(holder, frames): (&String, &u32)| vec![holder.clone(), grouped(u64::from(*frames))];
    if !holders.is_empty() {
        out.push('\n');
        table(out, &["frames held by", "frames"], holders.iter().map(row).collect());
    }
}

/// What 99 of a hundred intervals are shorter than.
pub fn nearly_all(times: &Times) -> String {
    if times.count == 0 { "-".to_owned() } else { format!("<{}", interval(times.p99_ns as f64)) }
}

/// Whether each controller runs, how soon it does when it is woken, and how long it then has to do, where there are
/// any.
pub fn controllers(out: &mut String, controllers: &IndexMap<String, ControllerState>) {
    let row = |(name, own): (&String, &ControllerState)| {
        vec![
            name.clone(),
            own.state.clone(),
            grouped(own.failures),
            nearly_all(&own.wake),
            nearly_all(&own.busy),
            own.error.clone().unwrap_or_default().replace('\n', " "),
        ]
    };
    if !controllers.is_empty() {
        out.push('\n');
        table(
            out,
            &["controllers", "state", "failures", "woken in", "busy for", "last failure"],
            controllers.iter().map(row).collect(),
        );
    }
}

const DROPS: [&str; 2] = ["packets dropped, by reason", "packets"];

/// Packets dropped, by reason; reasons that did not happen are left out.
pub fn drops(drops: &IndexMap<String, u64>) -> String {
    let mut out = String::new();
    section(&mut out, DROPS, drops, None);
    out.trim_start_matches('\n').to_owned()
}

/// The same with rates and shares, the most frequent first; `before` is what was counted so long ago.
pub fn drop_rates(drops: &IndexMap<String, u64>, before: Option<(&IndexMap<String, u64>, Duration)>) -> String {
    let sum: u64 = drops.values().sum();
    let row = |name: &str, count: u64, old: &dyn Fn(&IndexMap<String, u64>) -> u64| {
        let per_second = before.map(|(before, time)| rate(per_second(count, old(before), time.as_secs_f64())));
        let share = format!("{:.1} %", count as f64 * 100.0 / sum.max(1) as f64);
        vec![name.to_owned(), grouped(count), per_second.unwrap_or_else(|| "-".into()), share]
    };
    let mut counts: Vec<(&String, u64)> =
        drops.iter().map(|(name, count)| (name, *count)).filter(|(_, count)| *count > 0).collect();
    // Those that are as frequent stay in the program's order.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let one = |(name, count): (&String, u64)| row(name, count, &|before| before.get(name).copied().unwrap_or(0));
    let mut rows: Vec<Vec<String>> = counts.into_iter().map(one).collect();
    rows.push(row("all", sum, &|before| before.values().sum()));
    let mut out = String::new();
    table(&mut out, &[DROPS[0], DROPS[1], "per second", "share"], rows);
    out
}

/// How often something is counted per second. A counter that was higher before has begun anew since.
pub fn per_second(now: u64, before: u64, seconds: f64) -> f64 {
    now.checked_sub(before).unwrap_or(now) as f64 / seconds.max(1e-9)
}

/// What each port did.
pub fn ports(ports: &IndexMap<String, PortState>) -> String {
    let mut out = String::new();
    let header = ["port", "received", "bytes", "sent", "bytes", "failed", "lost in kernel", "oversize", "unfinished"];
    let row = |(name, p): (&String, &PortState)| {
        let numbers = [p.rx_packets, p.rx_bytes, p.tx_packets, p.tx_bytes, p.tx_failed, p.rx_dropped];
        let numbers = numbers.into_iter().chain([p.oversize, p.unfinished]);
        std::iter::once(name.clone()).chain(numbers.map(grouped)).collect()
    };
    table(&mut out, &header, ports.iter().map(row).collect());
    supers(&mut out, "received in super-packets", ports, |p| [p.rx_in_super, p.rx_super]);
    supers(&mut out, "sent in super-packets", ports, |p| [p.tx_in_super, p.tx_super]);
    let reasons = |(name, p): (&String, &PortState)| {
        let row = |(why, count): (&String, &u64)| vec![format!("{name} {why}"), grouped(*count)];
        p.unfinished_reasons.iter().map(row).collect::<Vec<_>>()
    };
    let reasons: Vec<Vec<String>> = ports.iter().flat_map(reasons).collect();
    if !reasons.is_empty() {
        out.push('\n');
        table(&mut out, &["unfinished, by reason", "packets"], reasons);
    }
    out
}

/// How full the rings between ports and the kernel are.
pub fn queues(ports: &IndexMap<String, PortState>) -> String {
    let mut out = String::new();
    let row = |(name, p): (&String, &PortState)| {
        let numbers = [p.rx_queued, p.rx_places, p.tx_queued, p.tx_places];
        std::iter::once(name.clone()).chain(numbers.map(grouped)).collect()
    };
    let with_rings = ports.iter().filter(|(_, port)| port.rx_places + port.tx_places > 0);
    let rows: Vec<Vec<String>> = with_rings.map(row).collect();
    if !rows.is_empty() {
        table(&mut out, &["rings", "to receive", "places", "to send", "places"], rows);
    }
    out
}

/// The ports that have had super-packets one way: packets in them, and how many they were.
fn supers(out: &mut String, title: &str, ports: &IndexMap<String, PortState>, of: fn(&PortState) -> [u64; 2]) {
    let row = |(name, p): (&String, &PortState)| std::iter::once(name.clone()).chain(of(p).map(grouped)).collect();
    let rows: Vec<Vec<String>> = ports.iter().filter(|(_, p)| of(p)[1] > 0).map(row).collect();
    if !rows.is_empty() {
        out.push('\n');
        table(out, &[title, "packets", "super-packets"], rows);
    }
}

fn section(out: &mut String, [title, unit]: [&str; 2], counts: &IndexMap<String, u64>, time: Option<Duration>) {
    let row = |(name, count): (&String, &u64)| {
        let per_second = time.map(|time| rate(*count as f64 / time.as_secs_f64().max(1e-9)));
        [name.clone(), grouped(*count)].into_iter().chain(per_second).collect()
    };
    let rows: Vec<Vec<String>> = counts.iter().filter(|(_, count)| **count > 0).map(row).collect();
    if !rows.is_empty() {
        out.push('\n');
        let header = [title, unit, "per second"];
        table(out, if time.is_some() { &header } else { &header[..2] }, rows);
    }
}

/// Lines with columns; the first is aligned left, the others right.
pub fn table(out: &mut String, header: &[&str], rows: Vec<Vec<String>>) {
    let mut widths: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let header = header.iter().map(|h| h.to_string()).collect();
    for row in std::iter::once(header).chain(rows) {
        let mut line = String::from("  ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            }
            .expect("writing to a string cannot fail");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// A number with a space between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A rate in three digits: `950`, `12.3 k`, `1.65 M`, `9.41 G`.
pub fn rate(per_second: f64) -> String {
    let (value, unit) = match per_second {
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, ""),
    };
    match value {
        v if v >= 100.0 || unit.is_empty() && v.fract() < 0.05 => format!("{v:.0}{unit}"),
        v if v >= 10.0 => format!("{v:.1}{unit}"),
        v => format!("{v:.2}{unit}"),
    }
}

/// An interval in nanoseconds, in a unit of its size: `208 ns`, `12.3 us`, `25.0 ms`, `2.1 s`.
pub fn interval(nanoseconds: f64) -> String {
    match nanoseconds {
        short if short < 1e4 => format!("{short:.0} ns"),
        long if long < 1e7 => format!("{:.1} us", long / 1e3),
        long if long < 1e10 => format!("{:.1} ms", long / 1e6),
        long => format!("{:.1} s", long / 1e9),
    }
}

/// Time since a start: `3 s`, `2 h 05 min`, `4 d 03 h`.
pub fn uptime(milliseconds: u64) -> String {
    match Duration::from_millis(milliseconds).as_secs() {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        s @ 3600..86400 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
        s => format!("{} d {:02} h", s / 86400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(rate(950.0), "950");
        assert_eq!(rate(12_345.0), "12.3 k");
        assert_eq!(rate(1_650_000.0), "1.65 M");
        assert_eq!(rate(9.41e9), "9.41 G");
        assert_eq!([208.0, 12_345.0, 25e6, 2.1e10].map(interval), ["208 ns", "12.3 us", "25.0 ms", "21.0 s"]);
    }

    #[test]
    fn super_packets_are_told_where_there_are_any() {
        let state = |joined: u64| PortState { tx_super: joined, tx_in_super: joined * 8, ..PortState::default() };
        let told = |joined| ports(&IndexMap::from([("a".to_owned(), state(0)), ("b".to_owned(), state(joined))]));
        let line = "\n\n  sent in super-packets  packets  super-packets\n\
                    \x20 b                        8 000          1 000\n";
        assert!(told(1000).ends_with(line), "{}", told(1000));
        assert!(!told(0).contains("super-packets"));
    }

    #[test]
    fn drops_with_rates_and_shares() {
        let counts = |all: [u64; 3]| -> IndexMap<String, u64> {
            ["few", "none", "many"].map(str::to_owned).into_iter().zip(all).collect()
        };
        let (before, now) = (counts([40, 0, 100]), counts([10, 0, 30_100]));
        let expected = "  packets dropped, by reason  packets  per second    share\n\
                        \x20 many                         30 100      15.0 k  100.0 %\n\
                        \x20 few                              10           5    0.0 %\n\
                        \x20 all                          30 110      15.0 k  100.0 %\n";
        assert_eq!(drop_rates(&now, Some((&before, Duration::from_secs(2)))), expected);
        let first = "  packets dropped, by reason  packets  per second  share\n\
                        \x20 all                               0           -  0.0 %\n";
        assert_eq!(drop_rates(&counts([0; 3]), None), first);
    }

    #[test]
    fn columns_line_up() {
        let mut out = String::new();
        table(
            &mut out,
            &["a", "packets"],
            vec![vec!["long name".into(), "1".into()], vec!["b".into(), "12345678".into()]],
        );
        assert_eq!(out, "  a           packets\n  long name         1\n  b          12345678\n");
    }

    #[test]
    fn uptimes() {
        assert_eq!(uptime(999), "0 s");
        assert_eq!(uptime(61_000), "1 min 01 s");
        assert_eq!(uptime(7_500_000), "2 h 05 min");
        assert_eq!(uptime(356_400_000), "4 d 03 h");
    }
}
