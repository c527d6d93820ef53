//! The recording of `recorded/record.py`, for tests.

use std::net::IpAddr;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;

use crate::kernel::event::{Event, event};

/// A command, and what the kernel said then.
#[derive(Default)]
pub struct Step {
    pub command: String,
    pub events: Vec<Event>,
    /// Empty where none was taken.
    pub dump: Vec<Event>,
    /// Addresses to which packets go elsewhere from now on, as `ip route get` says it.
    pub answers: Vec<(IpAddr, String)>,
}

/// All steps.
pub fn record() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in include_str!("../recorded/routes.txt").lines() {
        let (kind, rest) = line.split_once(' ').unwrap();
        if kind == "#" {
            steps.push(Step { command: rest.into(), ..Step::default() });
            continue;
        }
        let Some(step) = steps.last_mut() else { continue };
        match kind {
            "E" => step.events.extend(read(rest)),
            "D" => step.dump.extend(read(rest)),
            "?" => {
                let (address, answer) = rest.split_once(" => ").unwrap();
                step.answers.push((address.parse().unwrap(), answer.into()));
            }
            _ => panic!("{line}"),
        }
    }
    steps
}

/// A message as hexadecimal digits.
fn read(hex: &str) -> Option<Event> {
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).unwrap();
    let NetlinkPayload::InnerMessage(inner) = &message.payload else { panic!("{message:?}") };
    event(inner, message.header.flags)
}
