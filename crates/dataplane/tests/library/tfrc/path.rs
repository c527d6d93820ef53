//! A TCP connection over a path, simulated: the sender is paced by the rate control under test, and the receiver is a
//! TCP with selective and delayed acknowledgements. Times are in nanoseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::*;

/// What a rate control is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Sent,
    Limited,
    Lost { packets: u32, sent_at: u64 },
    Feedback { packets: u32, bytes: u32, rtt: u64, delayed: bool },
    Expired,
}

/// What the sender needs of it then.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    pub gap: u64,
    pub timer: u64,
}

pub struct Path {
    pub segment: u16,
    /// Round trips from certain times on, without queueing.
    pub rtts: Vec<(u64, u64)>,
    /// Up to so much is added to each way's time.
    pub jitter: u64,
    /// One in so many packets is lost, evenly or at random; 0: none.
    pub loss: u64,
    pub random: bool,
    /// Nanoseconds between packets that the application has; 0: it has one whenever one may be sent. From certain times
    /// on; `u64::MAX`: none.
    pub application: Vec<(u64, u64)>,
    /// Nanoseconds that a packet takes in the bottleneck, before which 20 packets wait at most; 0: there is none. From
    /// certain times on.
    pub bottleneck: Vec<(u64, u64)>,
    /// From when to when all acknowledgements are lost.
    pub blackout: (u64, u64),
    pub seconds: u64,
}

impl Default for Path {
    fn default() -> Path {
        Path {
            segment: 1316,
            rtts: vec![(0, 100_000_000)],
            jitter: 0,
            loss: 0,
            random: false,
            application: vec![(0, 0)],
            bottleneck: vec![(0, 0)],
            blackout: (0, 0),
            seconds: 60,
        }
    }
}

/// What holds at a time.
fn at(steps: &[(u64, u64)], now: u64) -> u64 {
    steps.iter().rev().find(|(from, _)| *from <= now).expect("from the beginning").1
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Wanted,
    Due,
    Arrives(usize),
    AckTimer(u64),
    Acked(usize),
    LossTimer(u64),
    Timer,
}

/// A packet as it was sent.
struct Sent {
    segment: u64,
    time: u64,
    again: bool,
    delivered: bool,
    lost: bool,
}

struct Ack {
    packets: Vec<usize>,
    delayed: bool,
}

struct Run<'a> {
    path: &'a Path,
    random: SplitMix64,
    now: u64,
    happens: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    order: u64,
    // The sender.
    sent: Vec<Sent>,
    next_segment: u64,
    again: Vec<u64>,
    waiting: u64,
    last_at: Option<u64>,
    first_open: usize,
    most: usize,
    loss_timer: u64,
    control: Control,
    // The bottleneck.
    free_at: u64,
    // The receiver.
    expected: u64,
    early: BTreeMap<u64, ()>,
    told: Vec<usize>,
    pending: u64,
    ack_timer: u64,
    acks: Vec<Ack>,
}

const ACK_DELAY: u64 = 40_000_000;

