//! The kernel's functions, as far as programs of Millrace and of the benches call them.

use super::{MAPS, Machine, Map, PACKET, RECORD, ROOM, Region, SHIFT};
use crate::kernel::Hook;

/// What functions that could not say (`-EINVAL`).
pub(super) const FAILED: u64 = (-22i64) as u64;

impl Machine {
    /// A function of the kernel.
    pub(super) fn help(&mut self, number: i32, [a, b, c, d, e]: [u64; 5]) -> Result<u64, String> {
        let failed = FAILED;
        if self.hook == Hook::Tc
            && let Some(result) = self.help_with_buffer(number, [b, c, d, e])
        {
            return result;
        }
        Ok(match number {
            1 => {
                let index = (a >> SHIFT) as usize;
                match index.checked_sub(MAPS).and_then(|map| self.maps.get(map)) {
                    Some(Map::Table { key, .. }) => {
                        let key = self.bytes(b, *key)?.to_vec();
                        self.addresses[index - MAPS].get(&key).copied().unwrap_or(0)
                    }
                    // The queue has four bytes, and its ring is the map itself.
                    Some(Map::Rings) => self.load(b, 4).map(|_| a)?,
                    _ => return Err(format!("a look-up in {a:#x}")),
                }
            }
            5 => self.now,
            8 => 0,
            28 => {
                let mut sum = e & u64::from(u32::MAX);
                for (from, len, flip) in [(a, b, u32::MAX), (c, d, 0)] {
                    for at in (0..len).step_by(4) {
                        sum += u64::from(self.load(from + at, 4)? as u32 ^ flip);
                    }
                }
                while sum >> 32 != 0 {
                    sum = (sum & u64::from(u32::MAX)) + (sum >> 32);
                }
                sum
            }
            44 if self.hook == Hook::Xdp => {
                let data = self.data as i64 + i64::from(b as i32);
                if data < 40 || self.first as i64 - data < 14 {
                    return Ok(failed);
                }
                self.data = data as usize;
                0
            }
            65 if self.hook == Hook::Xdp => {
                let (before, end) = (self.end, self.end as i64 + i64::from(b as i32));
                let is_divided = self.first < self.end;
                if end - (self.data as i64) < 14
                    || end > (ROOM - 320) as i64 && !is_divided
                    || is_divided && b as i32 > 0
                {
                    return Ok(failed);
                }
                self.end = end as usize;
                self.first = if is_divided { self.first.min(self.end) } else { self.end };
                if before < self.end {
                    self.regions[PACKET].bytes()[before..end as usize].fill(0);
                }
                0
            }
            51 if self.hook == Hook::Xdp => 4,
            131 => {
                let map = (a >> SHIFT) as usize;
                if !matches!(map.checked_sub(MAPS).and_then(|map| self.maps.get(map)), Some(Map::Rings)) {
                    return Err(format!("a record of {a:#x}"));
                }
                if self.reserved {
                    return Err("a second record before the first is submitted".into());
                }
                if self.records.len() >= self.ring_room {
                    return Ok(0);
                }
                self.reserved = true;
                self.regions[RECORD] = Region::Own(vec![0; b as usize]);
                (RECORD as u64 + 1) << SHIFT
            }
            132 => {
                if !std::mem::take(&mut self.reserved) || a != (RECORD as u64 + 1) << SHIFT {
                    return Err(format!("a record at {a:#x} submitted, which is not reserved"));
                }
                self.wakes += u64::from(b == 2);
                let record = std::mem::replace(&mut self.regions[RECORD], Region::Own(Vec::new()));
                if let Region::Own(record) = record {
                    self.records.push(record);
                }
                0
            }
            188 if self.hook == Hook::Xdp => (self.end - self.data) as u64,
            189 | 190 if self.hook == Hook::Xdp => {
                let at = self.data + (b & u64::from(u32::MAX)) as usize;
                let len = d as usize;
                if at + len > self.end {
                    return Ok(failed);
                }
                if number == 189 {
                    let bytes = self.regions[PACKET].bytes()[at..at + len].to_vec();
                    self.bytes(c, len)?.copy_from_slice(&bytes);
                } else {
                    let bytes = self.bytes(c, len)?.to_vec();
                    self.regions[PACKET].bytes()[at..at + len].copy_from_slice(&bytes);
                }
                0
            }
            other => return Err(format!("calls function {other} of the kernel, which is not here")),
        })
    }
}
