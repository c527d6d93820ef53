//! What compiled code depends on, as a number of 256 bits.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use inkwell::support::get_llvm_version;
use sha2::{Digest, Sha256};

use super::library;

/// The name of something that is kept: the hash of all that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub(super) [u8; 32]);

impl Key {
    /// Of what is made of these inputs by this compiler. `what`: what is made.
    pub(crate) fn new(what: &str, inputs: impl Hash) -> Key {
        let mut hash = Collector::default();
        compiler().hash(&mut hash);
        what.hash(&mut hash);
        inputs.hash(&mut hash);
        Key(hash.all.chain_update(&hash.last).finalize().into())
    }

    /// As the name of a file.
    pub(super) fn name(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// This compiler: its sources, and the LLVM that it runs with.
fn compiler() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| format!("{} LLVM {:?} {}", env!("COMPILER"), get_llvm_version(), library::describe()))
}

/// What `Hash` gives, hashed by SHA-256: another value has another hash, by all that is known.
#[derive(Default)]
struct Collector {
    all: Sha256,
    last: Vec<u8>,
}

impl Hasher for Collector {
    fn write(&mut self, bytes: &[u8]) {
        self.last.extend(bytes);
        if self.last.len() >= 1 << 14 {
            self.all.update(&self.last);
            self.last.clear();
        }
    }

    fn finish(&self) -> u64 {
        unreachable!("only whole hashes are taken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_changes_with_each_input() {
        let long = vec![7u8; 1 << 15];
        let mut other = long.clone();
        let keys = [
            Key::new("a", (1, "x")),
            Key::new("b", (1, "x")),
            Key::new("a", (2, "x")),
            Key::new("a", (1, "y")),
            Key::new("a", &long),
            Key::new("a", {
                other[3] ^= 1;
                &other
            }),
        ];
        for (n, key) in keys.iter().enumerate() {
            assert!(keys[..n].iter().all(|other| other != key), "{n}");
        }
        assert_eq!(Key::new("a", (1, "x")), keys[0]);
        assert_eq!(keys[0].name().len(), 64);
    }
}
