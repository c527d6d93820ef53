//! A program in the kernel as an engine for tests: each packet by itself, through the kernel's test run. Where the
//! kernel lets this process load nothing, the same code runs on the virtual machine.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::interp::FrameLayout;
use baker::ir::{ChannelId, CounterSlots, DropId, Program, Target, TimerId};
use baker::opt::Level;
use baker::place::Split;
use codegen::abi::{END_CHANNEL, END_HOST, END_TX, Output};
use codegen::bpf::vm::{Executed, Machine, Map};
use codegen::bpf::{self, Accepted, Refusal, Tier};
use codegen::kernel::{Armed, FIRST_FRAGMENT, Hook, Object, Options, PUNTED, Punt, Tap, Verdict};

use super::load::{LoadError, Loaded, PortMaps, Ran, too_much};
use super::memory::{MemoryError, SharedMemory};
use super::partition::PartitionError;
use super::tap_ring::TapRing;
use crate::engine::{Engine, NativeEngine, TableAccess};
use crate::packets::{FramePool, WorkerContext};

/// Where packets lie in frames of the test run: of the 256 bytes in front the kernel takes 40 for itself, and 320 of a
/// page at the end.
pub const KERNEL_FRAMES: FrameLayout = FrameLayout { headroom: 216, frame_size: 216 + 4096 - 256 - 320 };

