//! Hold tables: packets by number, which stay in their frames until others take their places.
//!
//! ```text
//! place  0     1     2     3     …           a number's place is its remainder by the number of places
//!        9  ←─ 4097      ←─ 3                in the order in which they were put there: the first one goes first
//! ```
//!
//! Workers share a table, for what one has put there another one may be asked for; a lock is held for the few loads and
//! stores of a change. A packet that is held is not written, so copies share its bytes: see
//! [`crate::packets`]. Both operations are called by generated code, with its context.

use std::cell::UnsafeCell;
use std::fmt::Debug;
use std::ptr::copy_nonoverlapping;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use codegen::abi::{Context, Descriptor, METADATA_OFFSET, SHARE_NONE, WHOLE};

/// No place, and no frame.
const NONE: u32 = u32::MAX;

/// The frames that packets lie in.
pub trait Frames: Debug + Send + Sync {
    /// Bytes from one descriptor to the next.
    fn stride(&self) -> usize;
    /// Bytes in front of a received packet.
    fn headroom(&self) -> u32;
    /// Holds a frame, which is held already, once more.
    fn hold(&self, frame: u32);
    /// Lets go of a packet: gives the frames that are free then.
    ///
    /// # Safety
    /// The packet is the caller's, which forgets it.
    unsafe fn release(&self, frame: u32, give: &mut dyn FnMut(u32));
    /// Takes free frames back.
    fn put_back(&self, frame: u32);
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    frame: u32,
    /// The places that were taken before this one and after it.
    before: u32,
    after: u32,
}

#[derive(Debug)]
struct State {
    places: Box<[Slot]>,
    first: u32,
    last: u32,
    count: u32,
}

impl State {
    /// Takes the packet out of a place.
    fn take(&mut self, index: u32) -> u32 {
        let Slot { frame, before, after, .. } = self.places[index as usize];
        match before {
            NONE => self.first = after,
            before => self.places[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.places[after as usize].before = before,
        }
        self.places[index as usize].frame = NONE;
        self.count -= 1;
        frame
    }

    /// Puts a packet into an empty place, as the last one.
    fn put(&mut self, index: u32, key: u64, frame: u32) {
        let before = self.last;
        self.places[index as usize] = Slot { key, frame, before, after: NONE };
        match before {
            NONE => self.first = index,
            before => self.places[before as usize].after = index,
        }
        self.last = index;
        self.count += 1;
    }
}

/// A hold table. Its address is its control block.
#[derive(Debug)]
pub struct HoldTable {
    lock: AtomicU32,
    state: UnsafeCell<State>,
    /// Packets at most.
    most: u32,
    /// Bytes of metadata that packets have.
    metadata: usize,
    /// Known before packets are.
    frames: OnceLock<Arc<dyn Frames>>,
}

// SAFETY: the state is only reached under the lock.
unsafe impl Sync for HoldTable {}

impl HoldTable {
    /// An empty one with so many places.
    pub fn new(places: u32, most: u32, metadata: usize) -> Self {
        let empty = Slot { key: 0, frame: NONE, before: NONE, after: NONE };
        let state = State { places: vec![empty; places as usize].into(), first: NONE, last: NONE, count: 0 };
        HoldTable { lock: AtomicU32::new(0), state: UnsafeCell::new(state), most, metadata, frames: OnceLock::new() }
    }

    /// Says which frames its packets lie in, which are the same for as long as it is there.
    pub fn set_frames(&self, frames: &Arc<impl Frames + 'static>) {
        self.frames.get_or_init(|| frames.clone());
    }

    /// What generated code reaches it by.
    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }

    fn locked<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        while self.lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held.
        let result = change(unsafe { &mut *self.state.get() });
        self.lock.store(0, Ordering::Release);
        result
    }

    /// Lets go of all packets.
    pub fn clear(&self) {
        let Some(frames) = self.frames.get() else { return };
        while let Some(frame) = self.locked(|state| (state.count > 0).then(|| state.take(state.first))) {
            // SAFETY: the packet was the table's.
            unsafe { frames.release(frame, &mut |free| frames.put_back(free)) };
        }
    }

    /// Number of packets.
    pub fn count(&self) -> usize {
        self.locked(|state| state.count as usize)
    }

    /// Calls a function with the frame of each packet.
    pub fn each(&self, mut visit: impl FnMut(u32)) {
        self.locked(|state| {
            state.places.iter().filter(|place| place.frame != NONE).for_each(|place| visit(place.frame))
        });
    }
}

