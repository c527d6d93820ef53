//! The tables as one worker sees them: an array whose entries change as a whole stays as it was when the batch began.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::array::{Array, Entries};
use super::epoch::Registration;
use super::store::Tables;
use super::table::{Kind, Table};

/// A worker's tables, with its place among the epochs.
#[derive(Debug)]
pub struct View {
    tables: Arc<Tables>,
    registration: Registration,
    /// One per table: its control block, or the worker's own.
    control_blocks: Box<[*mut u8]>,
    /// The worker's own control blocks, with the numbers of the tables.
    arrays: Box<[(usize, Entries)]>,
}

// SAFETY: the pointers lead to the tables' control blocks, which threads share, and to the view's own.
unsafe impl Send for View {}

impl View {
    /// `None` where there are as many workers already as there can be.
    pub fn new(tables: Arc<Tables>) -> Option<View> {
        let registration = tables.epochs().register()?;
        let published = |(index, table): (usize, &Table)| {
            array(&table.kind)?.published().map(|entries| (index, AtomicPtr::new(entries)))
        };
        let arrays: Box<[_]> = tables.tables.iter().enumerate().filter_map(published).collect();
        let mut control_blocks = tables.control_blocks().to_vec();
        for (index, own) in &arrays {
            control_blocks[*index] = (&raw const *own).cast_mut().cast();
        }
        Some(View { tables, registration, control_blocks: control_blocks.into(), arrays })
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// What generated code gets (`codegen::abi::Context::tables`). It stays in place as long as the view.
    pub fn control_blocks(&self) -> *const *mut u8 {
        self.control_blocks.as_ptr()
    }

    /// To be called before each batch: see [`Registration::quiescent`].
    pub fn quiescent(&self) {
        if self.registration.quiescent() {
            self.take_over();
        }
    }

    /// To be called before the worker sleeps: see [`Registration::offline`].
    pub fn offline(&self) {
        self.registration.offline();
    }

    /// Only after the worker has announced that it reads nothing of before: what it finds from then on a writer waits
    /// for.
    fn take_over(&self) {
        for (index, own) in &self.arrays {
            if let Some(published) = array(&self.tables.tables[*index].kind).and_then(Array::published) {
                own.store(published, Ordering::Relaxed);
            }
        }
    }
}

fn array(kind: &Kind) -> Option<&Array> {
    if let Kind::Array(array) = kind { Some(array) } else { None }
}
