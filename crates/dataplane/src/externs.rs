//! The functions that controllers have, as engines call them.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baker::ir::interp;
use baker::ir::{Extern, ExternId, Program};
use codegen::abi::ExternCall;

/// A function of a controller. It gets one number per declared argument and gives the result, of which bits beyond the
/// declared width are left out; a function without a result gives anything. Numbers of signed types are in two's
/// complement.
///
/// A worker calls it in the middle of a batch, and several workers may at once: it must be quick, and must not wait for
/// what a worker does. The instance's tables are out of its reach, and using them is a failed call: what it needs of
/// them is an argument.
pub type ExternFn = Box<dyn Fn(&[u128]) -> u128 + Send + Sync>;

/// Functions that no controller has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no controller has the function{} {}", if .0.len() == 1 { "" } else { "s" }, .0.join(", "))]
pub struct MissingExterns(pub Vec<String>);

thread_local! {
    /// Calls under way on this thread.
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Fails where a function of a controller is under way on this thread. The interpreter would wait for itself.
pub(crate) fn refuse_inside() {
    assert!(
        INSIDE.get() == 0,
        "a function of a controller can't use the instance's tables: make what it needs an argument"
    );
}

/// A function with what is known of it.
struct Function {
    name: String,
    call: ExternFn,
    failed: AtomicU64,
}

/// A function as a program declares it. Its address does not change.
struct Declared {
    function: Arc<Function>,
    params: usize,
}

impl Function {
    fn new(name: String, call: ExternFn) -> Arc<Function> {
        Arc::new(Function { name, call, failed: AtomicU64::new(0) })
    }

    /// A panic ends here: the call gives 0 and is counted.
    fn run(&self, arguments: &[u128]) -> u128 {
        INSIDE.set(INSIDE.get() + 1);
        // What the function leaves behind is its controller's: its locks are poisoned, and nothing else is shared with
        // it.
        let result = catch_unwind(AssertUnwindSafe(|| (self.call)(arguments)));
        INSIDE.set(INSIDE.get() - 1);
        result.unwrap_or_else(|_| {
            self.failed.fetch_add(1, Ordering::Relaxed);
            0
        })
    }
}

/// All functions that a program calls, in its order.
pub struct ExternTable {
    functions: Box<[Declared]>,
    /// For generated code; points to `functions`.
    calls: Box<[ExternCall]>,
    /// Those that this program does not call. One that takes over from it may.
    others: Vec<Arc<Function>>,
}

impl fmt::Debug for ExternTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.functions.iter().map(|declared| &declared.function.name)).finish()
    }
}

impl ExternTable {
    /// A program's functions, found by their full names. Those that it does not declare are left out.
    pub fn new(
        program: &Program,
        functions: impl IntoIterator<Item = (String, ExternFn)>,
    ) -> Result<Arc<Self>, MissingExterns> {
        Self::of(program, functions.into_iter().map(|(name, call)| Function::new(name, call)).collect())
    }

