//! Locks of entries: 32 bits, 1 while a worker or the control plane holds it.
//!
//! ```text
//! try:   old = cmpxchg [lock], 0 → 1, acquire      wait:  pause
//!        branch old == 0, held, wait                      branch [lock] == 0, try, wait
//! ```
//!
//! Acquire and release order all other accesses of the worker, so nothing of a critical section moves out of it.

use baker::ir::Value;
use inkwell::intrinsics::Intrinsic;
use inkwell::values::PointerValue;
use inkwell::{AtomicOrdering, IntPredicate};

use super::body::Ppf;
use super::memory::Memory;
use super::walk::Lowering;
use super::{Module, Res};
use crate::{CodegenError, internal};

impl<'c> Ppf<'_, 'c, '_> {
    /// Waits until an entry is not locked, and locks it.
    pub fn lock(&self, entry: Value) -> Res<()> {
        let lock = self.lock_of(entry)?;
        self.lock_at(lock)
    }

    /// Ends what [`Ppf::lock`] began.
    pub fn unlock(&self, entry: Value) -> Res<()> {
        self.module.unlock_at(self.lock_of(entry)?)
    }

    /// Orders what was stored before against what is loaded behind it.
    pub fn fence(&self) -> Res<()> {
        self.module.builder.build_fence(AtomicOrdering::SequentiallyConsistent, false, "")?;
        Ok(())
    }

    fn lock_of(&self, entry: Value) -> Res<PointerValue<'c>> {
        let (entry, layout) = self.entry(entry)?;
        self.module.lock_in(entry, layout)
    }

    pub(super) fn lock_at(&self, lock: PointerValue<'c>) -> Res<()> {
        let module = self.module;
        let builder = &module.builder;
        let (zero, one) = (module.i32.const_zero(), module.i32.const_int(1, false));
        let (try_, wait, held) = (self.new_block("try"), self.new_block("wait"), self.new_block("held"));
        builder.build_unconditional_branch(try_)?;

        builder.position_at_end(try_);
        let exchanged = builder.build_cmpxchg(lock, zero, one, AtomicOrdering::Acquire, AtomicOrdering::Monotonic)?;
        let was_free = builder.build_extract_value(exchanged, 1, "")?.into_int_value();
        let branch = builder.build_conditional_branch(was_free, held, wait)?;
        module.likely(branch)?;

        builder.position_at_end(wait);
        module.pause()?;
        let now = module.load_int(module.i32, lock, 4, Memory::Table)?;
        super::memory::instruction(now.into())?
            .set_atomic_ordering(AtomicOrdering::Monotonic)
            .map_err(|error| CodegenError::Internal(error.to_string()))?;
        let check_free = builder.build_int_compare(IntPredicate::EQ, now, zero, "")?;
        builder.build_conditional_branch(check_free, try_, wait)?;

        builder.position_at_end(held);
        Ok(())
    }
}

impl<'c> Module<'c, '_> {
    /// Where the lock of an entry lies.
    pub(super) fn lock_in(&self, entry: PointerValue<'c>, layout: baker::ir::LayoutId) -> Res<PointerValue<'c>> {
        match self.layout(layout)?.fields.last() {
            Some(field) if field.width == 32 => self.at(entry, field.offset.into()),
            _ => internal("a lock of an entry that has none"),
        }
    }

    pub(super) fn unlock_at(&self, lock: PointerValue<'c>) -> Res<()> {
        let store = self.builder.build_store(lock, self.i32.const_zero())?;
        let internal = |error: &dyn std::fmt::Display| CodegenError::Internal(error.to_string());
        store.set_alignment(4).map_err(|error| internal(&error))?;
        store.set_atomic_ordering(AtomicOrdering::Release).map_err(|error| internal(&error))?;
        self.tag(store, Memory::Table)
    }

    /// Tells the processor that this is a loop that waits.
    fn pause(&self) -> Res<()> {
        let (name, args) = if cfg!(target_arch = "x86_64") {
            ("llvm.x86.sse2.pause", Vec::new())
        } else if cfg!(target_arch = "aarch64") {
            // YIELD
            ("llvm.aarch64.hint", vec![self.i32.const_int(1, false).into()])
        } else {
            return Ok(());
        };
        let pause = Intrinsic::find(name)
            .and_then(|pause| pause.get_declaration(&self.llvm, &[]))
            .ok_or_else(|| CodegenError::Internal(format!("LLVM has no {name}")))?;
        self.builder.build_call(pause, &args, "")?;
        Ok(())
    }
}
