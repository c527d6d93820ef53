//! Random Baker programs, valid by construction: whatever is written is of the right type, every handle is consumed
//! exactly once on every path, every pointer is tested, every loop has a bound, channels form no circle.

mod body;
mod bytes;
mod expr;
mod groups;
mod library;
mod loops;
mod packet;
mod protocol;
mod repair;
mod stmt;
mod text;
mod types;
mod world;

use crate::numbers::SplitMix64;

pub use world::Header;

/// What programs are written with that neither their operations nor their effects show.
pub const CONSTRUCTS: [&str; 9] = [
    "a table of another module",
    "a function of the library",
    "a protocol of the library",
    "a call while an entry is locked",
    "break while an entry is locked",
    "continue while an entry is locked",
    "another header in the place of one",
    "the sum of a payload",
    "an element found at run time",
];

/// A program and what the maker of packets wants to know of it.
pub struct Generated {
    pub text: String,
    /// Headers by protocol; the first is that of received frames.
    pub headers: Vec<Header>,
    /// How often each of [`CONSTRUCTS`] is in it.
    pub constructs: [u64; CONSTRUCTS.len()],
}

/// What programs may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// All that there is.
    Any,
    /// What can run in the kernel.
    Kernel,
    /// The same in short.
    SmallKernel,
}

impl Style {
    /// Whether it runs in the kernel.
    pub fn is_kernel(self) -> bool {
        self != Style::Any
    }
}

/// The program of a seed.
pub fn program(seed: u64, style: Style) -> Generated {
    // Where checksums can't be made to be kept, another program takes its place.
    let attempts = (0..100u64).map(|attempt| seed ^ attempt << 40);
    attempts.into_iter().find_map(|seed| attempt(seed, style)).expect("one of many programs can be repaired")
}

fn attempt(seed: u64, style: Style) -> Option<Generated> {
    let mut numbers = SplitMix64::new(seed);
    let mut world = world::World::random(&mut numbers, style);
    for module in 0..world.modules.len() {
        world.modules[module].functions = (0..numbers.below(2)).collect();
    }
    if world.imports.ipv4 {
        world.note("a protocol of the library");
    }
    world.functions = world.imports.functions(&world.protocols);
    // They have no text here.
    let mut functions = vec![String::new(); world.functions.len()];
    // Global functions first: those of modules, and PPFs, call them.
    for _ in 0..numbers.range(1, 3) {
        let function = body::function(&world, &mut numbers, None);
        functions.push(function.1);
        world.functions.push(function.0);
    }
    for module in 0..world.modules.len() {
        let count = world.modules[module].functions.len();
        world.modules[module].functions.clear();
        for _ in 0..count {
            let function = body::function(&world, &mut numbers, Some(module));
            functions.push(function.1);
            world.modules[module].functions.push(world.functions.len());
            world.functions.push(function.0);
        }
    }
    let bodies: Vec<String> = (0..world.ppfs.len()).map(|ppf| body::ppf(&world, &mut numbers, ppf)).collect();
    let timers = |module: usize, numbers: &mut SplitMix64| -> Vec<String> {
        let count = world.modules[module].timers.len();
        (0..count).map(|timer| body::timer(&world, numbers, module, timer)).collect()
    };
    let timers: Vec<_> = (0..world.modules.len()).map(|module| timers(module, &mut numbers)).collect();
    let text = text::program(&world, &mut numbers, &functions, &bodies, &timers);
    let text = repair::repaired(text, &world)?;
    let has_groups = style == Style::Any && seed.is_multiple_of(4);
    let with_groups = has_groups.then(|| groups::grouped(&text, &mut numbers)).flatten();
    let text = with_groups.unwrap_or(text);
    let constructs = CONSTRUCTS.map(|name| world.constructs.borrow().get(name).copied().unwrap_or(0));
    Some(Generated { text, headers: world.headers(), constructs })
}
