//! Maps whose keys strangers choose, from packet to packet.

use std::collections::HashMap;

/// Hashed with a random key of the process, as the standard library's are, so that no sender can choose keys that
/// collide; in a fraction of the time.
pub type KeyedMap<K, V> = HashMap<K, V, ahash::RandomState>;
