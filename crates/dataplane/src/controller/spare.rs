//! The frames for what a controller injects: those under way and those that lie at hand. Its threads take and return
//! frames one at a time, and the pool's lock is taken for a batch of them.

use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::packets::FramePool;

/// Frames that are taken from the pool, or returned to it, at once.
const BATCH: usize = 32;

/// Free frames at hand, and how many frames are reserved: these, and those that were taken and have not left.
#[derive(Debug)]
pub struct Spare {
    frames: ArrayQueue<u32>,
    /// Half of what may lie here: so many are there when it was filled, and are left when it was too full.
    batch: usize,
    reserved: AtomicU32,
    limit: u32,
}

impl Spare {
    /// For so many frames at most, and at least one.
    pub fn new(limit: u32) -> Self {
        let most = limit.clamp(1, 2 * BATCH as u32) as usize;
        Spare { frames: ArrayQueue::new(most), batch: (most / 2).max(1), reserved: AtomicU32::new(0), limit }
    }

    /// Reserves up to so many; how many it could.
    fn reserve(&self, most: usize) -> usize {
        let more = |reserved: u32| (self.limit - reserved).min(most as u32);
        // Sequentially consistent, and so is `leave`: see `Rings::frame`.
        let result = self.reserved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |reserved| {
            (more(reserved) > 0).then(|| reserved + more(reserved))
        });
        result.map_or(0, |before| more(before) as usize)
    }

    /// Frames that are reserved.
    pub fn reserved(&self) -> u32 {
        self.reserved.load(Ordering::Relaxed)
    }

    /// Says that so many frames that were taken are others' now.
    pub fn leave(&self, frames: u32) {
        self.reserved.fetch_sub(frames, Ordering::SeqCst);
    }

    /// Whether a quarter of the frames can be taken, so that a controller that waits for one gets some at once.
    pub fn has_room(&self) -> bool {
        let reserved = self.reserved.load(Ordering::SeqCst).min(self.limit);
        self.limit - reserved + self.frames.len() as u32 >= (self.limit / 4).max(1)
    }

    /// Reserves room for a frame that the caller has already. What lies at hand goes back to the pool where it takes
    /// the room.
    pub fn reserve_own(&self, pool: &FramePool) -> bool {
        if self.reserve(1) == 1 {
            return true;
        }
        let (mut batch, mut count) = ([0; BATCH], 0);
        while count < self.batch
            && let Some(frame) = self.frames.pop()
        {
            batch[count] = frame;
            count += 1;
        }
        if count == 0 {
            return false;
        }
        pool.put_back(&batch[..count]);
        // The reservation of one of them is the caller's.
        self.leave(count as u32 - 1);
        true
    }

    /// A free frame; none where too many have been taken.
    pub fn take(&self, pool: &FramePool) -> Option<u32> {
        if let Some(frame) = self.frames.pop() {
            return Some(frame);
        }
        let mut batch = [0; BATCH];
        let reserved = self.reserve(self.batch);
        let taken = pool.take(&mut batch[..reserved]);
        self.leave((reserved - taken) as u32);
        let (frame, rest) = batch[..taken].split_first()?;
        for frame in rest {
            // Another thread may have filled it meanwhile.
            if let Err(frame) = self.frames.push(*frame) {
                self.leave(1);
                pool.put_back(&[frame]);
            }
        }
        Some(*frame)
    }

    /// Takes a frame that is not reserved, and returns some to the pool where that is too much.
    pub fn put_back(&self, pool: &FramePool, mut frame: u32) {
        if self.reserve(1) == 1 {
            match self.frames.push(frame) {
                Ok(()) => return,
                Err(back) => frame = back,
            }
            self.leave(1);
        }
        let (mut batch, mut count) = ([frame; BATCH], 1);
        while count < self.batch
            && let Some(frame) = self.frames.pop()
        {
            batch[count] = frame;
            count += 1;
        }
        self.leave(count as u32 - 1);
        pool.put_back(&batch[..count]);
    }

    /// Returns all that lies here to the pool.
    pub fn empty(&self, pool: &FramePool) {
        while let Some(frame) = self.frames.pop() {
            self.leave(1);
            pool.put_back(&[frame]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::FrameConfig;
    use crate::testing::{SplitMix64, forward};

    fn pool() -> FramePool {
        FramePool::new(&forward(), FrameConfig { count: 512, ..FrameConfig::default() }).unwrap()
    }

    /// What workers and a controller do by turns: frames are taken, leave, and others come back.
    #[test]
    fn no_frame_is_lost_and_never_too_many_are_had() {
        let pool = pool();
        for limit in [1, 2, 7, 63, 64, 200] {
            let (spare, mut numbers) = (Spare::new(limit), SplitMix64(limit.into()));
            let (mut taken, mut punted) = (Vec::new(), Vec::new());
            for step in 0..20_000 {
                match numbers.below(4) {
                    0 => taken.extend(spare.take(&pool)),
                    1 => {
                        if let Some(frame) = taken.pop() {
                            // A worker runs it and gives it back.
                            spare.leave(1);
                            pool.put_back(&[frame]);
                        }
                    }
                    2 if punted.len() < 100 => {
                        let mut frame = [0];
                        assert_eq!(pool.take(&mut frame), 1);
                        punted.extend(frame);
                    }
                    _ => punted.pop().into_iter().for_each(|frame| spare.put_back(&pool, frame)),
                }
                let had = pool.count() - pool.free_frames() - punted.len() as u32;
                assert!(had <= limit, "{limit}: {had} at step {step}");
            }
            let mut all = [&taken[..], &punted].concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), taken.len() + punted.len(), "{limit}: a frame was given twice");
            spare.leave(taken.len() as u32);
            all.into_iter().for_each(|frame| spare.put_back(&pool, frame));
            spare.empty(&pool);
            assert_eq!((pool.free_frames(), spare.reserved.into_inner()), (pool.count(), 0), "{limit}");
        }
    }

    #[test]
    fn as_many_as_the_limit_can_be_taken() {
        for limit in [1, 2, 3, 63, 64, 65, 100] {
            let (pool, spare) = (pool(), Spare::new(limit));
            let taken: Vec<u32> = std::iter::from_fn(|| spare.take(&pool)).collect();
            assert_eq!((taken.len(), pool.free_frames()), (limit as usize, pool.count() - limit));
        }
    }

    #[test]
    fn the_pool_is_asked_once_for_many() {
        let (pool, spare) = (pool(), Spare::new(100));
        let asked = |before: u32| u32::from(pool.free_frames() != before);
        // Punted packets that are let go of, and packets that are injected and run.
        let mut times = [0; 2];
        for _ in 0..320 {
            let before = pool.free_frames();
            let frame = spare.take(&pool).unwrap();
            times[0] += asked(before);
            spare.leave(1);
            pool.put_back(&[frame]);
        }
        let mut frames = [0; 320];
        assert_eq!(pool.take(&mut frames), 320);
        for frame in frames {
            let before = pool.free_frames();
            spare.put_back(&pool, frame);
            times[1] += asked(before);
        }
        assert!(times.iter().all(|times| *times <= 12), "{times:?}");
    }

    #[test]
    fn several_threads_take_and_return() {
        let (pool, spare) = (pool(), Spare::new(200));
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (pool, spare) = (&pool, &spare);
                scope.spawn(move || {
                    let (mut held, mut numbers) = (Vec::new(), SplitMix64(seed));
                    let put_back = |frame: u32| {
                        spare.leave(1);
                        spare.put_back(pool, frame);
                    };
                    for _ in 0..50_000 {
                        match numbers.below(2) {
                            0 if held.len() < 64 => held.extend(spare.take(pool)),
                            _ => held.pop().into_iter().for_each(put_back),
                        }
                    }
                    held.into_iter().for_each(put_back);
                });
            }
        });
        spare.empty(&pool);
        let mut all = vec![0; pool.count() as usize];
        assert_eq!(pool.take(&mut all), all.len());
        all.sort_unstable();
        assert!(all.into_iter().eq(0..pool.count()), "each frame is there once");
    }
}
