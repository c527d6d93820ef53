//! Which views there are, and their rows.

use cli::report::{nearly_all, rate};
use control::socket::{Counters, PortState, TableInfo, Times};
use indexmap::IndexMap;

use crate::grid::{Cell, Grid, Sort};
use crate::look::Topic;
use crate::rates::Span;

/// What can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// The rates of all that is most important.
    Overview,
    /// Ports.
    Ports,
    /// PPFs.
    Ppfs,
    /// Drops by reason.
    Drops,
    /// Tables.
    Tables,
    /// Channels, timers, and the program's own counters.
    Counters,
    /// What a controller answers.
    Topic(Topic),
}

impl View {
    /// Those of each instance.
    pub const ALL: [View; 6] = [View::Overview, View::Ports, View::Ppfs, View::Drops, View::Tables, View::Counters];

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            View::Overview => "overview".into(),
            View::Ports => "ports".into(),
            View::Ppfs => "PPFs".into(),
            View::Drops => "drops".into(),
            View::Tables => "tables".into(),
            View::Counters => "counters".into(),
            View::Topic(topic) => Cell::text(&format!("{} {}", topic.controller, topic.query)).text,
        }
    }

    /// How its rows stand until somebody wants them otherwise.
    pub fn sort(&self) -> Sort {
        let column = match self {
            View::Drops => Some(1),
            _ => None,
        };
        Sort { column, reversed: false }
    }
}

/// One of the maps of counters.
type Counts = fn(&Counters) -> &IndexMap<String, u64>;

/// Columns that come again.
const PER_SECOND: &str = "/s";

/// What a map of counters has, with rates and shares.
fn counts(title: &str, span: Span, of: Counts) -> Grid {
    let all = of(&span.now.counters);
    let sum: u64 = all.values().sum();
    let row = |(name, count): (&String, &u64)| {
        let rate = span.rate(|counters| of(counters).get(name).copied());
        vec![Cell::text(name), Cell::count(*count), Cell::rate(rate), Cell::share(*count as f64, sum as f64)]
    };
    Grid::with(&[title, "packets", PER_SECOND, "share"], all.iter().map(row))
}

/// Packets into each PPF. The share is of all packets that were received.
pub fn ppfs(span: Span) -> Grid {
    let received: u64 = span.now.counters.ports.values().map(|port| port.rx_packets).sum();
    let mut grid = counts("PPF", span, |counters| &counters.ppfs);
    for (row, count) in grid.rows.iter_mut().zip(span.now.counters.ppfs.values()) {
        row[3] = Cell::share(*count as f64, received as f64);
    }
    grid.columns[3] = "of received".into();
    grid
}

/// Packets dropped, by reason; reasons that did not happen are left out.
pub fn drops(span: Span) -> Grid {
    let mut grid = counts("reason", span, |counters| &counters.drops);
    let mut happened = span.now.counters.drops.values().map(|count| *count > 0);
    grid.rows.retain(|_| happened.next().unwrap_or(true));
    grid
}

fn port(span: Span, name: &str, of: fn(&PortState) -> u64) -> Option<f64> {
    span.rate(|counters| counters.ports.get(name).map(of))
}

/// Bits per second of a counter of bytes.
fn bits(span: Span, name: &str, of: fn(&PortState) -> u64) -> Cell {
    Cell::rate(port(span, name, of).map(|bytes| bytes * 8.0))
}

/// Packets that a port could not receive or send.
fn lost(port: &PortState) -> u64 {
    port.tx_failed + port.rx_dropped + port.oversize + port.unfinished
}

/// Rates of ports.
pub fn ports(span: Span) -> Grid {
    let row = |(name, state): (&String, &PortState)| {
        vec![
            Cell::text(name),
            Cell::rate(port(span, name, |port| port.rx_packets)),
            bits(span, name, |port| port.rx_bytes),
            Cell::rate(port(span, name, |port| port.tx_packets)),
            bits(span, name, |port| port.tx_bytes),
            Cell::rate(port(span, name, lost)).bad_if(port(span, name, lost) > Some(0.0)),
            Cell::text(&state.device).bad_if(state.error.is_some()),
        ]
    };
    let columns = ["port", "rx pkt/s", "rx bit/s", "tx pkt/s", "tx bit/s", "lost/s", "device"];
    Grid::with(&columns, span.now.counters.ports.iter().map(row))
}

/// Packets in a ring of so many places.
fn queue(packets: u64, places: u64) -> Cell {
    if places == 0 { Cell::nothing() } else { Cell::count(packets).bad_if(packets * 2 > places) }
}

/// Rates of ports, with all that was counted.
pub fn ports_in_full(span: Span) -> Grid {
    let mut grid = ports(span);
    let more = ["received", "sent", "not sent", "lost in kernel", "oversize", "unfinished"];
    let more = more.into_iter().chain(["rx queue", "tx queue", "error"]);
    grid.columns.extend(more.map(str::to_owned));
    for (row, port) in grid.rows.iter_mut().zip(span.now.counters.ports.values()) {
        let counts =
            [port.rx_packets, port.tx_packets, port.tx_failed, port.rx_dropped, port.oversize, port.unfinished];
        row.extend(counts.map(Cell::count));
        row.push(queue(port.rx_queued, port.rx_places));
        row.push(queue(port.tx_queued, port.tx_places));
        row.push(port.error.as_deref().map_or_else(Cell::nothing, |error| Cell::text(error).bad_if(true)));
    }
    grid
}

