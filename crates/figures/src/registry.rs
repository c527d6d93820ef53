//! The figures of an instance, one row each: what `millrace counters`, `status` and `table ls` show.
//!
//! Controllers have figures of their own, which come with name and help ([`Family`]). Names end with the unit as it is
//! counted here; monitoring systems get the base unit ([`UNITS`](control::application::metrics::UNITS)).

use std::ops::RangeInclusive;

use control::application::metrics::{Family, Kind, MetricValue};
use control::socket::{IpfixState, PortState, Seen, SflowState, TimeBucket, Times, WorkerState};
use dataplane::controller::ControllerState;

/// Adds samples of what was seen: values of labels, and the value.
type Numbers = fn(&Seen, &mut dyn FnMut(&[&str], u64));
/// The same of histograms.
type Histograms = fn(&Seen, &mut dyn FnMut(&[&str], MetricValue));

/// How samples are had.
#[derive(Clone, Copy, Debug)]
enum Samples {
    Numbers(Numbers),
    Histograms(Histograms),
}

/// A figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name: as of a [`Family`].
    pub name: &'static str,
    /// How it is read.
    pub kind: Kind,
    /// What its samples are told apart by.
    pub labels: &'static [&'static str],
    /// What is counted.
    pub about: &'static str,
    /// Adds its samples: values of the labels, and the value.
    samples: Samples,
}

impl Figure {
    /// With what was seen.
    pub fn family(&self, seen: &Seen) -> Family {
        let mut family = Family::new(self.kind, self.name, self.about);
        let mut add = |values: &[&str], value: MetricValue| {
            let labels: Vec<_> = self.labels.iter().copied().zip(values.iter().copied()).collect();
            family.add(&labels, value);
        };
        match self.samples {
            Samples::Numbers(samples) => samples(seen, &mut |values, number| add(values, number.into())),
            Samples::Histograms(samples) => samples(seen, &mut add),
        }
        family
    }
}

/// All figures of the instance itself.
pub fn families(seen: &Seen) -> Vec<Family> {
    FIGURES.iter().map(|figure| figure.family(seen)).collect()
}

/// Counters of a program with more cells than this are arrays by what strangers send: cells that are zero are left out.
const MANY_CELLS: usize = 64;

const fn counter(name: &'static str, labels: &'static [&'static str], about: &'static str, samples: Numbers) -> Figure {
    Figure { name, kind: Kind::Counter, labels, about, samples: Samples::Numbers(samples) }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], about: &'static str, samples: Numbers) -> Figure {
    Figure { name, kind: Kind::Gauge, labels, about, samples: Samples::Numbers(samples) }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    about: &'static str,
    samples: Histograms,
) -> Figure {
    Figure { name, kind: Kind::Histogram, labels, about, samples: Samples::Histograms(samples) }
}

/// Bounds of what is told of times in PPFs, as powers of two of nanoseconds: 8 ns to 1 ms.
const IN_PPFS: RangeInclusive<u32> = 3..=20;
/// Of those of controllers: 1 µs to 8.6 s.
const OF_CONTROLLERS: RangeInclusive<u32> = 10..=33;

/// Times, a bucket for each power of two.
fn times(powers: RangeInclusive<u32>, counted: &Times) -> MetricValue {
    let mut buckets: Vec<(u64, u64)> = powers.map(|power| (1 << power, 0)).collect();
    for TimeBucket { below_ns, count } in &counted.buckets {
        let found = buckets.iter_mut().find(|(bound, _)| below_ns <= bound);
        found.into_iter().for_each(|(_, sum)| *sum += count);
    }
    MetricValue::Histogram { count: counted.count, sum: counted.total_ns, buckets }
}

/// Times of each controller.
fn controllers(
    seen: &Seen,
    add: &mut dyn FnMut(&[&str], MetricValue),
    own: fn(&control::socket::ControllerState) -> &Times,
) {
    let all = seen.status.controllers.iter();
    all.for_each(|(name, controller)| add(&[name], times(OF_CONTROLLERS, own(controller))));
}

/// Adds a sample for each port.
fn ports(seen: &Seen, add: &mut dyn FnMut(&[&str], u64), value: fn(&PortState) -> u64) {
    seen.counters.ports.iter().for_each(|(name, port)| add(&[name], value(port)));
}

/// Adds a sample for each worker, counted from 0.
fn workers(seen: &Seen, add: &mut dyn FnMut(&[&str], u64), value: fn(&WorkerState) -> u64) {
    seen.counters.workers.iter().enumerate().for_each(|(number, worker)| add(&[&number.to_string()], value(worker)));
}

/// Adds a sample where samples are sent to collectors.
fn sflow(seen: &Seen, add: &mut dyn FnMut(&[&str], u64), value: fn(&SflowState) -> u64) {
    seen.status.sflow.iter().for_each(|own| add(&[], value(own)));
}

