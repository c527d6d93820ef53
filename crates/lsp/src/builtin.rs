//! Names that the language defines, as shown to the user (docs/language.md).

/// A name of the language.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name.
    pub name: &'static str,
    /// How it is written.
    pub form: &'static str,
    /// What it does.
    pub text: &'static str,
}

const fn builtin(name: &'static str, form: &'static str, text: &'static str) -> Builtin {
    Builtin { name, form, text }
}

/// Functions.
pub const FUNCTIONS: [Builtin; 26] = [
    builtin(
        "channel_put",
        "channel_put(channel, pkt)",
        "Consumes the handle: the packet goes on where the channel leads, before the next statement.",
    ),
    builtin(
        "packet_drop",
        "packet_drop(pkt, reason)",
        "Consumes the handle: the packet is dropped and counted under the reason.",
    ),
    builtin("packet_copy", "P_packet_t *packet_copy(pkt)", "Another packet, equal in bytes and metadata. Never fails."),
    builtin(
        "packet_decap",
        "Q_packet_t *packet_decap(pkt)\nQ_packet_t *packet_decap(pkt, bytes)",
        "Consumes the handle; a handle of the next header, whose protocol is the variable's. `bytes` is the length of this \
         header, if not what its demux says.\n\n\
         Drops with `truncated` where the next fixed header is not there, with `malformed` where this header's own length \
         is below its fixed header or beyond the packet's end.",
    ),
    builtin(
        "packet_encap",
        "Q_packet_t *packet_encap(pkt)",
        "Consumes the handle; a handle with a header in front, of zeros and the declared defaults.",
    ),
    builtin(
        "packet_peek",
        "Q_packet_t *packet_peek(pkt)\nQ_packet_t *packet_peek(pkt, bytes)",
        "A second handle, of the next header; `pkt` stays. It can't be consumed, and is gone with `pkt`.\n\n\
         Drops as `packet_decap` does.",
    ),
    builtin(
        "packet_create",
        "Q_packet_t *packet_create()",
        "A new packet with a header of zeros and the declared defaults.",
    ),
    builtin(
        "packet_load",
        "uN *packet_load(pkt, offset)",
        "The bytes at a distance from the handle's header, as many as the variable's type has; `null` beyond the packet's end.",
    ),
    builtin(
        "packet_store",
        "bool packet_store(pkt, offset, value)",
        "Writes whole bytes at a distance from the handle's header; false, and nothing written, beyond the packet's end.",
    ),
    builtin(
        "packet_trim_head",
        "bool packet_trim_head(pkt, bytes)",
        "Takes bytes from the front of the packet; false, and nothing changed, where the fixed header would not stay.",
    ),
    builtin(
        "packet_trim_tail",
        "bool packet_trim_tail(pkt, bytes)",
        "Takes bytes from the end of the packet; false, and nothing changed, where the fixed header would not stay.",
    ),
    builtin(
        "packet_grow_head",
        "bool packet_grow_head(pkt, bytes)",
        "Adds zero bytes in front of the packet; false, and nothing changed, where there is no room.",
    ),
    builtin(
        "packet_grow_tail",
        "bool packet_grow_tail(pkt, bytes)",
        "Adds zero bytes at the end of the packet; false, and nothing changed, where there is no room.",
    ),
    builtin(
        "checksum_ok",
        "bool checksum_ok(pkt)\nbool checksum_ok(pkt, pseudo)",
        "Whether the checksum that the protocol declares is right (RFC 1071), with the sum of the pseudo header if it covers one.",
    ),
    builtin(
        "checksum_set",
        "checksum_set(pkt)\nchecksum_set(pkt, pseudo)",
        "Computes the checksum that the protocol declares, over all that it covers.",
    ),
    builtin(
        "checksum_adjust",
        "checksum_adjust(pkt, old, new)",
        "Updates the checksum that the protocol declares for a value that it covers and that changed elsewhere (RFC 1624).",
    ),
    builtin(
        "checksum_none",
        "checksum_none(pkt)",
        "Says that no checksum behind this header is to follow its fields: there is none, or the program keeps it itself.",
    ),
    builtin("packet_length", "u32 packet_length(pkt)", "Bytes from the handle's header to the packet's end."),
    builtin("now_ns", "u64 now_ns()", "Nanoseconds since some moment before the program started."),
    builtin(
        "table_insert",
        "bool table_insert(table, key, value)",
        "Inserts an entry or replaces its value; true where it is now there. A member of a set has no value.",
    ),
    builtin("table_remove", "bool table_remove(table, key)", "Removes an entry; true where it was there."),
    builtin(
        "timer_set",
        "bool timer_set(table[key], time)",
        "Sets the deadline of an entry, in place of the one that it has; true where the entry is there. The timer over the \
         table `at deadline` runs for it once, not before that time.",
    ),
    builtin(
        "timer_cancel",
        "bool timer_cancel(table[key])",
        "Takes the deadline of an entry away; true where the entry is there.",
    ),
    builtin("counter_add", "counter_add(counter, n)", "Adds to a counter, or to one of them: `counter[i]`."),
    builtin(
        "meter_take",
        "bool meter_take(meter, n)",
        "Takes `n` tokens from a meter, or from one of them: `meter[i]`; false, and nothing taken, where it holds less.",
    ),
    builtin(
        "port_mtu",
        "u32 port_mtu(port)",
        "Bytes behind the Ethernet header that a port sends at most, without a VLAN tag; 0 where there is no such port.",
    ),
];

/// The ends of the wiring.
pub const ENDS: [Builtin; 4] = [
    builtin("rx", "rx -> module.input;", "Frames as they come in, with `metadata.rx.port`."),
    builtin("tx", "module.output -> tx;", "Frames go out of the port that `metadata.tx.port` names."),
    builtin("host", "module.output -> host;", "Frames go to the kernel's own stack."),
    builtin(
        "controller",
        "module.output -> controller NAME;\ncontroller NAME -> module.input;",
        "Packets go to a controller, which runs beside the workers, or are injected by it.",
    ),
];

/// Metadata that the language declares.
pub const METADATA: [Builtin; 2] = [
    builtin("rx.port", "rx.port : port_t;", "The number of the port that the packet came in on."),
    builtin("tx.port", "tx.port : port_t;", "The number of the port that the packet is to go out of; 0 is no port."),
];

/// Types to offer; there are `u1` to `u128` and `i1` to `i128`.
pub const TYPES: [&str; 12] = ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "bool", "int", "void"];

/// Finds a name.
pub fn find(list: &'static [Builtin], name: &str) -> Option<&'static Builtin> {
    list.iter().find(|b| b.name == name)
}

/// Bits of a type of the language and whether it is signed; `bool` has one bit.
pub fn type_width(name: &str) -> Option<(u32, bool)> {
    match name {
        "bool" => return Some((1, false)),
        "int" => return Some((32, true)),
        "port_t" => return Some((8, false)),
        _ => {}
    }
    let (digits, signed) = match name.strip_prefix('u') {
        Some(digits) => (digits, false),
        None => (name.strip_prefix('i')?, true),
    };
    let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|width| plain && (1..=128).contains(width)).map(|width| (width, signed))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_function_of_the_language_is_known() {
        let mut known = super::FUNCTIONS.map(|function| function.name);
        let mut wanted = baker::check::BUILTIN_FUNCTIONS;
        known.sort();
        wanted.sort();
        assert_eq!(known, wanted);
    }
}
