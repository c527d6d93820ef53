mod afpacket;
mod critical;
mod fanout;
mod pcap;
mod worker;
mod workers;
