mod afpacket;
mod fanout;
mod pcap;
mod worker;
mod workers;
