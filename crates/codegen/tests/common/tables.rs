//! Tables for tests: arrays, a full DIR-24-8 filled by hand, and a hash that searches its list.

use baker::ir::{Layout, Program, Table, TableKind, storage_size};
use codegen::abi::{self, ArrayTable, HashBucket, HashEntry, HashTable, LpmTable, Runtime};

/// The hash functions below.
// Exact keys are enough to see that an `lpm` look-up is called for.
pub const RUNTIME: Runtime = Runtime {
    hash_lookup,
    hash_insert,
    hash_remove,
    lpm_lookup: hash_lookup,
    hold_put,
    hold_get,
    meter_take,
    deadline_set,
    deadline_take,
};

/// No program here has deadlines.
unsafe extern "C" fn deadline_set(_: *mut u8, _: u32, _: *const u64, _: u64, _: u64) -> u8 {
    0
}

unsafe extern "C" fn deadline_take(_: *mut u8, _: u32, _: *const u64, _: u64) -> u8 {
    0
}

unsafe extern "C" fn hold_put(_: *const u8, _: *mut abi::Context, _: *mut abi::Descriptor, _: u64) -> u8 {
    unreachable!("no program here holds packets")
}

unsafe extern "C" fn hold_get(_: *const u8, _: *mut abi::Context, _: u64, _: u32) -> *mut abi::Descriptor {
    unreachable!("no program here holds packets")
}

/// A table with its control block.
pub enum TestTable {
    Array { control: ArrayTable, entries: Vec<u128>, layout: Layout },
    Lpm { control: LpmTable, tbl24: Vec<u32>, tbl8: Vec<u32>, entries: Vec<u128>, layout: Layout },
    Hash(Box<TestHash>),
}

/// A hash table: pairs of packed key and value bytes. It has one bucket, empty but for a spilled key, so that generated
/// code asks the runtime for every key.
#[repr(C)]
pub struct TestHash {
    control: HashTable,
    bucket: Box<HashBucket>,
    pub entries: Vec<(Vec<u64>, Box<[u128]>)>,
    pub key: Layout,
    pub value: Layout,
    pub capacity: usize,
    /// The entry that generated code reads where a slot is empty.
    unused: Box<[u128]>,
}

impl TestTable {
    pub fn new(program: &Program, table: &Table) -> Self {
        let layout = program.layouts[table.value.0 as usize].clone();
        let entries = vec![0; (layout.size as usize * table.capacity as usize).div_ceil(16)];
        match table.kind {
            TableKind::Array => {
                TestTable::Array { control: ArrayTable { entries: std::ptr::null_mut() }, entries, layout }
            }
            TableKind::Lpm => TestTable::Lpm {
                control: LpmTable {
                    tbl24: std::ptr::null(),
                    tbl8: std::ptr::null(),
                    entries: std::ptr::null_mut(),
                    default_slot: 0,
                    large: 1,
                },
                tbl24: vec![0; 1 << 24],
                tbl8: vec![0; 256 * 4],
                entries,
                layout,
            },
            TableKind::Hash => TestTable::Hash(Box::new(TestHash {
                control: HashTable {
                    buckets: std::ptr::null(),
                    entries: std::ptr::null_mut(),
                    seed: [1, 3],
                    bucket_mask: 0,
                    large: 1,
                },
                bucket: Box::new(HashBucket { tags: [0; 2], entries: [0; 8], spilled: 1 }),
                entries: Vec::new(),
                key: program.layouts[table.key.0 as usize].clone(),
                value: layout,
                capacity: table.capacity as usize,
                unused: vec![0; 64].into(),
            })),
        }
    }

    /// Its control block, for `Context::tables`.
    pub fn control(&mut self) -> *mut u8 {
        match self {
            TestTable::Array { control, entries, .. } => {
                control.entries = entries.as_mut_ptr().cast();
                std::ptr::from_mut(control).cast()
            }
            TestTable::Lpm { control, tbl24, tbl8, entries, .. } => {
                (control.tbl24, control.tbl8) = (tbl24.as_ptr(), tbl8.as_ptr());
                control.entries = entries.as_mut_ptr().cast();
                std::ptr::from_mut(control).cast()
            }
            TestTable::Hash(hash) => {
                hash.control.buckets = (&raw const *hash.bucket).cast();
                hash.control.entries = hash.unused.as_mut_ptr().cast();
                std::ptr::from_mut(hash.as_mut()).cast()
            }
        }
    }

    /// Entry `i` of an array or lpm as numbers.
    pub fn entry(&self, i: usize) -> Vec<u128> {
        let (entries, layout) = self.parts();
        let size = layout.size as usize;
        read(layout, &bytes(entries)[i * size..][..size])
    }

    /// Sets entry `i` of an array or lpm.
    pub fn set_entry(&mut self, i: usize, values: &[u128]) {
        let (TestTable::Array { entries, layout, .. } | TestTable::Lpm { entries, layout, .. }) = self else {
            panic!("a hash has no numbered entries");
        };
        let size = layout.size as usize;
        bytes_mut(entries)[i * size..][..size].copy_from_slice(&write(layout, values));
    }

