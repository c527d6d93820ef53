mod afpacket;
mod controllers;
mod fanout;
mod pcap;
mod timers;
mod worker;
mod workers;