    fn of(program: &Program, mut given: Vec<Arc<Function>>) -> Result<Arc<Self>, MissingExterns> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for Extern { name, params, .. } in &program.externs {
            match given.iter().position(|given| given.name == *name) {
                Some(index) => found.push(Declared { function: given.swap_remove(index), params: params.len() }),
                None => missing.push(name.clone()),
            }
        }
        if !missing.is_empty() {
            return Err(MissingExterns(missing));
        }
        let functions: Box<[Declared]> = found.into();
        let calls = functions.iter().map(|declared| ExternCall { call, data: (&raw const *declared).cast() }).collect();
        Ok(Arc::new(ExternTable { functions, calls, others: given }))
    }

    /// The functions that a program's controllers offer; after a program whose controllers go on, with those of
    /// `before`.
    pub(crate) fn of_offered(
        program: &Program,
        offered: impl IntoIterator<Item = (String, ExternFn)>,
        before: Option<&Arc<ExternTable>>,
    ) -> Result<Option<Arc<Self>>, MissingExterns> {
        let all = |table: &Arc<ExternTable>| -> Vec<Arc<Function>> {
            let called = table.functions.iter().map(|declared| &declared.function);
            called.chain(&table.others).cloned().collect()
        };
        let mut given = before.map(all).unwrap_or_default();
        given.extend(offered.into_iter().map(|(name, call)| Function::new(name, call)));
        if program.externs.is_empty() && given.is_empty() { Ok(None) } else { Self::of(program, given).map(Some) }
    }

    /// The table of a program that calls no functions: none.
    pub fn none(program: &Program) -> Result<Option<Arc<Self>>, MissingExterns> {
        if program.externs.is_empty() { Ok(None) } else { Self::new(program, []).map(Some) }
    }

    /// For generated code; valid while the table lives.
    pub(crate) fn calls(&self) -> *const ExternCall {
        self.calls.as_ptr()
    }

    /// Calls that failed, by function.
    pub fn failed(&self) -> impl Iterator<Item = (&str, u64)> {
        let functions = self.functions.iter().map(|declared| &declared.function);
        functions.map(|function| (function.name.as_str(), function.failed.load(Ordering::Relaxed)))
    }
}

impl interp::Externs for ExternTable {
    fn call(&self, function: ExternId, arguments: &[u128]) -> u128 {
        self.functions[function.0 as usize].function.run(arguments)
    }
}

/// What generated code calls: see [`ExternCall`].
unsafe extern "C" fn call(data: *const (), values: *mut u64) {
    // SAFETY: generated code hands on what the table gave it, a function of the table, which outlives the code's run;
    // and two words for each argument, at least two.
    let (&Declared { ref function, params }, values) = unsafe {
        let declared = &*data.cast::<Declared>();
        (declared, std::slice::from_raw_parts_mut(values, 2 * declared.params.max(1)))
    };
    let mut arguments = [0; Extern::MAX_PARAMS];
    for (argument, words) in arguments.iter_mut().zip(values.chunks_exact(2)).take(params) {
        *argument = u128::from(words[0]) | u128::from(words[1]) << 64;
    }
    let result = function.run(&arguments[..params]);
    (values[0], values[1]) = (result as u64, (result >> 64) as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::forward;

    fn program(names: &[&str]) -> Program {
        let one = |name: &&str| Extern { name: name.to_string(), params: vec![8, 128], result: Some(16), span: None };
        Program { externs: names.iter().map(one).collect(), ..forward() }
    }

    #[test]
    fn functions_are_found_by_name_and_missing_ones_are_named() {
        let program = program(&["m.a", "m.b", "m.c"]);
        let function = |name: &str| (name.to_string(), Box::new(|_: &[u128]| 1u128) as ExternFn);
        let error = ExternTable::new(&program, [function("m.b"), function("m.x")]).unwrap_err();
        assert_eq!(error.to_string(), "no controller has the functions m.a, m.c");
        assert!(ExternTable::new(&program, ["m.c", "m.b", "m.a"].map(function)).is_ok());
    }

    #[test]
    fn arguments_and_results_have_all_bits_and_a_panic_ends_at_the_call() {
        let program = program(&["m.a"]);
        let add: ExternFn = Box::new(|numbers| {
            assert!(numbers[0] != 7, "seven");
            numbers[0] + numbers[1]
        });
        let table = ExternTable::new(&program, [("m.a".to_string(), add)]).unwrap();
        let run = |first: u64| {
            let mut values = [first, 0, u64::MAX, 3];
            // SAFETY: the list is the table's, and there are two words for each of two arguments.
            unsafe { ((*table.calls()).call)((*table.calls()).data, values.as_mut_ptr()) };
            (values[0], values[1])
        };
        assert_eq!(run(1), (0, 4));
        assert_eq!(run(7), (0, 0));
        assert_eq!(interp::Externs::call(&*table, ExternId(0), &[2, 5]), 7);
        assert_eq!(table.failed().collect::<Vec<_>>(), [("m.a", 1)]);
    }
}
