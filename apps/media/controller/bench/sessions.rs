//! RTSP sessions of one live stream, each with a connection of its own: how fast they are set up and ended, and what
//! each takes in the proxy's memory.

use std::time::{Duration, Instant};

use super::network::{ENDS_CPU, Network};
use super::origin::Origin;
use super::systems::Millrace;
use super::viewer::Viewer;
use crate::results::Results;
use crate::stream::stay;
use crate::{Effort, text};

/// Sessions, and those of a smoke run.
const SESSIONS: usize = 10_000;
const SMOKE: usize = 200;
/// How long they are kept alive, each by one request in that time.
const KEPT: Duration = Duration::from_secs(60);
/// Open files beside those of sessions.
const OTHERS: u64 = 500;
/// Until the last one is gone.
const PATIENCE: Duration = Duration::from_secs(60);

/// All of it.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let (count, kept) = if effort.quick { (SMOKE, Duration::from_secs(2)) } else { (SESSIONS, KEPT) };
    let files = super::open_files()?;
    if files < count as u64 + OTHERS {
        results.note(format!("sessions: not measured, a process may have {files} open files only"));
        return Ok(());
    }
    let network = Network::new()?;
    let _origin = Origin::start(&network)?;
    let millrace = Millrace::start(&network, false, "")?;
    // The first one sets the stream up, and what there is once only.
    let mut first = network.viewers.enter(|| Viewer::set_up(count)).map_err(text)??;
    let empty = millrace.memory()?;
    let work = || {
        stay(ENDS_CPU, false)?;
        let mut start = Instant::now();
        let mut viewers = (0..count).map(Viewer::set_up).collect::<Result<Vec<_>, _>>()?;
        viewers.iter_mut().try_for_each(Viewer::play)?;
        let set_up = start.elapsed();
        let full = millrace.memory()?;
        start = Instant::now();
        // At half of the timeout of 60 s, as clients do.
        for round in 0..2 {
            first.keep_alive()?;
            for (number, viewer) in viewers.iter_mut().enumerate() {
                let due = kept.mul_f64((f64::from(round) + number as f64 / count as f64) / 2.0);
                std::thread::sleep(due.saturating_sub(start.elapsed()));
                viewer.keep_alive()?;
            }
        }
        std::thread::sleep(kept.saturating_sub(start.elapsed()));
        start = Instant::now();
        viewers.into_iter().try_for_each(Viewer::tear_down)?;
        Ok::<_, String>((set_up, full, start.elapsed()))
    };
    let (set_up, full, torn_down) = network.viewers.enter(work).map_err(text)??;
    let left = |sessions| {
        let start = Instant::now();
        while millrace.metric(&network, "media_sessions")? > sessions {
            if start.elapsed() > PATIENCE {
                return Err("sessions are left".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        millrace.memory()
    };
    let left_once = left(1)?;
    // What the allocator keeps is used again; what nobody frees would be there twice.
    let once_more = || {
        first.keep_alive()?;
        let mut viewers = (0..count).map(Viewer::set_up).collect::<Result<Vec<_>, _>>()?;
        viewers.iter_mut().try_for_each(Viewer::play)?;
        first.keep_alive()?;
        viewers.into_iter().try_for_each(Viewer::tear_down)
    };
    network.viewers.enter(once_more).map_err(text)??;
    let left_twice = left(1)?;
    first.tear_down()?;
    let case = format!("{count} sessions");
    let rate = |time: Duration| vec![count as f64 / time.as_secs_f64()];
    results.add(
        &case,
        "millrace",
        "set_up_per_second",
        "sessions/s, by one client that waits for each answer",
        rate(set_up),
    );
    results.add(&case, "millrace", "torn_down_per_second", "sessions/s", rate(torn_down));
    let each = (full - empty) / count as f64;
    results.add(&case, "millrace", "memory_per_session", "bytes, with its connection", vec![each]);
    for (name, left) in [("memory_left_per_session", left_once), ("memory_left_per_session_twice", left_twice)] {
        results.add(
            &case,
            "millrace",
            name,
            "bytes, of those that were there at once",
            vec![(left - empty) / count as f64],
        );
    }
    millrace.end()
}
