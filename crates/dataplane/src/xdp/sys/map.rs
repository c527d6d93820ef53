//! Maps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::{bpf, info, name, number, owned};

/// Commands (`enum bpf_cmd`).
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const MAP_UPDATE_BATCH: libc::c_long = 26;

/// The kernel's own number for what is not supported.
const ENOTSUPP: i32 = 524;

/// Kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum MapType {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    ArrayOfMaps = 12,
    DevMap = 14,
    XskMap = 17,
    RingBuf = 27,
}

/// The process can map it.
pub const MMAPABLE: u32 = 1 << 10;

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct MapElem {
    map_fd: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct MapBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// A map.
pub fn map_create(kind: MapType, value_size: u32, entries: u32, flags: u32, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: kind as u32,
        key_size: 4,
        value_size,
        max_entries: entries,
        map_flags: flags,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(MAP_CREATE, &mut attributes)?)) }
}

/// A ring of so many bytes: a power of two, and whole pages.
pub fn ring_create(bytes: u32, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: MapType::RingBuf as u32,
        max_entries: bytes,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(MAP_CREATE, &mut attributes)?)) }
}

/// A set of keys of so many bytes, at most so many of them.
pub fn set_create(key_size: u32, entries: u32, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: MapType::Hash as u32,
        key_size,
        value_size: 1,
        max_entries: entries,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(MAP_CREATE, &mut attributes)?)) }
}

/// Adds a key, which has as many bytes as the set's keys.
pub fn set_insert<const N: usize>(set: &OwnedFd, key: &[u8; N]) -> io::Result<()> {
    let (key, value) = (key.as_ptr() as u64, (&raw const PRESENT) as u64);
    let mut attributes = MapElem { map_fd: set.as_raw_fd() as u32, key, value, ..MapElem::default() };
    // SAFETY: key and value live through the call and are as long as the set's.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes).map(drop) }
}

/// The value of a set's keys.
static PRESENT: u8 = 1;

/// Takes a key out of a set; nothing where it is not there.
pub fn set_remove<const N: usize>(set: &OwnedFd, key: &[u8; N]) -> io::Result<()> {
    let mut attributes = MapElem { map_fd: set.as_raw_fd() as u32, key: key.as_ptr() as u64, ..MapElem::default() };
    // SAFETY: the key lives through the call and is as long as the set's.
    match unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// An array of one map like `inner`, which is in it from now on.
pub fn map_of_maps(inner: &OwnedFd, named: &str) -> io::Result<OwnedFd> {
    let outer = array_of_maps(inner, 1, named)?;
    map_update(&outer, 0, number(inner) as u32)?;
    Ok(outer)
}

/// An array of so many maps like this one, none of which is there yet.
pub fn array_of_maps(like: &OwnedFd, entries: u32, named: &str) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        map_type: MapType::ArrayOfMaps as u32,
        key_size: 4,
        value_size: 4,
        max_entries: entries,
        inner_map_fd: like.as_raw_fd() as u32,
        map_name: name(named),
        ..MapCreate::default()
    };
    // SAFETY: no pointers; the result is a new descriptor.
    unsafe { Ok(owned(bpf(MAP_CREATE, &mut attributes)?)) }
}

/// Sets an element of a map of 32-bit values.
pub fn map_update(map: &OwnedFd, key: u32, value: u32) -> io::Result<()> {
    let (key, value) = ((&raw const key) as u64, (&raw const value) as u64);
    let mut attributes = MapElem { map_fd: map.as_raw_fd() as u32, key, value, ..MapElem::default() };
    // SAFETY: key and value are words that live through the call.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes).map(drop) }
}

/// Sets the first elements of a map of 32-bit values. Of maps in a map the kernel waits once for all of them, and else
/// for each, until no program can have what was there before: some 10 ms.
pub fn map_update_first(map: &OwnedFd, values: &[u32]) -> io::Result<()> {
    let numbers: Vec<u32> = (0..values.len() as u32).collect();
    let (map_fd, count) = (map.as_raw_fd() as u32, values.len() as u32);
    let (keys, all) = (numbers.as_ptr() as u64, values.as_ptr() as u64);
    let mut attributes = MapBatch { keys, values: all, count, map_fd, ..MapBatch::default() };
    // SAFETY: keys and values are words, as many as `count` says, that live through the call.
    match unsafe { bpf(MAP_UPDATE_BATCH, &mut attributes) } {
        // Kernels before 5.14 do so for fewer kinds of maps.
        Err(error) if [Some(libc::EINVAL), Some(ENOTSUPP)].contains(&error.raw_os_error()) => {
            (0..).zip(values).try_for_each(|(key, value)| map_update(map, key, *value))
        }
        done => done.map(drop),
    }
}

/// A map that holds a text.
pub fn text_map(text: &str) -> io::Result<OwnedFd> {
    let mut bytes = text.as_bytes().to_vec();
    // The kernel's values are whole words; what is behind the text is zero.
    bytes.resize((text.len() + 1).next_multiple_of(8), 0);
    let map = map_create(MapType::Array, bytes.len() as u32, 1, 0, "text")?;
    let (key, first) = (0u32, bytes.as_ptr() as u64);
    let (map_fd, key) = (map.as_raw_fd() as u32, (&raw const key) as u64);
    let mut attributes = MapElem { map_fd, key, value: first, ..MapElem::default() };
    // SAFETY: key and value live through the call and are as long as the map's.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes)? };
    Ok(map)
}

/// The text of a map of [`text_map`].
pub fn text_of_map(map: &OwnedFd) -> io::Result<String> {
    // The first fields of `struct bpf_map_info`: type, number, sizes of keys and values.
    let mut numbers = [0u32; 4];
    // SAFETY: plain numbers.
    unsafe { info(map, &mut numbers)? };
    let (mut bytes, key) = (vec![0u8; (numbers[3] as usize).next_multiple_of(8)], 0u32);
    let (map_fd, key) = (map.as_raw_fd() as u32, (&raw const key) as u64);
    let mut attributes = MapElem { map_fd, key, value: bytes.as_mut_ptr() as u64, ..MapElem::default() };
    // SAFETY: key and value live through the call and are as long as the map's.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes)? };
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Takes an element out of a map; nothing where there is none.
pub fn map_delete(map: &OwnedFd, key: u32) -> io::Result<()> {
    let key = (&raw const key) as u64;
    let mut attributes = MapElem { map_fd: map.as_raw_fd() as u32, key, ..MapElem::default() };
    // SAFETY: the key is a word that lives through the call.
    match unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) } {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
        _ => Ok(()),
    }
}
