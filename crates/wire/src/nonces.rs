//! Nonces of Digest (RFC 7616 section 3.3) for clients that have several connections. A nonce says itself when it was
//! made and for whom, with a code that only its maker can make (section 5.4); so nothing is kept of those that prove
//! nothing. Of those that have proven something the counts are kept, so that no proof counts twice.

use std::collections::HashMap;
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

use siphasher::sip::SipHasher24;

/// How long a nonce may be used.
const LIFETIME: Duration = Duration::from_secs(300);
/// Nonces that have proven something and are known at most.
const MOST: usize = 16384;
/// How far a count may be behind the highest one: requests overtake each other on several connections.
const WINDOW: u32 = 64;

/// See the module.
#[derive(Debug)]
pub struct Nonces {
    secret: (u64, u64),
    /// Those that were made.
    made: u32,
    /// When each was made that has proven something, its highest count, and which of the [`WINDOW`] before that were
    /// there.
    used: HashMap<String, (Duration, u32, u64)>,
    /// Those that were made before are of no use: what was known of them was forgotten.
    forgotten: Duration,
}

impl Nonces {
    /// With a secret that can't be guessed.
    pub fn new(secret: (u64, u64)) -> Nonces {
        Nonces { secret, made: 0, used: HashMap::new(), forgotten: Duration::ZERO }
    }

    /// A new one for a client.
    pub fn make(&mut self, client: IpAddr, now: Duration) -> String {
        self.made = self.made.wrapping_add(1);
        // A monotonic clock in milliseconds has no more than 64 bits.
        self.text(now.as_millis() as u64, self.made, client)
    }

    fn text(&self, time: u64, number: u32, client: IpAddr) -> String {
        let mut hasher = SipHasher24::new_with_keys(self.secret.0, self.secret.1);
        hasher.write(b"nonce");
        hasher.write(&time.to_be_bytes());
        hasher.write(&number.to_be_bytes());
        match client.to_canonical() {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
        format!("{time:016x}{number:08x}{:016x}", hasher.finish())
    }

    /// Whether a proof counts: its nonce is the client's, not too old, and was not used with this count. `count`: none
    /// where the client does not count (RFC 2069). To be asked only of proofs that are right otherwise.
    pub fn takes(&mut self, nonce: &str, count: Option<u32>, client: IpAddr, now: Duration) -> bool {
        let digits = |from: usize, to: usize| u64::from_str_radix(nonce.get(from..to)?, 16).ok();
        let (Some(time), Some(number)) = (digits(0, 16), digits(16, 24)) else { return false };
        let since = Duration::from_millis(time);
        let is_over = since < self.forgotten || now.saturating_sub(since) >= LIFETIME;
        if is_over || self.text(time, number as u32, client) != nonce {
            return false;
        }
        let Some(count) = count else { return true };
        if let Some((_, highest, seen)) = self.used.get_mut(nonce) {
            return follows(count, highest, seen);
        }
        if self.used.len() >= MOST {
            // Clients with one of the older half are asked for another proof.
            let mut times: Vec<Duration> = self.used.values().map(|(since, ..)| *since).collect();
            times.sort_unstable();
            self.forgotten = times[times.len() / 2] + Duration::from_millis(1);
            self.used.retain(|_, (since, ..)| *since >= self.forgotten);
            return since >= self.forgotten && self.takes(nonce, Some(count), client, now);
        }
        self.used.insert(nonce.to_owned(), (since, count, 0));
        true
    }
}

/// Whether a count was not there yet, as far as that is known; it is from now on.
fn follows(count: u32, highest: &mut u32, seen: &mut u64) -> bool {
    if count > *highest {
        let step = count - *highest;
        // The one that was the highest is one step behind, and so on.
        *seen = if step >= WINDOW { 0 } else { *seen << step } | 1u64.checked_shl(step - 1).unwrap_or(0);
        *highest = count;
        return true;
    }
    let behind = *highest - count;
    let bit = behind.checked_sub(1).and_then(|at| 1u64.checked_shl(at)).unwrap_or(0);
    if bit == 0 || *seen & bit != 0 {
        return false;
    }
    *seen |= bit;
    true
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nonces_are_of_a_client_and_a_time() {
        let mut own = Nonces::new((1, 2));
        let [one, other] = [address("10.0.0.1"), address("10.0.0.2")];
        let nonce = own.make(one, 100 * SECOND);
        assert_ne!(nonce, own.make(one, 100 * SECOND));
        assert!(!own.takes(&nonce, None, other, 101 * SECOND) && own.takes(&nonce, None, one, 101 * SECOND));
        assert!(own.takes(&nonce, None, address("::ffff:10.0.0.1"), 399 * SECOND));
        assert!(!own.takes(&nonce, None, one, 400 * SECOND));
        assert!(!Nonces::new((1, 3)).takes(&nonce, None, one, 101 * SECOND));
        for text in [
            "",
            "x",
            &nonce[1..],
            &format!("{nonce}0"),
            &nonce.to_uppercase().replace('0', "1"),
            "é".repeat(20).as_str(),
        ] {
            assert!(!own.takes(text, None, one, 101 * SECOND), "{text}");
        }
        // Who proves nothing takes no room, and who does is bounded.
        assert!(own.used.is_empty());
        let at = |step: usize| 100 * SECOND + Duration::from_millis(step as u64);
        let all: Vec<String> = (0..=MOST).map(|step| own.make(one, at(step))).collect();
        assert!(all.iter().all(|nonce| own.takes(nonce, Some(1), one, at(MOST))));
        assert!(own.used.len() <= MOST / 2 + 1, "{}", own.used.len());
        // What was forgotten proves nothing again.
        assert!(all.iter().all(|nonce| !own.takes(nonce, Some(1), one, at(MOST))));
        assert!(own.takes(&all[MOST], Some(2), one, at(MOST)) && !own.takes(&all[0], Some(2), one, at(MOST)));
    }

    proptest! {
        /// Each count counts once, in whatever order, as long as it is not far behind.
        #[test]
        fn counts_count_once(counts in prop::collection::vec(1..200u32, 0..200)) {
            let mut own = Nonces::new((1, 2));
            let client = address("2001:db8::1");
            let nonce = own.make(client, SECOND);
            let mut seen = BTreeSet::new();
            for count in counts {
                let highest = seen.last().copied().unwrap_or(count);
                let expected = !seen.contains(&count) && highest.saturating_sub(count) <= WINDOW;
                prop_assert_eq!(own.takes(&nonce, Some(count), client, SECOND), expected, "{} of {:?}", count, seen);
                if expected {
                    seen.insert(count);
                }
            }
        }
    }
}
