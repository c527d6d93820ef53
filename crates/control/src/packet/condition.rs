//! Conditions on fields of packets, such as `ipv4.dst=10.0.1.80`.

use baker::ir::Program;

use super::dissect::dissect;
use crate::entries::value::literal;
use crate::messages::did_you_mean;

/// A field that has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    protocol: String,
    field: String,
    value: u128,
}

impl Condition {
    /// Of text: `PROTOCOL.FIELD=VALUE`, with names of the program.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(program: &Program, text: &str) -> Result<Condition, String> {
        let wrong = |what: String| format!("{text:?} is no condition: {what}");
        let form = || wrong("write PROTOCOL.FIELD=VALUE, such as ipv4.dst=10.0.1.80".into());
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        let (protocol, field) = name.trim().split_once('.').ok_or_else(form)?;
        let protocols = || program.protocols.iter().map(|own| own.name.as_str());
        let own = program.protocols.iter().find(|own| own.name == protocol).ok_or_else(|| {
            wrong(format!("the program has no protocol {protocol:?}{}", did_you_mean(protocol, protocols())))
        })?;
        let found = own.fields.iter().find(|own| own.name == field).ok_or_else(|| {
            let fields = own.fields.iter().map(|own| own.name.as_str());
            wrong(format!("{protocol} has no field {field:?}{}", did_you_mean(field, fields)))
        })?;
        let value = match literal(found.bits.width, value.trim()) {
            Some((false, value)) if found.bits.width == 128 || value >> found.bits.width == 0 => value,
            _ => return Err(wrong(format!("{:?} is no value of {} bits", value.trim(), found.bits.width))),
        };
        Ok(Condition { protocol: protocol.into(), field: field.into(), value })
    }

    /// Whether a packet has such a field, in any of its headers.
    pub fn holds(&self, program: &Program, packet: &[u8]) -> bool {
        dissect(program, packet).iter().any(|layer| {
            program.protocols[layer.protocol].name == self.protocol
                && layer.fields.iter().any(|field| field.name == self.field && field.value == self.value)
        })
    }
}