impl Run<'_> {
    fn plan(&mut self, time: u64, what: Happens) {
        self.order += 1;
        self.happens.push(Reverse((time, self.order, what)));
    }

    fn way(&mut self) -> u64 {
        let jitter = if self.path.jitter == 0 { 0 } else { self.random.below(self.path.jitter) };
        at(&self.path.rtts, self.now) / 2 + jitter
    }

    /// When the next packet may be sent, as the rate now is.
    fn next_at(&self) -> u64 {
        self.last_at.map_or(0, |last| last + self.control.gap.max(1))
    }

    fn greedy(&self) -> bool {
        at(&self.path.application, self.now) == 0
    }

    fn arm_loss_timer(&mut self) {
        self.loss_timer += 1;
        if self.first_open < self.sent.len() {
            let wait = (3 * at(&self.path.rtts, self.now)).max(300_000_000);
            self.plan(self.now + wait, Happens::LossTimer(self.loss_timer));
        }
    }

    /// Sends a packet, if there is one and its time has come.
    fn send(&mut self, tell: &mut dyn FnMut(Event, u64) -> Control) {
        if self.waiting == 0 && self.again.is_empty() && !self.greedy() {
            return;
        }
        if self.now < self.next_at() {
            return;
        }
        let number = self.sent.len();
        let again = !self.again.is_empty();
        let segment = if again { self.again.remove(0) } else { self.next_segment };
        if !again {
            self.next_segment += 1;
            self.waiting = self.waiting.saturating_sub(1);
        }
        self.sent.push(Sent { segment, time: self.now, again, delivered: false, lost: false });
        self.control = tell(Event::Sent, self.now);
        if number == self.first_open {
            self.arm_loss_timer();
        }
        self.last_at = Some(self.now);
        if self.greedy() || self.waiting > 0 || !self.again.is_empty() {
            self.control = tell(Event::Limited, self.now);
        }
        // The way there.
        let lost = match (self.path.loss, self.path.random) {
            (0, _) => false,
            (n, false) => number as u64 % n == n / 2,
            (n, true) => self.random.below(n) == 0,
        };
        let mut leaves = self.now;
        let bottleneck = at(&self.path.bottleneck, self.now);
        if bottleneck != 0 {
            let begins = self.free_at.max(self.now);
            if begins - self.now > 20 * bottleneck {
                return;
            }
            (self.free_at, leaves) = (begins + bottleneck, begins + bottleneck);
        }
        if !lost {
            let arrives = leaves + self.way();
            self.plan(arrives, Happens::Arrives(number));
        }
    }

    fn arrives(&mut self, number: usize) {
        let segment = self.sent[number].segment;
        self.told.push(number);
        if segment != self.expected || !self.early.is_empty() {
            if segment >= self.expected {
                self.early.insert(segment, ());
            }
            while self.early.remove(&self.expected).is_some() {
                self.expected += 1;
            }
            self.acknowledge(false);
            return;
        }
        self.expected += 1;
        self.pending += 1;
        if self.pending == 2 {
            self.acknowledge(false);
        } else {
            self.ack_timer += 1;
            self.plan(self.now + ACK_DELAY, Happens::AckTimer(self.ack_timer));
        }
    }

    fn acknowledge(&mut self, delayed: bool) {
        self.pending = 0;
        self.ack_timer += 1;
        if self.now >= self.path.blackout.0 && self.now < self.path.blackout.1 {
            return;
        }
        self.acks.push(Ack { packets: std::mem::take(&mut self.told), delayed });
        let time = self.now + self.way();
        self.plan(time, Happens::Acked(self.acks.len() - 1));
    }

    fn lose(&mut self, upto: usize, tell: &mut dyn FnMut(Event, u64) -> Control) -> bool {
        let mut any = false;
        for number in self.first_open..upto {
            let packet = &mut self.sent[number];
            if packet.delivered || packet.lost {
                continue;
            }
            packet.lost = true;
            any = true;
            self.again.push(packet.segment);
            self.control = tell(Event::Lost { packets: 1, sent_at: packet.time }, self.now);
        }
        while self.sent.get(self.first_open).is_some_and(|packet| packet.delivered || packet.lost) {
            self.first_open += 1;
        }
        any
    }

    fn acked(&mut self, index: usize, tell: &mut dyn FnMut(Event, u64) -> Control) {
        let Ack { packets, delayed } = &self.acks[index];
        let (packets, delayed) = (packets.clone(), *delayed);
        let (mut count, mut latest) = (0, None);
        for number in packets {
            self.sent[number].delivered = true;
            count += 1;
            latest = latest.max(Some(number));
        }
        let Some(latest) = latest else { return };
        self.most = self.most.max(latest);
        self.lose(self.most.saturating_sub(2), tell);
        let packet = &self.sent[latest];
        let rtt = if packet.again || packet.lost { 0 } else { (self.now - packet.time).max(1) };
        let bytes = count * u32::from(self.path.segment);
        self.control = tell(Event::Feedback { packets: count, bytes, rtt, delayed: delayed && count == 1 }, self.now);
        self.arm_loss_timer();
    }

    fn run(&mut self, tell: &mut dyn FnMut(Event, u64) -> Control) {
        self.plan(0, Happens::Wanted);
        let (mut timer_at, mut due_at) = (0, 0);
        while let Some(Reverse((time, _, what))) = self.happens.pop() {
            if time > self.path.seconds * 1_000_000_000 {
                break;
            }
            self.now = time;
            match what {
                Happens::Wanted => match at(&self.path.application, time) {
                    // Looks again later.
                    0 | u64::MAX => self.plan(time + 50_000_000, Happens::Wanted),
                    between => {
                        if time < self.next_at() {
                            self.control = tell(Event::Limited, time);
                        }
                        // The fifth one that waits is dropped.
                        self.waiting = (self.waiting + 1).min(4);
                        self.plan(time + between, Happens::Wanted);
                    }
                },
                Happens::Due => {}
                Happens::Arrives(number) => self.arrives(number),
                Happens::AckTimer(timer) if timer == self.ack_timer && self.pending > 0 => self.acknowledge(true),
                Happens::AckTimer(_) => {}
                Happens::Acked(index) => self.acked(index, tell),
                Happens::LossTimer(timer) if timer == self.loss_timer => {
                    if self.lose(self.sent.len(), tell) {
                        let nothing = Event::Feedback { packets: 0, bytes: 0, rtt: 0, delayed: false };
                        self.control = tell(nothing, time);
                    }
                    self.arm_loss_timer();
                }
                Happens::LossTimer(_) => {}
                Happens::Timer => {
                    if self.control.timer != 0 && time >= self.control.timer {
                        self.control = tell(Event::Expired, time);
                    }
                }
            }
            self.send(tell);
            if self.next_at() > time && self.next_at() != due_at {
                due_at = self.next_at();
                self.plan(due_at, Happens::Due);
            }
            if self.control.timer != 0 && self.control.timer != timer_at {
                timer_at = self.control.timer;
                self.plan(timer_at.max(time), Happens::Timer);
            }
        }
    }
}

impl Path {
    /// Runs the connection with a rate control, which is told what happens and when.
    pub fn run(&self, tell: &mut dyn FnMut(Event, u64) -> Control, control: Control) {
        let mut run = Run {
            path: self,
            random: SplitMix64(0x9a74),
            now: 0,
            happens: BinaryHeap::new(),
            order: 0,
            sent: Vec::new(),
            next_segment: 0,
            again: Vec::new(),
            waiting: 0,
            last_at: None,
            first_open: 0,
            most: 0,
            loss_timer: 0,
            control,
            free_at: 0,
            expected: 0,
            early: BTreeMap::new(),
            told: Vec::new(),
            pending: 0,
            ack_timer: 0,
            acks: Vec::new(),
        };
        run.run(tell);
    }
}
