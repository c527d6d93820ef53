//! Memory for packets under way: buffers of three sizes, taken and given back without asking the allocator.

/// Bytes of a buffer of each class. Most packets of a full link are short or as long as Ethernet allows.
const SIZES: [usize; 3] = [256, 2048, 65536 + 64];
/// Buffers made at once when a class has none left.
const GROWTH: [usize; 3] = [1024, 256, 8];

/// A packet in the pool. Not `Clone`: it is given back once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Packet {
    class: u8,
    index: u32,
    length: u32,
}

impl Packet {
    /// Its length in bytes.
    pub(super) fn len(&self) -> usize {
        self.length as usize
    }
}

#[derive(Default)]
struct Class {
    /// Equal parts, so that no buffer ever moves or is copied when the class grows.
    chunks: Vec<Box<[u8]>>,
    free: Vec<u32>,
}

/// The buffers.
pub(super) struct Pool {
    classes: [Class; 3],
    bytes: usize,
    limit: usize,
}

impl Pool {
    /// An empty pool that grows to `limit` bytes.
    pub(super) fn new(limit: usize) -> Pool {
        Pool { classes: Default::default(), bytes: 0, limit }
    }

    /// Copies a packet, given in parts, into a buffer; `None` when the pool is at its limit or the packet too long.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> Option<Packet> {
        let mut packet = self.take(parts.iter().map(|part| part.len()).sum())?;
        let mut rest = self.bytes_mut(&mut packet);
        for part in parts {
            let (head, tail) = rest.split_at_mut(part.len());
            head.copy_from_slice(part);
            rest = tail;
        }
        Some(packet)
    }

    /// A second packet with the same bytes.
    pub(super) fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        let copy = self.take(packet.len())?;
        let (class, bytes) = (usize::from(packet.class), packet.len());
        let ((from_chunk, from), (to_chunk, to)) = (place(class, packet.index), place(class, copy.index));
        let chunks = &mut self.classes[class].chunks;
        if from_chunk == to_chunk {
            chunks[from_chunk].copy_within(from..from + bytes, to);
        } else {
            let [source, target] = chunks.get_disjoint_mut([from_chunk, to_chunk]).expect("two chunks that both exist");
            target[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
        }
        Some(copy)
    }

    /// The packet's bytes.
    pub(super) fn bytes(&self, packet: &Packet) -> &[u8] {
        let (chunk, at) = place(usize::from(packet.class), packet.index);
        &self.classes[usize::from(packet.class)].chunks[chunk][at..at + packet.len()]
    }

    /// The packet's bytes, to change.
    pub(super) fn bytes_mut(&mut self, packet: &mut Packet) -> &mut [u8] {
        let (chunk, at) = place(usize::from(packet.class), packet.index);
        &mut self.classes[usize::from(packet.class)].chunks[chunk][at..at + packet.len()]
    }

    /// Gives a packet's buffer back.
    pub(super) fn give_back(&mut self, packet: Packet) {
        self.classes[usize::from(packet.class)].free.push(packet.index);
    }

    fn take(&mut self, length: usize) -> Option<Packet> {
        let class = SIZES.iter().position(|&size| length <= size)?;
        if self.classes[class].free.is_empty() {
            self.grow(class);
        }
        let index = self.classes[class].free.pop()?;
        Some(Packet { class: class as u8, index, length: length as u32 })
    }

    #[cold]
    fn grow(&mut self, class: usize) {
        let bytes = SIZES[class] * GROWTH[class];
        if self.bytes + bytes > self.limit {
            return;
        }
        let Class { chunks, free } = &mut self.classes[class];
        let first = (chunks.len() * GROWTH[class]) as u32;
        chunks.push(vec![0; bytes].into_boxed_slice());
        // So that giving back never makes the list grow.
        free.reserve(chunks.len() * GROWTH[class]);
        free.extend((first..first + GROWTH[class] as u32).rev());
        self.bytes += bytes;
    }
}

/// Chunk, and offset in it, of a buffer.
fn place(class: usize, index: u32) -> (usize, usize) {
    let index = index as usize;
    (index / GROWTH[class], index % GROWTH[class] * SIZES[class])
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn packets_keep_their_bytes_until_given_back() {
        let mut pool = Pool::new(256 << 20);
        let packets: Vec<_> = (0..3000usize)
            .map(|i| {
                let byte = [i as u8];
                let body = vec![(i / 256) as u8; i];
                pool.put(&[&byte, &body]).unwrap()
            })
            .collect();
        for (i, packet) in packets.iter().enumerate() {
            let bytes = pool.bytes(packet);
            assert_eq!((bytes.len(), bytes[0]), (i + 1, i as u8));
            assert!(bytes[1..].iter().all(|&byte| byte == (i / 256) as u8));
        }
        let copies: Vec<_> = packets.iter().map(|packet| pool.copy(packet).unwrap()).collect();
        for (packet, copy) in packets.iter().zip(&copies) {
            assert_ne!(packet, copy);
            assert_eq!(pool.bytes(packet), pool.bytes(copy));
        }
    }

    #[test]
    fn the_limit_holds_and_buffers_are_used_again() {
        let mut pool = Pool::new(256 * 1024);
        let packets: Vec<_> = std::iter::from_fn(|| pool.put(&[&[1; 60]])).collect();
        assert_eq!(packets.len(), 1024);
        assert!(pool.put(&[&[0; 1500]]).is_none(), "no memory left for another class");
        for packet in packets {
            pool.give_back(packet);
        }
        assert!(pool.put(&[&[2; 60]]).is_some());
        assert!(pool.put(&[&[0; 70_000]]).is_none(), "longer than any frame");
    }
}
