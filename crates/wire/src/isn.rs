//! Initial sequence numbers of Millrace's own connections to servers (RFC 6528): a host that does not know the secret
//! guesses none, whatever others it has seen, and those of the same flow key grow with time, so that a server can tell
//! a new connection from the last.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::flow_key::FlowKey;

/// They go up by one in this time, in nanoseconds (RFC 9293 section 3.4.1).
const TICK: u64 = 4000;

/// The number that a connection begins at whose segments to a server have this flow key, at a time.
pub fn initial(secret: (u64, u64), flow_key: &FlowKey, now: u64) -> u32 {
    let mut hasher = SipHasher24::new_with_keys(secret.0, secret.1);
    // The cookies' hashes with the same secret are of words, and so of other lengths.
    hasher.write(b"isn");
    hasher.write(&flow_key.src.octets());
    hasher.write(&flow_key.dst.octets());
    hasher.write(&flow_key.src_port.to_be_bytes());
    hasher.write(&flow_key.dst_port.to_be_bytes());
    (hasher.finish() as u32).wrapping_add((now / TICK) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow_key(dst_port: u16) -> FlowKey {
        let [src, dst] = ["::ffff:10.0.2.254", "::ffff:10.0.2.11"].map(|address| address.parse().unwrap());
        FlowKey { src, dst, src_port: 1024, dst_port }
    }

    /// Computed apart from this, by the definition of SipHash-2-4.
    const EXPECTED: u32 = 4_244_861_085;

    #[test]
    fn numbers_are_those_of_the_secret_and_the_clock() {
        assert_eq!(initial((1, 2), &flow_key(80), 0), EXPECTED);
        assert_eq!(initial((1, 2), &flow_key(80), 4000 * 7 + 3999), EXPECTED.wrapping_add(7));
        assert_eq!(initial((1, 2), &flow_key(80), 4000 << 32), EXPECTED);
        assert_ne!(initial((1, 3), &flow_key(80), 0), EXPECTED);
        // The distance between the numbers of two connections says nothing of the next.
        let of = |port| initial((1, 2), &flow_key(port), 0);
        let steps: std::collections::HashSet<u32> =
            (80..1080).map(|port| of(port + 1).wrapping_sub(of(port))).collect();
        assert_eq!(steps.len(), 1000);
    }
}
