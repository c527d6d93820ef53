//! RFC 5348 in floating point, as its text has it. Times are in nanoseconds, rates in bytes per second, intervals in
//! packets; histories are kept whole. What the text leaves to a receiver of TFRC, which there is none of here, is as
//! `tcp/tfrc` says.

/// The throughput equation (section 3.1) with b = 1 and t_RTO = 4R; `rtt` in seconds.
pub fn throughput(s: f64, rtt: f64, p: f64) -> f64 {
    let (b, t_rto) = (1.0, 4.0 * rtt);
    s / (rtt * (2.0 * b * p / 3.0).sqrt() + t_rto * (3.0 * (3.0 * b * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p)))
}

/// The average loss interval (section 5.4) of the open interval and those that have ended, the latest first.
pub fn mean_interval(open: f64, ended: &[f64]) -> f64 {
    const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
    let k = ended.len().min(8);
    let total = |intervals: &mut dyn Iterator<Item = f64>| -> f64 {
        intervals.zip(WEIGHTS).take(k).map(|(interval, weight)| interval * weight).sum()
    };
    let with_open = total(&mut std::iter::once(open).chain(ended.iter().copied()));
    let without = total(&mut ended.iter().copied());
    with_open.max(without) / WEIGHTS[..k].iter().sum::<f64>()
}

/// The loss event rate at which the equation gives a rate.
fn loss_rate_of(s: f64, rtt: f64, rate: f64) -> f64 {
    let (mut low, mut high) = (1e-9f64, 1.0f64);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if throughput(s, rtt, middle) > rate { low = middle } else { high = middle }
    }
    low
}

/// The no-feedback timer runs at least so long (not of RFC 5348: acknowledgements may be delayed).
const TIMER_LEAST: f64 = 250e6;

pub struct Model {
    pub s: f64,
    pub x: f64,
    pub x_inst: f64,
    x_bps: f64,
    pub rtt: Option<f64>,
    sample: Option<f64>,
    /// Feedbacks since the last sample that was surely not delayed.
    without_sample: u32,
    sqmean: f64,
    doubled: f64,
    pub timer: Option<f64>,
    /// X_recv_set: rates and when they came.
    received: Vec<(f64, f64)>,
    /// All that was delivered, and when.
    delivered: Vec<(f64, f64)>,
    /// Times of feedbacks since measuring began anew, those that were early replaced by the next.
    feedbacks: Vec<f64>,
    /// All times at which only the rate kept a packet from being sent.
    limited: Vec<f64>,
    covered: f64,
    pub intervals: Vec<f64>,
    pub open: f64,
    event: Option<f64>,
    new_event: bool,
    delivered_since_event: bool,
    sent: bool,
}

impl Model {
    pub fn new(s: f64, rtt: Option<f64>, now: f64) -> Model {
        let mut model = Model {
            s,
            x: s,
            x_inst: s,
            x_bps: 0.0,
            rtt: None,
            sample: None,
            without_sample: 0,
            sqmean: 0.0,
            doubled: now,
            timer: None,
            received: Vec::new(),
            delivered: Vec::new(),
            feedbacks: vec![now],
            limited: Vec::new(),
            covered: now,
            intervals: Vec::new(),
            open: 0.0,
            event: None,
            new_event: false,
            delivered_since_event: false,
            sent: false,
        };
        model.set_timer(now);
        if let Some(rtt) = rtt {
            model.first(rtt, now);
        }
        model
    }

    fn set_timer(&mut self, now: f64) {
        self.timer = Some(now + (4.0 * self.rtt.unwrap_or(0.0)).max(2.0 * self.s / self.x * 1e9).max(TIMER_LEAST));
    }

    fn initial_rate(&self) -> f64 {
        (4.0 * self.s).min((2.0 * self.s).max(4380.0)) / (self.rtt.expect("known") / 1e9)
    }

    /// Section 4.2.
    fn first(&mut self, rtt: f64, now: f64) {
        (self.rtt, self.sqmean, self.sample) = (Some(rtt), rtt.sqrt(), None);
        self.x = self.initial_rate().max(self.s / 64.0);
        self.x_inst = self.x;
        self.doubled = now;
        self.received = vec![(f64::INFINITY, now)];
        (self.delivered, self.feedbacks) = (Vec::new(), vec![now]);
        self.set_timer(now);
    }

    pub fn sent(&mut self, now: f64) {
        if !self.sent {
            self.sent = true;
            self.set_timer(now);
            if now - self.feedbacks.last().expect("one") > self.rtt.unwrap_or(0.0) {
                (self.delivered, self.feedbacks) = (Vec::new(), vec![now]);
            }
        }
    }

    pub fn limited(&mut self, now: f64) {
        self.limited.push(now);
    }

    pub fn lost(&mut self, packets: f64, sent_at: f64) {
        let new = match self.event {
            None => true,
            Some(_) if self.intervals.is_empty() => false,
            Some(event) => self.delivered_since_event && sent_at > event + self.rtt.expect("known"),
        };
        if new {
            if !self.intervals.is_empty() {
                self.intervals.insert(0, self.open);
            }
            (self.open, self.event, self.new_event) = (0.0, Some(sent_at), true);
            self.delivered_since_event = false;
        }
        self.open += packets;
    }

