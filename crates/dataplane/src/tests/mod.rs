mod afpacket;
mod controllers;
mod critical;
mod fanout;
mod pcap;
mod timers;
mod worker;
mod workers;
