mod afpacket;
mod pcap;
mod worker;
