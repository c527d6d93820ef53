//! The functions of the language, one row each: how a function is written, what it does to its packet, and what the
//! rest of the compiler has to know of it.
//!
//! Checker, editors and tests go by these rows. A new function is a name in [`Function`], a row in [`FUNCTIONS`], its
//! arguments in `check` and its code in `ir::lower`.

/// A function of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `channel_put(channel, pkt)`
    ChannelPut,
    /// `channel_put_at(channel, queue, pkt, time)`
    ChannelPutAt,
    /// `channel_put_all(channel, group, pkt)`
    ChannelPutAll,
    /// `packet_drop(pkt, reason)`
    PacketDrop,
    /// `packet_end(pkt)`
    PacketEnd,
    /// `packet_require(condition, reason)`
    PacketRequire,
    /// `packet_copy(pkt)`
    PacketCopy,
    /// `packet_decap(pkt)`, `packet_decap(pkt, bytes)`
    PacketDecap,
    /// `packet_encap(pkt)`
    PacketEncap,
    /// `packet_peek(pkt)`, `packet_peek(pkt, bytes)`
    PacketPeek,
    /// `packet_replace(pkt)`
    PacketReplace,
    /// `packet_create()`
    PacketCreate,
    /// `packet_load(pkt, offset)`
    PacketLoad,
    /// `packet_store(pkt, offset, value)`
    PacketStore,
    /// `packet_trim_head(pkt, bytes)`
    PacketTrimHead,
    /// `packet_trim_tail(pkt, bytes)`
    PacketTrimTail,
    /// `packet_grow_head(pkt, bytes)`
    PacketGrowHead,
    /// `packet_grow_tail(pkt, bytes)`
    PacketGrowTail,
    /// `packet_length(pkt)`
    PacketLength,
    /// `checksum_ok(pkt)`, with a pseudo header's sum or without, with a number of bytes or without
    ChecksumOk,
    /// `checksum_set(pkt)`, with a pseudo header's sum or without, with the payload's or without
    ChecksumSet,
    /// `checksum_payload(pkt)`, with a pseudo header's sum or without, with a number of bytes or without
    ChecksumPayload,
    /// `checksum_adjust(pkt, old, new)`
    ChecksumAdjust,
    /// `checksum_none(pkt)`
    ChecksumNone,
    /// `now_ns()`
    NowNs,
    /// `fence()`
    Fence,
    /// `table_insert(table, key, value)`, `table_insert(set, key)`
    TableInsert,
    /// `table_insert_new(table, key, value)`, `table_insert_new(set, key)`
    TableInsertNew,
    /// `table_remove(table, key)`
    TableRemove,
    /// `timer_set(table[key], time)`
    TimerSet,
    /// `timer_cancel(table[key])`
    TimerCancel,
    /// `counter_add(counter, n)`
    CounterAdd,
    /// `meter_take(meter, n)`
    MeterTake,
    /// `port_mtu(port)`
    PortMtu,
    /// `hold_put(table, number, pkt)`
    HoldPut,
    /// `hold_get(table, number)`
    HoldGet,
    /// `group_member(group, pkt)`
    GroupMember,
}

/// What becomes of a function's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// There is none: the call is a statement of its own.
    Nothing,
    /// It may be ignored.
    Ignorable,
    /// It says whether something was done, so it must be used.
    Checked,
}

/// What a function does with the packet that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPacket {
    /// It takes none.
    None,
    /// It reads the packet or writes its bytes; the handle stays.
    Accesses,
    /// It changes the packet's length: handles that look into it end.
    Resizes,
    /// The handle ends.
    Consumes,
}

/// What there is to know of a function.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The function.
    pub function: Function,
    /// Its name.
    pub name: &'static str,
    /// How it is written, a line for each form.
    pub form: &'static str,
    /// What it does, as Markdown.
    pub text: &'static str,
    /// Arguments at least and at most. Between the two, its protocol or table says how many.
    pub arguments: (usize, usize),
    /// What becomes of its value.
    pub returns: Returns,
    /// What it does with its packet.
    pub packet: OnPacket,
    /// What it does that can't be done while an entry is locked (docs/language.md, critical sections).
    pub not_locked: Option<&'static str>,
    /// Packets that it makes.
    pub makes: u32,
    /// Operations that it counts as.
    pub steps: u32,
    /// Reasons that it may drop the packet with.
    pub drops: &'static [&'static str],
}

/// Operations that going over all bytes of a packet counts as.
const ALL_BYTES: u32 = 64;

/// A row with what most functions have.
const fn row(
    function: Function,
    arguments: (usize, usize),
    name: &'static str,
    form: &'static str,
    text: &'static str,
) -> Builtin {
    Builtin {
        function,
        name,
        form,
        text,
        arguments,
        returns: Returns::Ignorable,
        packet: OnPacket::None,
        not_locked: None,
        makes: 0,
        steps: 1,
        drops: &[],
    }
}

