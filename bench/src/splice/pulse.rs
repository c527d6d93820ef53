//! Keeps packets from lying in a veth device. Its receiving side sometimes does not hear of a packet (threaded NAPI, Linux 6.12: the device
//! has counted it as received, and no program has seen it), which then lies there until the next one comes: with one
//! connection at a time, until its sender tries again after a second. So now and then every device gets a frame that nobody wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use lab::{Namespace, RawPort};

use super::network::HOSTS_CPU;
use crate::text;

/// From one frame to the next.
const PAUSE: Duration = Duration::from_millis(2);
/// For a station that is not there, of a type for experiments (IEEE 802).
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[0], frame[5], frame[6], frame[11]) = (2, 0xee, 2, 0xef);
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame
};

/// Sends until it is dropped.
pub struct Pulse {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// From these devices to those at their other ends.
    pub fn start(devices: &[(&Namespace, &str)]) -> Result<Pulse, String> {
        let ports = devices.iter().map(|(end, device)| RawPort::open(end, device).map_err(text));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || {
            // Where it can't be, it is on any.
            let _ = super::pin(0, HOSTS_CPU);
            while !told.load(Ordering::Relaxed) {
                // A device that is full needs none.
                ports.iter().for_each(|port| _ = port.send(&FRAME));
                std::thread::sleep(PAUSE);
            }
        });
        Ok(Pulse { stop, thread: Some(thread) })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
