//! Instructions of programs that are written down by hand.

/// `exit`
pub const EXIT: [u8; 8] = instruction(0x95, 0, 0, 0, 0);
/// What an XDP program returns to let a packet through to the kernel's own stack.
pub const XDP_PASS: i32 = 2;
/// What a program at traffic control's ingress returns to leave a packet to those behind it, and then to the kernel's
/// own stack (`TC_ACT_UNSPEC`).
pub const TC_NEXT: i32 = -1;
/// A wide load's source: the number is a map's descriptor (`BPF_PSEUDO_MAP_FD`).
pub const OF_MAP: u8 = 1;
/// Or a place in the value of an array (`BPF_PSEUDO_MAP_VALUE`).
pub const OF_VALUE: u8 = 2;

/// An instruction (`struct bpf_insn`), little-endian.
pub const fn instruction(op: u8, to: u8, from: u8, offset: i16, number: i32) -> [u8; 8] {
    let ([o0, o1], [n0, n1, n2, n3]) = (offset.to_le_bytes(), number.to_le_bytes());
    [op, from << 4 | to, o0, o1, n0, n1, n2, n3]
}