    pub fn hash(&mut self) -> &mut TestHash {
        match self {
            TestTable::Hash(hash) => hash,
            _ => panic!("not a hash"),
        }
    }

    fn parts(&self) -> (&[u128], &Layout) {
        match self {
            TestTable::Array { entries, layout, .. } | TestTable::Lpm { entries, layout, .. } => (entries, layout),
            TestTable::Hash(_) => panic!("a hash has no numbered entries"),
        }
    }
}

impl TestHash {
    pub fn get(&self, key: &[u128]) -> Option<Vec<u128>> {
        let key = abi::pack_key(&self.key, key);
        let found = self.entries.iter().find(|(other, _)| *other == key);
        found.map(|(_, value)| read(&self.value, bytes(value)))
    }

    pub fn set(&mut self, key: &[u128], value: &[u128]) {
        let (key, value) = (abi::pack_key(&self.key, key), write(&self.value, value));
        self.entries.push((key, boxed(&value)));
    }
}

/// Fields as their layout's bytes, padding zero.
pub fn write(layout: &Layout, values: &[u128]) -> Vec<u8> {
    let mut out = vec![0; layout.size as usize];
    for (field, value) in layout.fields.iter().zip(values) {
        abi::write_field(&mut out[field.offset as usize..], field.width, *value);
    }
    out
}

/// The fields of a layout's bytes; padding and unused bits must be zero.
pub fn read(layout: &Layout, from: &[u8]) -> Vec<u128> {
    let field_at =
        |i: usize| layout.fields.iter().find(|f| (f.offset..f.offset + storage_size(f.width)).contains(&(i as u32)));
    for (i, byte) in from.iter().enumerate().take(layout.size as usize) {
        assert!(field_at(i).is_some() || *byte == 0, "padding byte {i} is {byte}");
    }
    let values = layout.fields.iter().map(|field| {
        let value = abi::read_field(&from[field.offset as usize..], field.width);
        assert_eq!(value & !super::mask(field.width), 0, "unused bits are set");
        value
    });
    values.collect()
}

fn boxed(value: &[u8]) -> Box<[u128]> {
    let mut out = vec![0; value.len().div_ceil(16)];
    bytes_mut(&mut out)[..value.len()].copy_from_slice(value);
    out.into()
}

fn bytes(words: &[u128]) -> &[u8] {
    // SAFETY: any bytes may be read as bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn bytes_mut(words: &mut [u128]) -> &mut [u8] {
    // SAFETY: any bytes may be written into integers.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Words of a packed key.
fn words(key: &Layout) -> usize {
    HashEntry::new(key, key).key_words
}

/// # Safety
/// `table` is a `TestHash`, `key` is packed.
unsafe extern "C" fn hash_lookup(table: *const u8, key: *const u64) -> *mut u8 {
    // SAFETY: as above; nothing else uses the table during a batch.
    let (table, key) = unsafe {
        let table = &mut *table.cast::<TestHash>().cast_mut();
        let size = words(&table.key);
        (table, std::slice::from_raw_parts(key, size))
    };
    let found = table.entries.iter_mut().find(|(other, _)| other == key);
    found.map_or(std::ptr::null_mut(), |(_, value)| value.as_mut_ptr().cast())
}

/// # Safety
/// As `hash_lookup`; `value` has the value's size.
unsafe extern "C" fn hash_insert(table: *mut u8, key: *const u64, value: *const u8, new: u8) -> u8 {
    // SAFETY: as above.
    let (table, key, value) = unsafe {
        let table = &mut *table.cast::<TestHash>();
        let (key_size, value_size) = (words(&table.key), table.value.size as usize);
        (table, std::slice::from_raw_parts(key, key_size), std::slice::from_raw_parts(value, value_size))
    };
    if let Some((_, old)) = table.entries.iter_mut().find(|(other, _)| other == key) {
        if new != 0 {
            return 2;
        }
        bytes_mut(old)[..value.len()].copy_from_slice(value);
        return 1;
    }
    if table.entries.len() == table.capacity {
        return 0;
    }
    table.entries.push((key.to_vec(), boxed(value)));
    1
}

/// # Safety
/// `cell` is a cell of a meter that nothing else uses.
unsafe extern "C" fn meter_take(cell: *mut u8, now: u64, tokens: u64) -> u8 {
    // SAFETY: as above.
    let cell = unsafe { &mut *cell.cast::<abi::MeterCell>() };
    let meter = baker::ir::meter::MeterRate { rate: cell.rate, burst: cell.burst };
    meter.take(cell.full, now, tokens).map(|full| cell.full = full).is_some().into()
}

/// # Safety
/// As `hash_lookup`.
unsafe extern "C" fn hash_remove(table: *mut u8, key: *const u64) -> u8 {
    // SAFETY: as above.
    let (table, key) = unsafe {
        let table = &mut *table.cast::<TestHash>();
        let size = words(&table.key);
        (table, std::slice::from_raw_parts(key, size))
    };
    let before = table.entries.len();
    table.entries.retain(|(other, _)| other != key);
    (table.entries.len() < before).into()
}
