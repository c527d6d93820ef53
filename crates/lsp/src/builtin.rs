//! Names that the language defines, as shown to the user (docs/language.md). Its functions are [`baker::builtin`]'s.

use baker::ir::DropReason;

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

/// A function of the language.
pub fn function(name: &str) -> Option<Builtin> {
    baker::builtin::find(name).map(|found| builtin(found.name, found.form, found.text))
}

/// The ends of the wiring.
pub const ENDS: [Builtin; 4] = [
    builtin("rx", "rx -> module.input;", "Frames as they come in, with `metadata.rx.port`."),
    builtin("tx", "module.output -> tx;", "Frames go out of the port that `metadata.tx.port` names."),
    builtin("host", "module.output -> host;", "Frames go to the kernel's own stack."),
    builtin(
        "controller",
        "module.output -> controller NAME;\nmodule.output -> controller NAME batch 256 within 5ms;\ncontroller NAME -> module.input;",
        "Packets go to a controller, which runs beside the workers, or are injected by it. With `batch`, it is woken for \
         so many packets, or where the first of them has waited so long.",
    ),
];

/// Metadata that the language declares.
pub const METADATA: [Builtin; 4] = [
    builtin("rx.port", "rx.port : port_t;", "The number of the port that the packet came in on."),
    builtin("tx.port", "tx.port : port_t;", "The number of the port that the packet is to go out of; 0 is no port."),
    builtin("group", "group : u32;", "Behind `channel_put_all`: the group that the packet was put to."),
    builtin("member", "member : u32;", "Behind `channel_put_all`: the number of the member that the packet is for."),
];

/// Types to offer; there are `u1` to `u128` and `i1` to `i128`.
pub const TYPES: [&str; 13] =
    ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "bool", "int", "void", DropReason::TYPE];

/// Finds a name.
pub fn find(list: &[Builtin], name: &str) -> Option<Builtin> {
    list.iter().find(|b| b.name == name).copied()
}

/// Bits of a type of the language and whether it is signed; `bool` has one bit.
pub fn type_width(name: &str) -> Option<(u32, bool)> {
    match name {
        "bool" => return Some((1, false)),
        "int" => return Some((32, true)),
        "port_t" => return Some((8, false)),
        DropReason::TYPE => return Some((DropReason::WIDTH, false)),
        _ => {}
    }
    let (digits, signed) = match name.strip_prefix('u') {
        Some(digits) => (digits, false),
        None => (name.strip_prefix('i')?, true),
    };
    let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|width| plain && (1..=128).contains(width)).map(|width| (width, signed))
}
