//! Thin wrappers around the system calls that the data plane needs. They know nothing of packets, tables or programs.

mod call;
mod clock;
mod cpu;
mod doorbell;
pub mod ethtool;
mod interface;
mod mapping;
mod messages;
mod multicast;
mod packet_socket;
mod process;
mod repeated;
mod tap;

pub use call::{check, set_option};
pub use clock::{monotonic_ns, nanoseconds_of_tick, thread_cpu_ns};
pub use cpu::{allowed_cpus, pin_to_cpu, possible_cpus};
pub use doorbell::{Doorbell, poll};
pub use interface::{
    ETHERNET, Interface, TAG, TAG_AT, inet_socket, interface, interface_name, interface_request, is_ethernet, set_up,
};
pub use mapping::{Mapping, page_size};
pub use messages::{Messages, unsent_bytes};
pub use multicast::join_group;
pub use packet_socket::{
    bind_packet, bind_to_send, bound_interface, keep_out, kick, let_in, packet_option, packet_socket,
    packet_statistics, promiscuous, put_in_place, receive_long, take_socket_error, tell_unfinished,
};
pub use process::{effective_user, enter_network, give_way, is_linux_from, is_trusted, panic_text, wake_on_time};
pub(crate) use repeated::Repeated;
pub use tap::open_tap;