    /// X_recv: what was delivered in the last round trip and since the last feedback.
    fn received_rate(&self, now: f64) -> f64 {
        let rtt = self.rtt.expect("known");
        let last = *self.feedbacks.last().expect("one");
        let (from, time) = if now - last >= rtt {
            (last, now - last)
        } else {
            // Feedbacks that are early do not count: back to one with a round trip behind it.
            let before = self.feedbacks.iter().rev().nth(1).copied().unwrap_or(last);
            (before, (now - before).max(rtt))
        };
        let bytes: f64 = self.delivered.iter().filter(|(time, _)| *time > from).map(|(_, bytes)| bytes).sum();
        bytes / time * 1e9
    }

    pub fn feedback(&mut self, packets: f64, bytes: f64, rtt: Option<f64>, delayed: bool, now: f64) {
        self.open += packets;
        self.delivered_since_event |= bytes > 0.0;
        self.delivered.push((now, bytes));
        if let Some(sample) = rtt {
            let sample = sample.clamp(1e3, 60e9);
            let doubtful = delayed && self.rtt.is_some_and(|rtt| sample > rtt);
            if !doubtful {
                self.without_sample = 0;
            }
            if self.without_sample >= 8 || !doubtful {
                self.sample = Some(sample);
            }
        }
        if self.rtt.is_none() {
            let Some(sample) = self.sample else { return };
            self.first(sample, now);
            if !self.new_event {
                return;
            }
        }
        let last = *self.feedbacks.last().expect("one");
        let some: f64 = self.delivered.iter().filter(|(time, _)| *time > last).map(|(_, bytes)| bytes).sum();
        let old_rtt = self.rtt.expect("known");
        if some == 0.0 || !self.new_event && now - last < old_rtt {
            return;
        }
        let sample = self.sample.take();
        let covered = now - sample.unwrap_or(old_rtt);
        if let Some(sample) = sample {
            self.rtt = Some(0.9 * old_rtt + 0.1 * sample);
            self.sqmean = 0.9 * self.sqmean + 0.1 * sample.sqrt();
        } else {
            self.without_sample += 1;
        }
        let rtt = self.rtt.expect("known");

        let mut x_recv = self.received_rate(now);
        // An early feedback goes on with the same measurement.
        if now - last < rtt && self.feedbacks.len() > 1 {
            self.feedbacks.pop();
        }
        self.feedbacks.push(now);
        let from = self.feedbacks[self.feedbacks.len().saturating_sub(2)];
        self.delivered.retain(|(time, _)| *time > from);

        let finite = |set: &[(f64, f64)]| set.iter().map(|e| e.0).filter(|x| x.is_finite()).fold(0.0, f64::max);
        if self.new_event && self.intervals.is_empty() {
            // Section 6.3.1.
            let target = finite(&self.received).max(x_recv);
            let target = if target == 0.0 { self.s / (2.0 * rtt / 1e9) } else { target };
            self.intervals.push(1.0 / loss_rate_of(self.s, rtt / 1e9, target));
        }

        // Section 4.3, step 4.
        // What X_recv is of: a round trip at least.
        let from = self.covered.min(covered - rtt);
        let data_limited = !self.limited.iter().any(|&time| time > from && time <= covered);
        self.covered = self.covered.max(covered);
        let recv_limit = if data_limited {
            if self.new_event {
                self.received.iter_mut().for_each(|entry| entry.0 /= 2.0);
                x_recv *= 0.85;
            }
            self.received = vec![(finite(&self.received).max(x_recv), now)];
            self.received[0].0 * if self.new_event { 1.0 } else { 2.0 }
        } else {
            self.received.push((x_recv, now));
            self.received.retain(|(_, time)| now - time <= 2.0 * rtt);
            2.0 * self.received.iter().map(|entry| entry.0).fold(0.0, f64::max)
        };
        if !self.intervals.is_empty() {
            self.x_bps = throughput(self.s, rtt / 1e9, 1.0 / mean_interval(self.open, &self.intervals).max(1.0));
            self.x = self.x_bps.min(recv_limit).max(self.s / 64.0);
        } else if now - self.doubled >= rtt {
            self.x = (2.0 * self.x).min(recv_limit).max(self.initial_rate()).max(self.s / 64.0);
            self.doubled = now;
        }
        self.x_inst = sample.map_or(self.x, |sample| self.x * self.sqmean / sample.sqrt()).max(self.s / 64.0);
        (self.new_event, self.sent) = (false, false);
        self.set_timer(now);
    }

    /// Section 4.4.
    pub fn expired(&mut self, now: f64) {
        let idle = !std::mem::take(&mut self.sent);
        let x_recv = self.received.iter().map(|entry| entry.0).fold(0.0, f64::max);
        let recover_rate = if self.rtt.is_some() { self.initial_rate() } else { f64::INFINITY };
        let lossless = self.intervals.is_empty();
        if idle && (!lossless && x_recv < recover_rate || lossless && self.x < 2.0 * recover_rate) {
            self.timer = None;
            return;
        }
        if lossless {
            self.x = (self.x / 2.0).max(self.s / 64.0);
        } else {
            let timer_limit = if self.x_bps > 2.0 * x_recv { x_recv } else { self.x_bps / 2.0 }.max(self.s / 64.0);
            self.received = vec![(timer_limit / 2.0, now)];
            self.x = self.x_bps.min(timer_limit).max(self.s / 64.0);
        }
        self.x_inst = self.x;
        self.set_timer(now);
    }
}
