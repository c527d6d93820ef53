//! The kernel verifies a large program for a second or more. Where it has taken the program before, an instance starts
//! with a stand-in, which hands all packets over as they were received, and the program takes its place when it is
//! verified. To workers, which have all PPFs, both are the same: they work on the same tables and counters, and go on
//! in the same way. Packets that are with workers at that moment may be overtaken.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use baker::opt::Level;
use baker::place::Split;
use codegen::kernel::Options;

use super::fast_path::{FastPath, State};
use super::kernel_part::{Awaited, Progress};
use super::load::{LoadError, Loaded};
use super::memory::SharedMemory;

impl FastPath {
    /// As [`FastPath::of`], of a program that is not loaded yet: from [`FastPath::start`] on its stand-in hands all
    /// packets over, and [`FastPath::load_aside`] has the program take that one's place.
    pub fn with_stand_in(
        split: &Split,
        memory: SharedMemory,
        packets: Level,
        options: Options,
    ) -> Result<Self, LoadError> {
        let loaded = Loaded::compile(&split.stand_in(), packets, &memory, options)?;
        let mut path = Self::of(split, memory, loaded)?;
        let awaited = Awaited { kernel: split.kernel.clone(), packets, options };
        path.awaited = Mutex::new(Some(awaited));
        path.state.get_mut().unwrap_or_else(PoisonError::into_inner).progress = Progress::Loading;
        Ok(path)
    }

    /// Loads what is awaited, if anything is, on a thread of its own.
    pub(crate) fn load_aside(self: &Arc<Self>) -> io::Result<()> {
        if self.progress() != Progress::Loading {
            return Ok(());
        }
        let path = self.clone();
        let load = move || {
            crate::give_way();
            path.load_awaited();
        };
        thread::Builder::new().name("verify".into()).spawn(load).map(drop)
    }

    /// Loads what is awaited, if anything is, and puts it in its stand-in's place, at each port between two packets.
    pub fn load_awaited(&self) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Awaited { kernel, packets, options }) = awaited.take() else { return };
        let part = self.part();
        let loaded = Loaded::compile_for(&kernel, packets, &part.memory, options, self.ports.clone());
        let mut state = self.lock();
        let put = loaded.map_err(|error| error.to_string()).and_then(|loaded| {
            // Otherwise it has not begun yet, or has ended.
            let named = if state.grace.is_some() { self.name(&part, &loaded) } else { Ok(None) };
            let named = named.map_err(|error| format!("it can't be named in the BPF file system: {error}"))?;
            // Nothing else sets it: programs that take over wait for this one.
            let _ = part.whole.set(loaded);
            if state.grace.is_some() {
                self.put_whole(&mut state, named);
            }
            Ok(())
        });
        state.progress = put.map_or_else(Progress::Refused, |()| Progress::Loaded);
    }

    /// Puts a program, which was named, in the place of its stand-in.
    fn put_whole(&self, state: &mut State, named: Option<u32>) {
        // What is in front of the stand-in does not lead to it.
        let _ = state.renew_front();
        // Where a link cannot be changed its interface is gone.
        let _ = self.put(state);
        // Names that cannot be removed the next start removes.
        let _ = self.pins.as_ref().map(|pins| pins.keep_only(named));
    }

    /// How far the program is in the kernel.
    pub fn progress(&self) -> Progress {
        self.lock().progress.clone()
    }
}
