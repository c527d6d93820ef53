//! Protocols.

use super::Style;
use super::types::{unsigned, width};
use super::world::Protocol;
use crate::numbers::SplitMix64;

/// Fields of random widths that fill whole bytes, sometimes a checksum among them.
pub fn random(n: &mut SplitMix64, index: usize, style: Style) -> Protocol {
    let most = if n.chance(20) { 48 } else { 20 };
    // No frame in the kernel is shorter than 14 bytes.
    let least = if style.is_kernel() && index == 0 { 14 } else { 1 };
    let bytes = n.range(least, most) as u32;
    let mut widths: Vec<u32> = Vec::new();
    let fill = |n: &mut SplitMix64, widths: &mut Vec<u32>, mut bits: u32| {
        while bits > 0 {
            widths.push(width(n).min(bits));
            bits -= widths[widths.len() - 1];
        }
    };
    let mut checksum = None;
    if bytes >= 2 && n.chance(40) {
        let word = n.below(bytes as usize / 2) as u32;
        fill(n, &mut widths, word * 16);
        checksum = Some(widths.len());
        widths.push(16);
        fill(n, &mut widths, (bytes - word * 2 - 2) * 8);
    } else {
        fill(n, &mut widths, bytes * 8);
    }
    let field = |(i, width): (usize, u32)| {
        // Words that are keywords elsewhere are names of fields.
        let name = ["type", "in", "protocol"].get(i).filter(|_| index == 1).map_or(format!("f{i}"), |s| s.to_string());
        (name, unsigned(width))
    };
    let fields: Vec<_> = widths.into_iter().enumerate().map(field).collect();
    let name = if index == 0 { "ether".into() } else { format!("proto{index}") };
    let covers = *n.pick(&[
        "header",
        "header",
        "header, payload",
        "payload, header, optional",
        "pseudo, header, payload",
        "optional, pseudo, header, payload",
    ]);
    let pseudo = if n.chance(40) { (0..fields.len()).filter(|_| n.chance(40)).collect() } else { Vec::new() };
    let pseudo_sum = covers.contains("pseudo");
    let demux_text = bytes.to_string();
    let mut made = Protocol {
        name,
        fields,
        checksum,
        covers,
        pseudo_sum,
        pseudo,
        length: None,
        bytes,
        demux: demux_text,
        lengths: None,
        imported: false,
    };
    demux(n, &mut made);
    if n.chance(25) {
        // How far checksums behind it reach.
        let fields = made.fields.iter().enumerate().filter(|(index, _)| Some(*index) != made.checksum);
        let fields: Vec<_> = fields.map(|(_, field)| field).filter(|field| field.1.width() <= 32).collect();
        if !fields.is_empty() {
            made.length = Some(format!("{} + {}", n.pick(&fields).0, n.below(30)));
        }
    }
    made
}

fn demux(n: &mut SplitMix64, protocol: &mut Protocol) {
    let bytes = protocol.bytes;
    if n.chance(15) {
        protocol.demux = format!("{} + {}", bytes, n.range(1, 8));
    }
    let is_small = |i: &usize| (2..=32).contains(&protocol.fields[*i].1.width()) && Some(*i) != protocol.checksum;
    let small: Vec<usize> = (0..protocol.fields.len()).filter(is_small).collect();
    if small.is_empty() || n.chance(55) {
        return;
    }
    let index = *n.pick(&small);
    let (name, ty) = &protocol.fields[index];
    let shift = n.range(0, 3) as u32;
    // What the demux says, as text and as a number of the field's value.
    let (text, length): (String, Box<dyn Fn(u128) -> u128>) = match n.below(5) {
        0 => (format!("{name} << {shift}"), Box::new(move |v| v << shift)),
        1 => (format!("{name} * 4"), Box::new(|v| v * 4)),
        2 => (format!("{name} + {bytes}"), Box::new(move |v| v + u128::from(bytes))),
        3 => (format!("({name} & 3) + {bytes}"), Box::new(move |v| (v & 3) + u128::from(bytes))),
        _ => (
            format!("{name} == 1 ? {bytes} : {name} + 1"),
            Box::new(move |v| if v == 1 { u128::from(bytes) } else { v + 1 }),
        ),
    };
    let most = ty.width().min(8);
    let near = |v: &u128| (u128::from(bytes)..=u128::from(bytes) + 12).contains(&length(*v));
    let good: Vec<u128> = (0..1u128 << most).filter(near).collect();
    if !good.is_empty() {
        protocol.demux = text;
        protocol.lengths = Some((index, good));
    }
}
