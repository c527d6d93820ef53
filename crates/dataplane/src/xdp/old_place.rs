//! Names in the state's own directory, where earlier versions of Millrace had them: `bpf` in it was a BPF file system
//! with links and programs as [`super::pins`] has them, and `kernel-N.tables` said where the tables of program N lie.
//! What is still there is named anew.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use super::bpf_fs::c_path;
use super::pins::{Named, Pins};
use super::sys;

const OBJECTS: [&str; 5] = ["program", "memory", "devices", "sockets", "parts"];

/// Names here what is named in a state's directory, and nothing there any more.
pub fn take_over(pins: &Pins, state: &Path) -> io::Result<()> {
    let old = state.join("bpf");
    let is_mounted = old.is_dir() && sys::is_bpf_fs(&c_path(&old)?)?;
    let names = |dir: &Path| -> Vec<String> {
        fs::read_dir(dir).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    };
    if is_mounted {
        let (links, programs): (Vec<_>, Vec<_>) = names(&old).into_iter().partition(|name| name.starts_with("link-"));
        for program in &programs {
            let Ok(tables) = fs::read_to_string(state.join(format!("kernel-{program}.tables"))) else { continue };
            let object =
                |name: &'static str| Some((name, sys::pinned(&c_path(&old.join(program).join(name)).ok()?).ok()?));
            let objects: Vec<(&str, OwnedFd)> = OBJECTS.into_iter().filter_map(object).collect();
            pins.name(&Named { objects: objects.iter().map(|(name, object)| (*name, object)).collect(), tables })?;
        }
        // Links come last: whenever this process dies, what they run is named.
        for (link, interface) in links.iter().filter_map(|link| Some((link, link.strip_prefix("link-")?.parse().ok()?)))
        {
            pins.set_link(interface, &sys::pinned(&c_path(&old.join(link))?)?)?;
        }
        sys::unmount(&c_path(&old)?)?;
    }
    // It is empty, or not ours.
    let _ = fs::remove_dir(&old);
    let described = |name: &String| name.starts_with("kernel-") && name.ends_with(".tables");
    names(state).iter().filter(|name| described(name)).try_for_each(|name| fs::remove_file(state.join(name)))
}