/// Controllers and whether they run.
pub fn controllers(span: Span) -> Grid {
    let row = |(name, own): (&String, &control::socket::ControllerState)| {
        let state = Cell::text(&own.state);
        vec![
            Cell::text(name),
            if own.state == "running" { state.good() } else { state.bad_if(own.state == "failed") },
            Cell::count(own.failures).bad_if(own.in_a_row > 0),
            own.error.as_deref().map_or_else(Cell::nothing, Cell::text),
            Cell::rate(span.wakes(name)),
            times(span.times(name, |own| &own.wake)),
            times(span.times(name, |own| &own.busy)),
        ]
    };
    let columns = ["controller", "state", "failures", "last failure", "wakes/s", "woken in", "busy for"];
    Grid::with(&columns, span.now.status.controllers.iter().map(row))
}

/// What 99 of a hundred intervals are shorter than.
fn times(times: Option<Times>) -> Cell {
    match times.filter(|times| times.count > 0) {
        Some(times) => Cell::number(times.p99_ns as f64, nearly_all(&times)),
        None => Cell::nothing(),
    }
}

/// Tables and how full they are.
pub fn tables(span: Span, tables: &[TableInfo]) -> Grid {
    let row = |table: &TableInfo| {
        let name = &table.name;
        let refused = span.now.counters.tables_full.get(name).copied().unwrap_or(0);
        let rate = span.rate(|counters| Some(counters.tables_full.get(name).copied().unwrap_or(0)));
        let share = Cell::share(table.entries as f64, f64::from(table.capacity));
        vec![
            Cell::text(name),
            Cell::text(&table.kind),
            Cell::count(table.entries as u64),
            Cell::count(u64::from(table.capacity)),
            share.bad_if(!table.is_array() && table.entries as u64 >= u64::from(table.capacity)),
            Cell::count(refused),
            Cell::rate(rate).bad_if(rate > Some(0.0)),
        ]
    };
    let columns = ["table", "kind", "entries", "capacity", "full", "refused", "refused/s"];
    Grid::with(&columns, tables.iter().map(row))
}

/// Channels, the program's counters, timers, and what was counted of its ends and failures.
pub fn counters(span: Span) -> Grid {
    let mut grid = Grid::new(&["counter", "of", "sum", PER_SECOND]);
    let mut add = |name: &str, of: &str, count: u64, rate: Option<f64>| {
        grid.rows.push(vec![Cell::text(name), Cell::text(of), Cell::count(count), Cell::rate(rate)]);
    };
    let now = &span.now.counters;
    for (name, cells) in &now.counters {
        for (place, count) in cells.iter().enumerate() {
            let shown = if cells.len() == 1 { name.clone() } else { format!("{name}[{place}]") };
            let rate = span.rate(|counters| counters.counters.get(name)?.get(place).copied());
            add(&shown, "program", *count, rate);
        }
    }
    let maps: [(&str, Counts); 3] = [
        ("channel", |counters| &counters.channels),
        ("failed calls", |counters| &counters.externs_failed),
        ("failures", |counters| &counters.controllers_failed),
    ];
    for (kind, of) in maps {
        for (name, count) in of(now) {
            add(name, kind, *count, span.rate(|counters| of(counters).get(name).copied()));
        }
    }
    for (name, timer) in &now.timers {
        add(name, "timer runs", timer.runs, span.rate(|counters| Some(counters.timers.get(name)?.runs)));
        if timer.table.is_some() {
            add(name, "timer entries", timer.entries, span.rate(|counters| Some(counters.timers.get(name)?.entries)));
        }
    }
    add("packet_end", "ended", now.ended, span.rate(|counters| Some(counters.ended)));
    grid
}

/// All ports together, and drops, in a line.
pub fn sums(span: Span) -> String {
    let sum = |of: fn(&PortState) -> u64| move |counters: &Counters| Some(counters.ports.values().map(of).sum());
    // `950 bit/s`, `12.3 kbit/s`.
    let text = |own: Option<f64>, unit: &str| match own.map(rate) {
        Some(rate) if rate.ends_with(char::is_alphabetic) => rate + unit,
        Some(rate) => format!("{rate} {unit}"),
        None => "-".into(),
    };
    let dropped = |counters: &Counters| counters.drops.values().sum::<u64>();
    let [rx, rx_bytes, tx, tx_bytes] = [
        span.rate(sum(|port| port.rx_packets)),
        span.rate(sum(|port| port.rx_bytes)),
        span.rate(sum(|port| port.tx_packets)),
        span.rate(sum(|port| port.tx_bytes)),
    ];
    let bits = |bytes: Option<f64>| text(bytes.map(|bytes| bytes * 8.0), "bit/s");
    format!(
        "rx {} {}  tx {} {}  dropped {}",
        text(rx, "pkt/s"),
        bits(rx_bytes),
        text(tx, "pkt/s"),
        bits(tx_bytes),
        text(span.rate(|counters| Some(dropped(counters))), "pkt/s"),
    )
}
