//! The model of the published testbed, and the published points.

use npmodel::bus::{Access, What};
use npmodel::platform::{AnyPlatform, built_in};

use super::{LENGTHS, case};
use crate::results::Results;
use crate::text;

/// Adds the curves, and a note for each published point.
pub fn measure(results: &mut Results) -> Result<(), String> {
    let AnyPlatform::HostBus(platform) = built_in("pci33").map_err(text)? else {
        return Err("pci33 is no host-based router".into());
    };
    for length in LENGTHS {
        let name = format!("model, {}", case(length));
        for access in Access::ALL {
            let rate = platform.rate(access, length as u32);
            results.add(&name, access.name(), "mbps", "Mbit/s, 33 MHz PCI", vec![rate.bits / 1e6]);
            results.add(&name, access.name(), "cpu_percent", "% of the CPU", vec![rate.cpu * 100.0]);
        }
    }
    for of in &platform.published {
        let bounds = if of.least == of.most { of.most.to_string() } else { format!("{} to {}", of.least, of.most) };
        let sign = if of.what == What::Gain { " points" } else { "" };
        let tolerance = if of.what == What::Gain { of.tolerance } else { of.tolerance * 100.0 };
        results.note(format!(
            "published, {}, {} bytes: {bounds} {}; the model says {:.0} (± {tolerance}{sign}{})",
            of.access.name(),
            of.bytes,
            of.what.title(),
            platform.model(of),
            if of.what == What::Gain { "" } else { " %" },
        ));
    }
    Ok(())
}