/// Why functions on a packet's bytes stay out of critical sections.
const ON_BYTES: Option<&str> = Some("works on a packet's bytes");
const ON_HEADERS: Option<&str> = Some("goes on to another header");
const MAKES: Option<&str> = Some("makes a packet");
const SETS_DEADLINE: Option<&str> = Some("sets a deadline");
const CHANGES_TABLE: Option<&str> = Some("changes a table");

/// All functions, one row each.
pub static FUNCTIONS: [Builtin; 37] = [
    Builtin {
        returns: Returns::Nothing,
        packet: OnPacket::Consumes,
        not_locked: Some("hands a packet on"),
        ..row(
            Function::ChannelPut,
            (2, 2),
            "channel_put",
            "channel_put(channel, pkt)",
            "Consumes the handle: the packet goes on where the channel leads, before the next statement.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        packet: OnPacket::Consumes,
        not_locked: Some("hands a packet on"),
        drops: &["queue_full"],
        ..row(
            Function::ChannelPutAt,
            (4, 4),
            "channel_put_at",
            "channel_put_at(channel, queue, pkt, time)\nchannel_put_at(channel, queue[i], pkt, time)",
            "Consumes the handle: the packet waits in the queue, and goes on where the channel leads not before the \
             time and not before those in front of it.\n\nDrops with `queue_full` where the queue is full.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        packet: OnPacket::Consumes,
        not_locked: Some("hands a packet on"),
        // The group keeps it in a frame that no other packet is in.
        makes: 1,
        drops: &["group_full", "no_member"],
        ..row(
            Function::ChannelPutAll,
            (3, 3),
            "channel_put_all",
            "channel_put_all(channel, group, pkt)\nchannel_put_all(channel, group[i], pkt)",
            "Consumes the handle: a packet of its own goes on where the channel leads for each member of the group, with \
             the member's number in `metadata.member`. That happens between batches, a few members at a time.\n\n\
             Drops with `no_member` where the group has none, with `group_full` where too many packets wait for this.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        packet: OnPacket::Consumes,
        not_locked: Some("drops a packet"),
        ..row(
            Function::PacketDrop,
            (2, 2),
            "packet_drop",
            "packet_drop(pkt, reason)",
            "Consumes the handle: the packet is dropped and counted under the reason.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        packet: OnPacket::Consumes,
        not_locked: Some("ends a packet"),
        drops: &["ended"],
        ..row(
            Function::PacketEnd,
            (1, 1),
            "packet_end",
            "packet_end(pkt)",
            "Consumes the handle: the program is done with the packet, which counts as `ended` and not as dropped.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        not_locked: Some("may end the PPF"),
        ..row(
            Function::PacketRequire,
            (2, 2),
            "packet_require",
            "packet_require(condition, reason)",
            "Goes on where the condition holds. Else it drops every packet that the PPF holds, counted under the \
             reason, and ends the PPF, from within functions, too.",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        not_locked: MAKES,
        makes: 1,
        ..row(
            Function::PacketCopy,
            (1, 1),
            "packet_copy",
            "P_packet_t *packet_copy(pkt)",
            "Another packet, equal in bytes and metadata. Never fails.",
        )
    },
    Builtin {
        packet: OnPacket::Consumes,
        not_locked: ON_HEADERS,
        drops: &["truncated", "malformed"],
        ..row(
            Function::PacketDecap,
            (1, 2),
            "packet_decap",
            "Q_packet_t *packet_decap(pkt)\nQ_packet_t *packet_decap(pkt, bytes)",
            "Consumes the handle; a handle of the next header, whose protocol is the variable's. `bytes` is the length \
             of this header, if not what its demux says.\n\n\
             Drops with `truncated` where the next fixed header is not there, with `malformed` where this header's own \
             length is below its fixed header or beyond the packet's end.",
        )
    },
    Builtin {
        packet: OnPacket::Consumes,
        not_locked: ON_HEADERS,
        ..row(
            Function::PacketEncap,
            (1, 1),
            "packet_encap",
            "Q_packet_t *packet_encap(pkt)",
            "Consumes the handle; a handle with a header in front, of zeros and the declared defaults.",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        not_locked: ON_HEADERS,
        drops: &["truncated", "malformed"],
        ..row(
            Function::PacketPeek,
            (1, 2),
            "packet_peek",
            "Q_packet_t *packet_peek(pkt)\nQ_packet_t *packet_peek(pkt, bytes)",
            "A second handle, of the next header; `pkt` stays. It can't be consumed, and is gone with `pkt`.\n\n\
             Drops as `packet_decap` does.",
        )
    },
    Builtin {
        packet: OnPacket::Consumes,
        not_locked: ON_HEADERS,
        drops: &["truncated"],
        ..row(
            Function::PacketReplace,
            (1, 1),
            "packet_replace",
            "Q_packet_t *packet_replace(pkt)",
            "Consumes the handle; a handle of another protocol at the same place. Its fixed header, of zeros and the \
             declared defaults, takes the place of as many bytes. The packet keeps its length and the headers in \
             front.\n\nDrops with `truncated` where there are fewer bytes.",
        )
    },
    Builtin {
        not_locked: MAKES,
        makes: 1,
        ..row(
            Function::PacketCreate,
            (0, 0),
            "packet_create",
            "Q_packet_t *packet_create()",
            "A new packet with a header of zeros and the declared defaults.",
        )
    },
    Builtin {
        returns: Returns::Checked,
        packet: OnPacket::Accesses,
        not_locked: ON_BYTES,
        ..row(
            Function::PacketLoad,
            (2, 2),
            "packet_load",
            "uN *packet_load(pkt, offset)",
            "The bytes at a distance from the handle's header, as many as the variable's type has; `null` beyond the \
             packet's end.",
        )
    },
    Builtin {
        returns: Returns::Checked,
        packet: OnPacket::Accesses,
        not_locked: ON_BYTES,
        ..row(
            Function::PacketStore,
            (3, 3),
            "packet_store",
            "bool packet_store(pkt, offset, value)",
            "Writes whole bytes at a distance from the handle's header; false, and nothing written, beyond the \
             packet's end.",
        )
    },
    resizes(
        Function::PacketTrimHead,
        "packet_trim_head",
        "bool packet_trim_head(pkt, bytes)",
        "Takes bytes from the front of the packet; false, and nothing changed, where the fixed header would not stay.",
    ),
    resizes(
        Function::PacketTrimTail,
        "packet_trim_tail",
        "bool packet_trim_tail(pkt, bytes)",
        "Takes bytes from the end of the packet; false, and nothing changed, where the fixed header would not stay.",
    ),
    resizes(
        Function::PacketGrowHead,
        "packet_grow_head",
        "bool packet_grow_head(pkt, bytes)",
        "Adds zero bytes in front of the packet; false, and nothing changed, where there is no room.",
    ),
    resizes(
        Function::PacketGrowTail,
        "packet_grow_tail",
        "bool packet_grow_tail(pkt, bytes)",
        "Adds zero bytes at the end of the packet; false, and nothing changed, where there is no room.",
    ),
    Builtin {
        returns: Returns::Checked,
        packet: OnPacket::Accesses,
        not_locked: ON_BYTES,
        steps: ALL_BYTES,
        ..row(
            Function::ChecksumOk,
            (1, 3),
            "checksum_ok",
            "bool checksum_ok(pkt)\nbool checksum_ok(pkt, pseudo)\nbool checksum_ok(pkt, bytes)\n\
             bool checksum_ok(pkt, pseudo, bytes)",
            "Whether the checksum that the protocol declares is right (RFC 1071), with the sum of the pseudo header if \
             it covers one. With a number of bytes, header and payload are as long as that.",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        not_locked: ON_BYTES,
        steps: ALL_BYTES,
        ..row(
            Function::ChecksumSet,
            (1, 3),
            "checksum_set",
            "checksum_set(pkt)\nchecksum_set(pkt, pseudo)\nchecksum_set(pkt, payload)\nchecksum_set(pkt, pseudo, payload)",
            "Computes the checksum that the protocol declares, over all that it covers. With the sum of the payload, that \
             is not read.",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        not_locked: ON_BYTES,
        steps: ALL_BYTES,
        ..row(
            Function::ChecksumPayload,
            (1, 3),
            "checksum_payload",
            "u16 checksum_payload(pkt)\nu16 checksum_payload(pkt, bytes)\nu16 checksum_payload(pkt, pseudo)\n\
             u16 checksum_payload(pkt, pseudo, bytes)",
            "The sum of what a checksum covers behind the header, or behind so many bytes, by what the checksum says. \
             Only where there is none are the bytes summed up.",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        not_locked: ON_BYTES,
        ..row(
            Function::ChecksumAdjust,
            (3, 3),
            "checksum_adjust",
            "checksum_adjust(pkt, old, new)",
            "Updates the checksum that the protocol declares for a value that it covers and that changed elsewhere \
             (RFC 1624).",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        ..row(
            Function::ChecksumNone,
            (1, 1),
            "checksum_none",
            "checksum_none(pkt)",
            "Says that no checksum behind this header is to follow its fields: there is none, or the program keeps it \
             itself.",
        )
    },
    Builtin {
        packet: OnPacket::Accesses,
        ..row(
            Function::PacketLength,
            (1, 1),
            "packet_length",
            "u32 packet_length(pkt)",
            "Bytes from the handle's header to the packet's end.",
        )
    },
    row(Function::NowNs, (0, 0), "now_ns", "u64 now_ns()", "Nanoseconds since some moment before the program started."),
    Builtin {
        not_locked: CHANGES_TABLE,
        ..row(
            Function::TableInsert,
            (2, 3),
            "table_insert",
            "bool table_insert(table, key, value)",
            "Inserts an entry or replaces its value; true where it is now there. A member of a set has no value.",
        )
    },
    Builtin {
        not_locked: CHANGES_TABLE,
        ..row(
            Function::TableInsertNew,
            (2, 3),
            "table_insert_new",
            "bool table_insert_new(table, key, value)",
            "Inserts an entry where there is none under the key; true where it did. One that is there stays as it is. Of \
             several that try at the same time one does. For hash tables and sets.",
        )
    },
    Builtin {
        not_locked: CHANGES_TABLE,
        ..row(
            Function::TableRemove,
            (2, 2),
            "table_remove",
            "bool table_remove(table, key)",
            "Removes an entry; true where it was there.",
        )
    },
    Builtin {
        not_locked: SETS_DEADLINE,
        ..row(
            Function::TimerSet,
            (2, 2),
            "timer_set",
            "bool timer_set(table[key], time)",
            "Sets the deadline of an entry, in place of the one that it has; true where the entry is there. The timer \
             over the table `at deadline` runs for it once, not before that time.",
        )
    },
    Builtin {
        not_locked: SETS_DEADLINE,
        ..row(
            Function::TimerCancel,
            (1, 1),
            "timer_cancel",
            "bool timer_cancel(table[key])",
            "Takes the deadline of an entry away; true where the entry is there.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        not_locked: Some("orders accesses to tables"),
        ..row(
            Function::Fence,
            (0, 0),
            "fence",
            "fence()",
            "What was stored in tables before is seen by all before anything is read from them behind it.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        not_locked: Some("adds to a counter"),
        ..row(
            Function::CounterAdd,
            (2, 2),
            "counter_add",
            "counter_add(counter, n)",
            "Adds to a counter, or to one of them: `counter[i]`.",
        )
    },
    Builtin {
        returns: Returns::Checked,
        not_locked: Some("takes from a meter"),
        ..row(
            Function::MeterTake,
            (2, 2),
            "meter_take",
            "bool meter_take(meter, n)",
            "Takes `n` tokens from a meter, or from one of them: `meter[i]`; false, and nothing taken, where it holds \
             less.",
        )
    },
    Builtin {
        not_locked: Some("looks an entry up"),
        ..row(
            Function::PortMtu,
            (1, 1),
            "port_mtu",
            "u32 port_mtu(port)",
            "Bytes behind the Ethernet header that a port sends at most, without a VLAN tag; 0 where there is no such \
             port.",
        )
    },
    Builtin {
        returns: Returns::Nothing,
        packet: OnPacket::Consumes,
        not_locked: Some("keeps a packet"),
        ..row(
            Function::HoldPut,
            (3, 3),
            "hold_put",
            "hold_put(table, number, pkt)",
            "Consumes the handle: the packet is held under the number, in place of one that was. Where the table has as \
             many as it may have, the one that was put there first makes room.",
        )
    },
    Builtin {
        returns: Returns::Checked,
        not_locked: MAKES,
        makes: 1,
        ..row(
            Function::HoldGet,
            (2, 2),
            "hold_get",
            "P_packet_t *hold_get(table, number)",
            "A copy of the packet that is held under the number, or `null`, which the next statement tests.",
        )
    },
    Builtin {
        returns: Returns::Checked,
        packet: OnPacket::Accesses,
        not_locked: Some("looks an entry up"),
        ..row(
            Function::GroupMember,
            (2, 2),
            "group_member",
            "V *group_member(group, pkt)",
            "The value of the member that this packet was made for by `channel_put_all`, or `null` where it has left the \
             group meanwhile, or where the packet is none of this group.",
        )
    },
];

/// A function that makes a packet longer or shorter where it can.
const fn resizes(function: Function, name: &'static str, form: &'static str, text: &'static str) -> Builtin {
    Builtin {
        returns: Returns::Checked,
        packet: OnPacket::Resizes,
        not_locked: ON_BYTES,
        ..row(function, (2, 2), name, form, text)
    }
}

/// The function of a name.
pub fn find(name: &str) -> Option<&'static Builtin> {
    FUNCTIONS.iter().find(|builtin| builtin.name == name)
}

impl Function {
    /// Its row.
    pub fn row(self) -> &'static Builtin {
        FUNCTIONS.iter().find(|builtin| builtin.function == self).expect("each function has a row")
    }

    /// Whether the packet gets longer or shorter.
    pub fn resizes(self) -> bool {
        self.row().packet == OnPacket::Resizes
    }
}