/// Adds a sample where flows are sent to collectors.
fn ipfix(seen: &Seen, add: &mut dyn FnMut(&[&str], u64), value: fn(&IpfixState) -> u64) {
    seen.status.ipfix.iter().for_each(|own| add(&[], value(own)));
}

/// The rows.
pub const FIGURES: &[Figure] = &[
    gauge("instance_info", &["version", "program", "engine", "mode"], "What runs; always 1", |seen, add| {
        add(&[&seen.status.version, &seen.status.program, &seen.status.engine, &seen.status.mode], 1)
    }),
    gauge("instance_uptime_ms", &[], "Time since the start", |seen, add| add(&[], seen.status.uptime_ms)),
    gauge("workers", &[], "Threads that process packets", |seen, add| add(&[], seen.status.workers as u64)),
    gauge(
        "kernel_part_loaded",
        &[],
        "1 where the kernel runs its part of the program, 0 while workers have all packets",
        |seen, add| {
            let kernel = seen.status.kernel.iter();
            kernel.for_each(|kernel| add(&[], u64::from(kernel.state == "running")));
        },
    ),
    counter("compiled_parts_total", &[], "Parts of programs that were compiled", |seen, add| {
        add(&[], seen.status.code.compiled);
    }),
    counter("taken_parts_total", &[], "Parts of programs that were taken from disk, compiled before", |seen, add| {
        add(&[], seen.status.code.taken);
    }),
    counter("compile_ms_total", &[], "Time that compiling and taking parts of programs took", |seen, add| {
        add(&[], seen.status.code.compile_ms);
    }),
    counter("verified_programs_total", &[], "Programs that the kernel has verified, taken or not", |seen, add| {
        add(&[], seen.status.code.verified);
    }),
    counter("verify_ms_total", &[], "Time that the kernel's verifier took", |seen, add| {
        add(&[], seen.status.code.verify_ms);
    }),
    counter("worker_cpu_ns_total", &["worker"], "CPU time of a worker's thread", |seen, add| {
        workers(seen, add, |worker| worker.cpu_ns);
    }),
    counter(
        "worker_packets_total",
        &["worker"],
        "Packets that a worker got from ports and from the kernel's part of the program",
        |seen, add| workers(seen, add, |worker| worker.packets),
    ),
    counter(
        "worker_rounds_total",
        &["worker"],
        "Times that a worker looked at all its ports, rings and timers",
        |seen, add| workers(seen, add, |worker| worker.rounds),
    ),
    counter("worker_idle_rounds_total", &["worker"], "Those of them that found nothing to do", |seen, add| {
        workers(seen, add, |worker| worker.idle);
    }),
    counter(
        "worker_sleeps_total",
        &["worker"],
        "Times that a worker slept until there was something to do",
        |seen, add| workers(seen, add, |worker| worker.sleeps),
    ),
    gauge(
        "worker_ring_bytes",
        &["worker"],
        "Bytes that waited in the ring by which the kernel's part hands over, when it was last looked at",
        |seen, add| workers(seen, add, |worker| worker.ring_bytes),
    ),
    gauge("worker_ring_size_bytes", &["worker"], "Bytes that can wait there; 0: there is no such ring", |seen, add| {
        workers(seen, add, |worker| worker.ring_size);
    }),
    counter("sflow_samples_total", &[], "Packets that were sampled for sFlow", |seen, add| {
        sflow(seen, add, |sflow| sflow.samples);
    }),
    counter("sflow_samples_lost_total", &[], "Samples for which there was no room", |seen, add| {
        sflow(seen, add, |sflow| sflow.sent.lost);
    }),
    counter("sflow_datagrams_total", &[], "Datagrams sent to collectors of sFlow, to all together", |seen, add| {
        sflow(seen, add, |sflow| sflow.sent.datagrams);
    }),
    counter("sflow_datagrams_failed_total", &[], "Datagrams that could not be sent to one of them", |seen, add| {
        sflow(seen, add, |sflow| sflow.sent.failed);
    }),
    counter("ipfix_flows_total", &[], "Flows that were over, for collectors of IPFIX", |seen, add| {
        ipfix(seen, add, |ipfix| ipfix.flows);
    }),
    counter("ipfix_flows_lost_total", &[], "Flows for which there was no room", |seen, add| {
        ipfix(seen, add, |ipfix| ipfix.sent.lost);
    }),
    counter("ipfix_messages_total", &[], "Messages sent to collectors of IPFIX, to all together", |seen, add| {
        ipfix(seen, add, |ipfix| ipfix.sent.datagrams);
    }),
    counter("ipfix_messages_failed_total", &[], "Messages that could not be sent to one of them", |seen, add| {
        ipfix(seen, add, |ipfix| ipfix.sent.failed);
    }),
    gauge("frames", &["holder"], "Frames by holder; passing: of packets under way between these", |seen, add| {
        seen.status.holders.iter().for_each(|(holder, frames)| add(&[holder], u64::from(*frames)));
    }),
    gauge("frames_configured", &[], "Frames that there are", |seen, add| add(&[], u64::from(seen.status.frames))),
    gauge("port_info", &["port", "number", "device"], "Ports with their devices; always 1", |seen, add| {
        seen.counters.ports.iter().for_each(|(name, port)| add(&[name, &port.number.to_string(), &port.device], 1));
    }),
    gauge(
        "port_up",
        &["port"],
        "0 where the driver of a port reports an error, as of an interface that is down",
        |seen, add| {
            ports(seen, add, |port| u64::from(port.error.is_none()));
        },
    ),
    counter("port_receive_packets_total", &["port"], "Packets received", |seen, add| {
        ports(seen, add, |port| port.rx_packets);
    }),
    counter("port_receive_bytes_total", &["port"], "Bytes received, from the Ethernet header on", |seen, add| {
        ports(seen, add, |port| port.rx_bytes);
    }),
    counter("port_transmit_packets_total", &["port"], "Packets sent", |seen, add| {
        ports(seen, add, |port| port.tx_packets);
    }),
    counter("port_transmit_bytes_total", &["port"], "Bytes sent, from the Ethernet header on", |seen, add| {
        ports(seen, add, |port| port.tx_bytes);
    }),
    counter("port_transmit_failed_packets_total", &["port"], "Packets that could not be sent", |seen, add| {
        ports(seen, add, |port| port.tx_failed);
    }),
    counter(
        "port_receive_lost_packets_total",
        &["port"],
        "Packets that the kernel dropped before they were received, as it found no room for them",
        |seen, add| ports(seen, add, |port| port.rx_dropped),
    ),
    counter("port_receive_oversize_packets_total", &["port"], "Packets longer than a frame, dropped", |seen, add| {
        ports(seen, add, |port| port.oversize);
    }),
    counter(
        "port_receive_unfinished_packets_total",
        &["port", "reason"],
        "Packets dropped whose checksum or segments were left to hardware and could not be made",
        |seen, add| {
            for (name, port) in &seen.counters.ports {
                port.unfinished_reasons.iter().for_each(|(reason, count)| add(&[name, reason], *count));
            }
        },
    ),
    counter(
        "port_receive_super_packets_total",
        &["port"],
        "Super-packets received, which were divided",
        |seen, add| {
            ports(seen, add, |port| port.rx_super);
        },
    ),
    counter("port_receive_divided_packets_total", &["port"], "Packets that they were divided into", |seen, add| {
        ports(seen, add, |port| port.rx_in_super);
    }),
    counter("port_transmit_super_packets_total", &["port"], "Super-packets sent", |seen, add| {
        ports(seen, add, |port| port.tx_super);
    }),
    counter("port_transmit_joined_packets_total", &["port"], "Packets that were sent in them", |seen, add| {
        ports(seen, add, |port| port.tx_in_super);
    }),
    gauge(
        "port_receive_queue_packets",
        &["port"],
        "Packets that waited in the rings that workers receive from, when these were last looked at",
        |seen, add| ports(seen, add, |port| port.rx_queued),
    ),
    gauge("port_receive_queue_places", &["port"], "Places in these rings", |seen, add| {
        ports(seen, add, |port| port.rx_places);
    }),
    gauge(
        "port_transmit_queue_packets",
        &["port"],
        "Packets in the rings that workers send by, which the kernel had not looked at then",
        |seen, add| ports(seen, add, |port| port.tx_queued),
    ),
    gauge("port_transmit_queue_places", &["port"], "Places in these rings", |seen, add| {
        ports(seen, add, |port| port.tx_places);
    }),
    counter("ppf_packets_total", &["ppf"], "Packets that entered a PPF", |seen, add| {
        seen.counters.ppfs.iter().for_each(|(ppf, count)| add(&[ppf], *count));
    }),
    histogram(
        "ppf_time_ns",
        &["ppf"],
        "How long packets were in a PPF; while `millrace timing` measures it, since then",
        |seen, add| seen.times.iter().for_each(|own| add(&[&own.ppf], times(IN_PPFS, &own.times))),
    ),
    counter("channel_packets_total", &["channel"], "Packets put to a channel", |seen, add| {
        seen.counters.channels.iter().for_each(|(channel, count)| add(&[channel], *count));
    }),
    counter("dropped_packets_total", &["reason"], "Packets dropped, by reason", |seen, add| {
        seen.counters.drops.iter().for_each(|(reason, count)| add(&[reason], *count));
    }),
    counter("ended_packets_total", &[], "Packets that the program was done with; no drops", |seen, add| {
        add(&[], seen.counters.ended);
    }),
    gauge(
        "table_entries",
        &["table", "kind"],
        "Entries in a table; not of arrays, which are always full",
        |seen, add| {
            let counted = seen.tables.iter().filter(|table| !table.is_array());
            counted.for_each(|table| add(&[&table.name, &table.kind], table.entries as u64));
        },
    ),
    gauge("table_capacity", &["table", "kind"], "Entries that fit into a table", |seen, add| {
        seen.tables.iter().for_each(|table| add(&[&table.name, &table.kind], u64::from(table.capacity)));
    }),
    counter("table_refused_insertions_total", &["table"], "Insertions that a full table refused", |seen, add| {
        seen.counters.tables_full.iter().for_each(|(table, count)| add(&[table], *count));
    }),
    counter(
        "table_look_ups_total",
        &["table"],
        "Look-ups of packets in a table; while `millrace timing` measures, since then",
        |seen, add| seen.look_ups.iter().for_each(|own| add(&[&own.table], own.count)),
    ),
    counter(
        "table_missed_look_ups_total",
        &["table"],
        "Look-ups of packets that found nothing; while `millrace timing` measures, since then",
        |seen, add| seen.look_ups.iter().for_each(|own| add(&[&own.table], own.missed)),
    ),
    counter("timer_runs_total", &["timer"], "Times that a timer began to run", |seen, add| {
        seen.counters.timers.iter().for_each(|(timer, own)| add(&[timer], own.runs));
    }),
    counter("timer_entries_total", &["timer"], "Entries of tables that a timer ran for", |seen, add| {
        seen.counters.timers.iter().for_each(|(timer, own)| add(&[timer], own.entries));
    }),
    gauge("timer_period_ns", &["timer"], "Time from one start of a timer to the next", |seen, add| {
        seen.counters.timers.iter().for_each(|(timer, own)| add(&[timer], own.period_ns));
    }),
    gauge("controller_state", &["controller", "state"], "1 for what a controller is doing", |seen, add| {
        for (name, own) in &seen.status.controllers {
            let states = ControllerState::ALL.map(ControllerState::name);
            states.iter().for_each(|state| add(&[name, state], u64::from(own.state == *state)));
        }
    }),
    counter("controller_failures_total", &["controller"], "Times that a controller has failed", |seen, add| {
        seen.counters.controllers_failed.iter().for_each(|(name, count)| add(&[name], *count));
    }),
    gauge(
        "controller_failures_in_a_row",
        &["controller"],
        "Times that a controller has failed without having run for a minute",
        |seen, add| seen.status.controllers.iter().for_each(|(name, own)| add(&[name], u64::from(own.in_a_row))),
    ),
    counter(
        "controller_wakes_total",
        &["controller"],
        "Times that a controller was woken while it waited",
        |seen, add| {
            seen.status.controllers.iter().for_each(|(name, own)| add(&[name], own.wakes));
        },
    ),
    histogram(
        "controller_wake_ns",
        &["controller"],
        "From a call that woke a controller to where it ran",
        |seen, add| controllers(seen, add, |own| &own.wake),
    ),
    histogram(
        "controller_busy_ns",
        &["controller"],
        "How long a controller went on without waiting; one that is never done has none",
        |seen, add| controllers(seen, add, |own| &own.busy),
    ),
    gauge(
        "controller_answers",
        &["controller"],
        "0 where a controller did not say in time what it has counted, so that its figures are missing",
        |seen, add| {
            let answers = |name: &String| seen.controllers.iter().any(|(own, _)| own == name);
            seen.asked.iter().for_each(|name| add(&[name], u64::from(answers(name))));
        },
    ),
    counter("extern_failed_calls_total", &["function"], "Failed calls of functions of controllers", |seen, add| {
        seen.counters.externs_failed.iter().for_each(|(function, count)| add(&[function], *count));
    }),
    counter("program_counts_total", &["counter", "cell"], "The program's own counters", |seen, add| {
        for (name, cells) in &seen.counters.counters {
            let told = cells.iter().enumerate().filter(|(_, count)| cells.len() <= MANY_CELLS || **count > 0);
            told.for_each(|(cell, count)| add(&[name, &cell.to_string()], *count));
        }
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules() {
        let mut names = std::collections::HashSet::new();
        for figure in FIGURES {
            let Figure { name, kind, about, labels, .. } = figure;
            let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
            assert!(name.split('_').chain(labels.iter().copied()).all(is_word), "{name}");
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(!about.is_empty() && !about.ends_with('.'), "{name}: {about}");
            let family = Family::new(*kind, name, about);
            let (stem, unit, _) = family.in_base_unit();
            assert!(names.insert((stem.to_owned(), unit)), "{name}: there are two");
        }
    }
}