/// Bytes of a frame at least (`ETH_HLEN`).
const SHORTEST: usize = 14;
/// The interface that test runs come in by.
const LOOPBACK: u32 = 1;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum KernelEngineError {
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

impl From<KernelEngineError> for PartitionError {
    fn from(error: KernelEngineError) -> Self {
        match error {
            KernelEngineError::Memory(error) => PartitionError::Memory(error),
            KernelEngineError::Load(error) => PartitionError::Load(error),
        }
    }
}

/// What runs the code.
enum Runner {
    /// The kernel, with the ring by which the code tells workers something, where it does. The virtual machine has the
    /// packets that the kernel's test run of traffic control does not take.
    Kernel(Loaded, Option<TapRing>, Option<Mutex<Machine>>),
    Machine(Tier, Mutex<Machine>),
}

/// Runs the code on the virtual machine, with so many bytes in the packet's first fragment.
fn on_machine(machine: &Mutex<Machine>, packet: &[u8], first: usize) -> io::Result<Ran> {
    let mut machine = machine.lock().unwrap_or_else(PoisonError::into_inner);
    let Executed { verdict, packet, .. } = machine.run_divided(packet, first, LOOPBACK, 0).map_err(io::Error::other)?;
    Ok(Ran { verdict, packet })
}

impl Runner {
    /// Runs it for a packet, with so many bytes in its first fragment.
    fn run(&self, packet: &[u8], first: usize) -> io::Result<Ran> {
        match self {
            Runner::Kernel(_, _, Some(machine)) if first < packet.len() => on_machine(machine, packet, first),
            Runner::Kernel(loaded, _, machine) => match (loaded.run_divided(packet, first), machine) {
                // Also one that is shorter than its kind's header.
                (Err(error), Some(machine)) if error.raw_os_error() == Some(libc::EINVAL) => {
                    on_machine(machine, packet, first)
                }
                (ran, _) => ran,
            },
            Runner::Machine(_, machine) => on_machine(machine, packet, first),
        }
    }

    /// What it has told workers since that was taken last.
    fn take_records(&self) -> Vec<Vec<u8>> {
        let of_machine =
            |machine: &Mutex<Machine>| machine.lock().unwrap_or_else(PoisonError::into_inner).take_records();
        match self {
            Runner::Kernel(_, ring, machine) => {
                let mut records = machine.as_ref().map_or(Vec::new(), of_machine);
                ring.iter().for_each(|ring| {
                    ring.take(|record| {
                        records.push(record.to_vec());
                        true
                    });
                });
                records
            }
            Runner::Machine(_, machine) => of_machine(machine),
        }
    }
}

/// A program in the kernel, and its memory.
pub struct KernelCode {
    /// The kernel's counters and tables are those of this program.
    program: Arc<Program>,
    memory: SharedMemory,
    runner: Runner,
    /// Why the kernel does not run it, where it does not let this process load anything.
    refusal: Option<KernelEngineError>,
    /// Packets may come in several fragments, of which the first has so many bytes at least.
    least: Option<usize>,
    /// For each channel, the one by which native code goes on with what is punted there.
    resume: Vec<Option<ChannelId>>,
}

impl KernelCode {
    /// Compiles and loads the kernel's part of a program that was cut in two, recorded, and else with these options.
    pub fn split(split: &Split, packets: Level, options: Options) -> Result<Self, KernelEngineError> {
        let (kernel, program) = (&split.kernel, Arc::new(split.workers.clone()));
        let options = Options { recorded: true, ..options };
        let refused = |error: &KernelEngineError| {
            use KernelEngineError::{Load, Memory};
            matches!(error, Memory(MemoryError::Refused(_)) | Load(LoadError::Refused(_)))
        };
        let loaded = || -> Result<_, KernelEngineError> {
            let memory = SharedMemory::new(&program)?;
            let (loaded, code) = Loaded::with_code(kernel, packets, &memory, options, PortMaps::default())?;
            let beside = (options.hook == Hook::Tc).then(|| Mutex::new(machine_of(&code, &memory, options)));
            let ring =
                kernel.uses_rings().then(|| TapRing::new(&kernel.name)).transpose().map_err(LoadError::System)?;
            loaded.ports().set_rings(&ring).map_err(LoadError::System)?;
            Ok((memory, Runner::Kernel(loaded, ring, beside)))
        };
        let ((memory, runner), refusal) = match loaded() {
            Err(error) if refused(&error) => (interpreted(kernel, &program, packets, options)?, Some(error)),
            result => (result?, None),
        };
        let resume = split.resume.clone();
        Ok(KernelCode { program, memory, runner, refusal, least: least(options), resume })
    }

    /// Compiles a program's part as [`KernelCode::split`] does, for the virtual machine, which takes no privilege.
    pub fn interpreted(split: &Split, packets: Level, options: Options) -> Result<Self, KernelEngineError> {
        let options = Options { recorded: true, ..options };
        let (memory, runner) = interpreted(&split.kernel, &split.workers, packets, options)?;
        let (program, resume) = (Arc::new(split.workers.clone()), split.resume.clone());
        Ok(KernelCode { program, memory, runner, refusal: None, least: least(options), resume })
    }

    /// Whether the virtual machine runs it, in place of the kernel.
    pub fn is_interpreted(&self) -> bool {
        matches!(self.runner, Runner::Machine(..))
    }

    /// Why it does so, where that was not asked for: the kernel lets this process load nothing.
    pub fn refusal(&self) -> Option<&KernelEngineError> {
        self.refusal.as_ref()
    }

    /// Empties tables and counters.
    pub fn clear(&mut self) -> Result<(), MemoryError> {
        self.memory.clear(&self.program)
    }

    /// The form that the kernel took.
    pub fn tier(&self) -> Tier {
        match &self.runner {
            Runner::Kernel(loaded, ..) => loaded.tier(),
            Runner::Machine(tier, _) => *tier,
        }
    }
}

/// Code of `kernel` on the virtual machine, with the tables of `program`.
fn interpreted(
    kernel: &Program,
    program: &Program,
    packets: Level,
    options: Options,
) -> Result<(SharedMemory, Runner), KernelEngineError> {
    let memory = SharedMemory::private(program)?;
    let accepted = bpf::compile_tiered(kernel, packets, memory.memory(), options, bpf::ANYTHING, |object| {
        Ok::<_, Refusal<LoadError>>(object.clone())
    });
    let accepted = accepted.map_err(|misfit| too_much(kernel, misfit))?;
    let machine = machine_of(&accepted, &memory, options);
    Ok((memory, Runner::Machine(accepted.tier, Mutex::new(machine))))
}

/// The virtual machine with code for a memory.
fn machine_of(code: &Accepted<Object>, memory: &SharedMemory, options: Options) -> Machine {
    let parts: Vec<_> = code.parts.iter().map(|(ppf, part)| (ppf.0, part)).collect();
    let mut machine = Machine::of(&code.first, &parts, Map::Borrowed(memory.borrowed()));
    machine.hook = options.hook;
    machine
}

/// Bytes of packets' first fragments at least, where packets may come in several.
fn least(options: Options) -> Option<usize> {
    options.divided().then_some(match options.hook {
        Hook::Xdp => FIRST_FRAGMENT as usize,
        Hook::Tc => SHORTEST,
    })
}

/// The engine.
pub struct KernelEngine {
    code: Arc<KernelCode>,
    slots: usize,
    /// Counters before the batch.
    counted: Vec<u64>,
    /// Packets so far, which decides how the next one is divided.
    packets: u64,
    /// The kernel's test run divides packets.
    divides: bool,
    /// Runs timers, what controllers inject, and what the kernel hands over.
    native: Option<NativeEngine>,
}

impl KernelEngine {
    /// With tables and counters that are empty. `workers` is native code of the other part of a program that was cut in
    /// two: it goes on with what the kernel hands over, and runs the timers and controllers' packets.
    pub fn new(code: Arc<KernelCode>, workers: Option<NativeEngine>) -> Self {
        let slots = CounterSlots::new(&code.program).len();
        KernelEngine { code, slots, counted: vec![0; slots], packets: 0, divides: true, native: workers }
    }

    /// How many bytes of the next packet lie in its first fragment: any number that the kernel's part takes, and of
    /// each fourth packet one that it leaves to workers, where there are some.
    fn first_fragment(&mut self, len: usize, least: usize) -> usize {
        self.packets += 1;
        let any = self.packets.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        match len.checked_sub(least) {
            _ if !self.divides => len,
            // Traffic control leaves none to workers, and its test run divides none.
            _ if least == SHORTEST && !self.packets.is_multiple_of(3) => len,
            _ if least > SHORTEST && self.native.is_some() && self.packets.is_multiple_of(4) => {
                len.min(SHORTEST + any as usize % least)
            }
            Some(more) if more > 0 => least + any as usize % more,
            _ => len,
        }
    }

    /// Goes on with what the kernel has put to a channel, in this frame.
    ///
    /// # Safety
    /// The frame is the context's; metadata and packet are of the code's program.
    unsafe fn go_on(&mut self, context: &mut WorkerContext, frame: u32, channel: u32, metadata: &[u8], packet: &[u8]) {
        let code = self.code.clone();
        let pool = context.pool().clone();
        // SAFETY: promised by the caller.
        unsafe { place(&pool, frame, metadata, packet) };
        let end = match code.program.channels[channel as usize].target {
            // Workers do what the kernel cannot do with the packet as it has it.
            Target::Tx => END_TX,
            Target::Host => END_HOST,
            _ => END_CHANNEL + channel,
        };
        match code.resume.get(channel as usize) {
            // SAFETY: the frame holds a packet as it was received; promised by the caller.
            _ if channel == Program::RX.0 => unsafe {
                let native = self.native.as_mut().expect("native code for what the kernel leaves alone");
                native.run(context, &[frame]);
            },
            // SAFETY: the frame holds a packet with metadata again; promised by the caller.
            Some(Some(channel)) => unsafe { self.inject(*channel, context, &[frame]) },
            _ => context.output(Output { frame, end }),
        }
    }

    /// The program's tables.
    pub fn tables(&self) -> TableAccess {
        TableAccess::Native(self.code.memory.tables().clone())
    }
}

/// Puts a packet with its metadata into a frame.
///
/// # Safety
/// The frame is the caller's, and the metadata is as long as the program says.
unsafe fn place(pool: &FramePool, frame: u32, metadata: &[u8], packet: &[u8]) {
    let room = (pool.frame_size() as usize).checked_sub(packet.len()).expect("frames as in the kernel");
    // SAFETY: promised by the caller; the packet ends within the frame.
    unsafe {
        pool.place(frame, room.min(pool.headroom() as usize), packet.len()).copy_from_slice(packet);
        pool.metadata(frame).copy_from_nonoverlapping(metadata.as_ptr(), metadata.len());
    }
}

impl Engine for KernelEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        let code = self.code.clone();
        let KernelCode { program, memory, runner, least, .. } = &*code;
        let pool = context.pool().clone();
        memory.tables().reclaim();
        memory.set_now(context.now());
        for &frame in frames {
            memory.set_port(LOOPBACK, context.rx_port(frame), None, true);
            // SAFETY: the frame is the caller's and holds a packet. The borrow ends here.
            let packet = unsafe { pool.packet(frame).to_vec() };
            if packet.len() < SHORTEST {
                // No device gives the kernel such a frame.
                context.counters().add(CounterSlots::new(program).drop(DropId::TRUNCATED), 1);
                context.push(frame);
                continue;
            }
            let first = least.map_or(packet.len(), |least| self.first_fragment(packet.len(), least));
            let mut ran = runner.run(&packet, first);
            if first < packet.len() && ran.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
                self.divides = false;
                eprintln!("the kernel's test run divides no packets (Linux 6.18 does): they come in one piece");
                ran = runner.run(&packet, packet.len());
            }
            let ran = ran.unwrap_or_else(|error| panic!("the kernel takes the packet: {error}"));
            assert_ne!(
                ran.verdict,
                Verdict::Aborted as u32,
                "the program found a packet other than it was tested to be"
            );
            for record in runner.take_records() {
                if let Some(Armed { table, entry, .. }) = Armed::read(&record) {
                    context.deadlines().into_iter().for_each(|own| own.arm(table, entry));
                    continue;
                }
                let copy = Tap::read(&record).expect("a copy or a deadline");
                let (punt, metadata, packet) = Punt::read(program, copy).expect("a copy as this program makes it");
                let frame = context.pop_or_refill().expect("a frame for each copy");
                // SAFETY: the frame was just taken from the context; the rest is promised by the caller.
                unsafe { self.go_on(context, frame, punt.channel.into(), metadata, packet) };
            }
            let (end, head) = match memory.end() {
                end if end == Verdict::Drop as u64 => (None, 0),
                end if end == Verdict::Transmit as u64 => (Some(END_TX), 0),
                end if end == Verdict::Pass as u64 => (Some(END_HOST), 0),
                end => (Some(END_CHANNEL + (end - PUNTED) as u32), memory.head() as usize),
            };
            let Some(end) = end else {
                context.push(frame);
                continue;
            };
            let metadata = memory.metadata(program.metadata_size as usize);
            let left = &ran.packet[head..];
            match end.checked_sub(END_CHANNEL) {
                // SAFETY: the frame is the caller's, and the packet and its metadata are as the program left them.
                Some(channel) => unsafe { self.go_on(context, frame, channel, &metadata, left) },
                None => {
                    // SAFETY: as above.
                    unsafe { place(&pool, frame, &metadata, left) };
                    context.output(Output { frame, end });
                }
            }
        }
        for slot in 0..self.slots {
            let now = memory.counter(slot);
            context.counters().add(slot, now.wrapping_sub(self.counted[slot]));
            self.counted[slot] = now;
        }
    }

    unsafe fn inject(&mut self, channel: ChannelId, context: &mut WorkerContext, frames: &[u32]) {
        let native = self.native.as_mut().expect("native code for what controllers inject");
        // SAFETY: promised by the caller; the tables are those of the context.
        unsafe { native.inject(channel, context, frames) }
    }

    unsafe fn timer(&mut self, timer: TimerId, context: &mut WorkerContext, keys: &[u64], calls: u32) {
        let native = self.native.as_mut().expect("native code for timers");
        // SAFETY: as above.
        unsafe { native.timer(timer, context, keys, calls) }
    }
}
