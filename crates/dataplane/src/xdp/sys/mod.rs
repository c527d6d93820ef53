//! The system calls that programs in the kernel take: bpf(2), as far as it is needed, and those of its file system.

mod call;
mod file_system;
mod instruction;
mod link;
mod map;
mod program;
pub mod verification;

pub use call::{number, object_id};
pub use file_system::{enter_mounts, is_bpf_fs, mount_bpf_fs, pin, pinned, unmount};
pub use instruction::{EXIT, OF_MAP, OF_VALUE, TC_NEXT, XDP_PASS, instruction};
pub use link::{at_ingress, link_create, link_create_first, link_info, link_update, links_detach};
pub use map::{
    MMAPABLE, MapType, array_of_maps, map_create, map_delete, map_of_maps, map_update, map_update_first, ring_create,
    set_create, set_insert, set_remove, text_map, text_of_map,
};
pub use program::{FRAGS, prog_load, send_live, test_run, trace, tracer_load};