impl Drop for HoldTable {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The table behind a control block, and its frames.
unsafe fn table<'a>(control: *const u8) -> (&'a HoldTable, &'a dyn Frames) {
    // SAFETY: by the caller's promise it is one.
    let table = unsafe { &*control.cast::<HoldTable>() };
    (table, &**table.frames.get().expect("a worker has said which frames there are"))
}

/// Puts a free frame on the worker's stack.
unsafe fn give(context: *mut Context, frame: u32) {
    // SAFETY: the stack has room for every frame there is.
    unsafe {
        (*context).free.add((*context).free_len as usize).write(frame);
        (*context).free_len += 1;
    }
}

/// `Runtime::hold_put`
///
/// # Safety
/// As `codegen::abi::Runtime` says.
pub unsafe extern "C" fn put(control: *const u8, context: *mut Context, packet: *mut Descriptor, key: u64) -> u8 {
    // SAFETY: generated code gives its own.
    unsafe {
        let (table, frames) = table(control);
        let Descriptor { addr, len, frame, .. } = *packet;
        let size = (*context).frame_size;
        let headroom = u64::from(frames.headroom());
        // Where it could not be given back with as much room in front of it as it needs, it is not held.
        if addr - u64::from(frame) * size < headroom && u64::from(len) + headroom > size {
            frames.release(frame, &mut |free| give(context, free));
            return 1;
        }
        let (replaced, evicted) = table.locked(|state| {
            let place = (key % state.places.len() as u64) as u32;
            let taken = state.places[place as usize].frame != NONE;
            let replaced = if taken { state.take(place) } else { NONE };
            let evicted = if state.count == table.most { state.take(state.first) } else { NONE };
            state.put(place, key, frame);
            (replaced, evicted)
        });
        for old in [replaced, evicted].into_iter().filter(|old| *old != NONE) {
            frames.release(old, &mut |free| give(context, free));
        }
        u8::from(evicted != NONE)
    }
}

/// `Runtime::hold_get`
///
/// # Safety
/// As `codegen::abi::Runtime` says.
pub unsafe extern "C" fn get(control: *const u8, context: *mut Context, key: u64, own: u32) -> *mut Descriptor {
    // SAFETY: generated code gives its own context, which has a free frame for this copy. What descriptors say lies in
    // their frames, and a packet that is held is there as long as the lock is.
    unsafe {
        let (table, frames) = table(control);
        let context = &mut *context;
        context.free_len -= 1;
        let frame = *context.free.add(context.free_len as usize);
        let descriptor = |frame: u32| context.descriptors.add(frame as usize * frames.stride()).cast::<Descriptor>();
        let copy = descriptor(frame);
        let start = |frame: u32| u64::from(frame) * context.frame_size;
        ((*copy).rest, (*copy).held) = (WHOLE, WHOLE);
        (*copy).addr = start(frame) + u64::from(frames.headroom());
        (*copy).len = 0;
        table.locked(|state| {
            let place = state.places[(key % state.places.len() as u64) as usize];
            if place.frame == NONE || place.key != key {
                return;
            }
            let from = descriptor(place.frame);
            let Descriptor { addr, len, rest, held, .. } = *from;
            let offset = addr - start(place.frame);
            let to = offset.max(u64::from(frames.headroom()));
            // Bytes in its own frame; what follows is at the same place of the other one.
            let here = u64::from(len).min(u64::from(held).saturating_sub(offset)) as u32;
            // A copy has its first bytes in one piece, and those that are shared at the same place as they are.
            let private = own.max(if rest == WHOLE { 0 } else { here });
            let least = context.share_least;
            let shares =
                least != SHARE_NONE && to == offset && len.checked_sub(private).is_some_and(|more| more >= least);
            let bytes = if shares { private } else { len };
            let region = context.region;
            let target = region.add((start(frame) + to) as usize);
            copy_nonoverlapping(region.add(addr as usize), target, bytes.min(here) as usize);
            if bytes > here {
                let source = region.add((start(rest) + offset) as usize + here as usize);
                copy_nonoverlapping(source, target.add(here as usize), (bytes - here) as usize);
            }
            if shares {
                let payload = if rest == WHOLE { place.frame } else { rest };
                frames.hold(payload);
                ((*copy).rest, (*copy).held) = (payload, to as u32 + bytes);
            }
            (*copy).addr = start(frame) + to;
            (*copy).len = len;
            let metadata = |packet: *mut Descriptor| packet.cast::<u8>().add(METADATA_OFFSET);
            copy_nonoverlapping(metadata(from), metadata(copy), table.metadata);
        });
        copy
    }
}
