#!/usr/bin/env python3
"""Makes packets.txt: packets built by scapy, values decoded by tshark. The test itself needs neither.

Usage: make.py > packets.txt
"""

import ipaddress
import struct
import subprocess
import sys
import tempfile

from scapy.all import (
    ARP, DNS, DNSQR, DNSRR, GRE, ICMP, IP, TCP, UDP, VXLAN, Dot1AD, Dot1Q, Ether, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest,
    ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Padding, Raw, wrpcap,
)
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.igmp import IGMP
from scapy.contrib.igmpv3 import IGMPv3, IGMPv3gr, IGMPv3mq, IGMPv3mr
from scapy.contrib.mpls import MPLS
from scapy.utils6 import in6_mactoifaceid

ETHER = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")
A4, B4, C4 = "192.0.2.1", "198.51.100.7", "203.0.113.200"
A6, B6, C6 = "2001:db8::1", "2001:db8:1::ffff:7", "fd00:1234::abcd"
DECODE = ["-d", "udp.port==5004,rtp", "-d", "udp.port==5005,rtcp"]
CHECK = [f"{p}.check_checksum:TRUE" for p in ("ip", "tcp", "udp")]


def number(text):
    """A value as tshark prints it."""
    if text in ("True", "False"):
        return int(text == "True")
    if text.count(":") == 5 and len(text) == 17:
        return int(text.replace(":", ""), 16)
    if ":" in text or text.count(".") == 3:
        return int(ipaddress.ip_address(text))
    return int(text, 0)


def decoded(packet, field):
    """The value of a field, `field#n` for its n-th occurrence."""
    name, _, index = field.partition("#")
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        wrpcap(file.name, [packet])
        prefs = [arg for pref in CHECK for arg in ("-o", pref)]
        command = ["tshark", "-r", file.name, *DECODE, *prefs, "-T", "fields", "-E", "aggregator=;", "-e", name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    values = text.split(";")
    if not text:
        sys.exit(f"tshark shows no {name} in {packet!r}")
    return number(values[int(index or 1) - 1])


def read(name, imports, packet, peeks, fields=(), values=()):
    """A packet whose fields are read. `fields`: expression and tshark's field; `values`: expression and number."""
    data = bytes(packet)
    # What scapy computed is in the bytes.
    packet = Ether(data)
    print(f"\nread {name}\nimport {imports}\nin {data.hex()}")
    for line in peeks:
        print(f"  {line}")
    for expression, field in fields:
        print(f"is {decoded(packet, field)} {expression}")
    for expression, value in values:
        print(f"is {value} {expression}")


def write(name, imports, packet, expected, body):
    """A packet that a PPF changes, and what scapy makes of the change."""
    print(f"\nwrite {name}\nimport {imports}\nin {bytes(packet).hex()}\nout {bytes(expected).hex()}")
    for line in body.strip().splitlines():
        print(f"  {line.strip()}")


def peek(protocol, name, of, offset=None):
    return f"{protocol}_packet_t *{name} = packet_peek({of}{'' if offset is None else f', {offset}'});"


def corrupted(packet, at, by=1):
    data = bytearray(bytes(packet))
    data[at] ^= by
    return Ether(bytes(data))


IP4 = peek("ipv4", "ip", "ether")
IP6 = peek("ipv6", "ip", "ether")
SUM4 = "ipv4_pseudo_sum(ip->src, ip->dst, {0}, packet_length({1}))"
SUM6 = "ipv6_pseudo_sum(ip->src, ip->dst, {0}, packet_length({1}))"
TCP_OPTIONS = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (123456, 7890)), ("NOP", None), ("WScale", 7)]

print("# Made by make.py with scapy and tshark. Blocks: what is read from a packet, or how a PPF changes it.")

# ---- VLAN
tagged = ETHER / Dot1Q(vlan=100, prio=5, id=1) / IP(src=A4, dst=B4) / UDP(sport=1000, dport=2000) / Raw(b"hello")
fields = [("tag->pcp", "vlan.priority"), ("tag->dei", "vlan.dei"), ("tag->vid", "vlan.id"), ("tag->type", "vlan.etype"),
          ("ip->ttl", "ip.ttl"), ("ip->src", "ip.src")]
read("vlan", "net/vlan net/ipv4", tagged, [peek("vlan", "tag", "ether"), peek("ipv4", "ip", "tag")], fields,
     [("vlan_is_tag(ether->type)", 1), ("vlan_is_tag(tag->type)", 0)])
double = ETHER / Dot1AD(vlan=7, prio=1) / Dot1Q(vlan=4094) / IP(src=A4, dst=B4) / UDP() / Raw(b"x")
read("qinq", "net/vlan", double, [peek("vlan", "outer", "ether"), peek("vlan", "inner", "outer")],
     [("outer->vid", "ieee8021ad.id"), ("outer->pcp", "ieee8021ad.priority"), ("inner->vid", "vlan.id"),
      ("inner->type", "vlan.etype")], [("vlan_is_tag(ether->type)", 1), ("vlan_is_tag(outer->type)", 1)])

# ---- IPv4
options = ETHER / IP(src=A4, dst=B4, ttl=9, id=513, tos=0xb9, flags="DF", options=[b"\x94\x04\x00\x00"]) / UDP(
    sport=53, dport=5353) / Raw(b"odd")
ip_fields = [(f"ip->{ours}", f"ip.{theirs}") for ours, theirs in [
    ("version", "version"), ("dscp", "dsfield.dscp"), ("ecn", "dsfield.ecn"), ("total_length", "len"),
    ("identification", "id"), ("ttl", "ttl"), ("protocol", "proto"), ("checksum", "checksum"), ("src", "src"),
    ("dst", "dst")]]
read("ipv4_options", "net/udp net/ipv4", options, [IP4, peek("udp", "udp", "ip")],
     ip_fields + [("ipv4_checksum_ok(ip)", "ip.checksum.status"), ("udp->dst_port", "udp.dstport")],
     [("ip->ihl", 6), ("ip->flags & IPV4_DONT_FRAGMENT", 2), ("ipv4_is_fragment(ip)", 0), ("ipv4_padding(ip)", 0)])
read("ipv4_bad_option", "net/ipv4", corrupted(options, 34), [IP4], [("ipv4_checksum_ok(ip)", "ip.checksum.status")])
read("ipv4_padding", "net/ipv4", ETHER / IP(src=A4, dst=B4, proto=253) / Raw(b"abc") / Padding(b"\x55" * 20), [IP4], [],
     [("ipv4_padding(ip)", 20), ("packet_length(ip)", 43)])
read("ipv4_fragment", "net/ipv4", ETHER / IP(src=A4, dst=B4, frag=185, flags="MF") / Raw(b"abcdefgh"), [IP4],
     [("ip->fragment_offset", "ip.frag_offset")], [("ipv4_is_fragment(ip)", 1)])

# ---- IPv6
ip6 = ETHER / IPv6(src=A6, dst=B6, hlim=63, fl=0xabcde, tc=0xb9)
plain6 = ip6 / UDP(sport=546, dport=547) / Raw(b"dhcp!")
ip6_fields = [(f"ip->{ours}", f"ipv6.{theirs}") for ours, theirs in [
    ("version", "version"), ("dscp", "tclass.dscp"), ("ecn", "tclass.ecn"), ("flow_label", "flow"),
    ("payload_length", "plen"), ("next_header", "nxt"), ("hop_limit", "hlim"), ("src", "src"), ("dst", "dst")]]
UPPER = [("ipv6_upper(ip).protocol", 17), ("ipv6_upper(ip).offset", 40), ("ipv6_upper(ip).complete", 1),
         ("ipv6_upper(ip).fragment", 0)]
read("ipv6", "net/ipv6 net/udp net/ipv4", plain6, [IP6, peek("udp", "udp", "ip")],
     ip6_fields + [("udp->length", "udp.length"), ("udp->checksum", "udp.checksum"),
                   ("checksum_ok(udp, " + SUM6.format("IP_PROTO_UDP", "udp") + ")", "udp.checksum.status")],
     UPPER + [("ipv6_padding(ip)", 0), ("ipv6_source_is_martian(ip->src)", 0), ("ipv6_is_multicast(ip->dst)", 0)])
stack = (IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 10)]) / IPv6ExtHdrRouting(addresses=[C6])
         / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(id=77))
deep = ip6 / stack / TCP(sport=80, dport=4000, flags="SA", seq=1, ack=2)
before = len(bytes(ip6 / stack)) - 14
read("ipv6_extensions", "net/ipv6 net/tcp", deep,
     [IP6, "ipv6_upper_t upper = ipv6_upper(ip);", peek("tcp", "tcp", "ip", "upper.offset"),
      peek("ipv6_options", "first", "ip"), peek("ipv6_options", "second", "first")],
     [("first->next_header", "ipv6.hopopts.nxt"), ("first->length", "ipv6.hopopts.len"),
      ("second->next_header", "ipv6.routing.nxt"), ("second->length", "ipv6.routing.len"),
      ("tcp->dst_port", "tcp.dstport"), ("tcp->flags", "tcp.flags")],
     [("upper.offset", before), ("upper.protocol", 6), ("upper.complete", 1), ("upper.fragment", 1)])
later = ip6 / IPv6ExtHdrFragment(id=77, offset=100, m=1) / Raw(b"later part")
read("ipv6_later_fragment", "net/ipv6", later, [IP6, "ipv6_upper_t upper = ipv6_upper(ip);",
                                               peek("ipv6_fragment", "fragment", "ip")],
     [("fragment->fragment_offset", "ipv6.fraghdr.offset"), ("fragment->more_fragments", "ipv6.fraghdr.more"),
      ("fragment->identification", "ipv6.fraghdr.ident")],
     [("upper.complete", 0), ("upper.fragment", 1)])
cut = Ether(bytes(ip6 / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 20)]))[:-9])
read("ipv6_cut_extension", "net/ipv6", cut, [IP6], [], [("ipv6_upper(ip).complete", 0)])
many = ip6
for _ in range(9):
    many = many / IPv6ExtHdrDestOpt()
read("ipv6_too_many_extensions", "net/ipv6", many / UDP(), [IP6], [], [("ipv6_upper(ip).complete", 0)])

# ---- ICMP and ICMPv6
echo = ETHER / IP(src=A4, dst=B4) / ICMP(type=8, id=0x1234, seq=5) / Raw(b"abcdefghi")
icmp = [IP4, peek("icmp", "icmp", "ip")]
icmp_fields = [("icmp->type", "icmp.type"), ("icmp->code", "icmp.code"), ("icmp->checksum", "icmp.checksum"),
               ("checksum_ok(icmp)", "icmp.checksum.status")]
read("icmp_echo", "net/ipv4 net/icmp", echo, icmp, icmp_fields + [("icmp->rest >> 16", "icmp.ident"),
                                                                 ("icmp->rest & 0xffff", "icmp.seq")],
     [("icmp_is_error(icmp)", 0)])
read("icmp_bad", "net/ipv4 net/icmp", corrupted(echo, -1), icmp, icmp_fields)
inside = IP(src=B4, dst=A4, ttl=1) / UDP(sport=9, dport=10) / Raw(b"12345678")
unreachable = ETHER / IP(src=C4, dst=B4) / ICMP(type=3, code=1) / Raw(bytes(inside)[:28])
read("icmp_unreachable", "net/ipv4 net/icmp", unreachable, icmp + [peek("ipv4", "inside", "icmp")],
     icmp_fields[:1] + [("inside->src", "ip.src#2"), ("inside->ttl", "ip.ttl#2")],
     [("icmp_is_error(icmp)", 1), ("ipv4_checksum_ok(inside)", 1)])
icmp6 = [IP6, peek("icmpv6", "icmp", "ip")]
icmp6_fields = [("icmp->type", "icmpv6.type"), ("icmp->code", "icmpv6.code"), ("icmp->checksum", "icmpv6.checksum"),
                ("checksum_ok(icmp, " + SUM6.format("IP_PROTO_ICMPV6", "icmp") + ")", "icmpv6.checksum.status")]
echo6 = ip6 / ICMPv6EchoRequest(id=3, seq=4, data=b"abc")
read("icmpv6_echo", "net/ipv6 net/ipv4 net/icmpv6", echo6, icmp6, icmp6_fields,
     [("icmpv6_is_error(icmp)", 0), ("icmpv6_is_nd(icmp)", 0), ("icmp->rest", 3 << 16 | 4)])
read("icmpv6_bad", "net/ipv6 net/ipv4 net/icmpv6", corrupted(echo6, -2), icmp6, icmp6_fields)
solicitation = ETHER / IPv6(src="fe80::1", dst="ff02::1:ff00:7", hlim=255) / ICMPv6ND_NS(
    tgt="fe80::7") / ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:02")
read("icmpv6_neighbour", "net/ipv6 net/ipv4 net/icmpv6", solicitation, icmp6 + [peek("nd_target", "nd", "icmp")],
     icmp6_fields + [("nd->target", "icmpv6.nd.ns.target_address")],
     [("icmpv6_is_nd(icmp)", 1), ("ipv6_is_multicast(ip->dst)", 1), ("ipv6_is_link_local(ip->src)", 1),
      ("ipv6_is_link_local(ip->dst)", 0), ("ipv6_source_is_martian(ip->dst)", 1)])
error6 = ip6 / ICMPv6DestUnreach(code=4) / Raw(bytes(IPv6(src=B6, dst=A6) / UDP())[:48])
read("icmpv6_unreachable", "net/ipv6 net/ipv4 net/icmpv6", error6, icmp6, icmp6_fields, [("icmpv6_is_error(icmp)", 1)])

# ---- UDP
udp = [IP4, peek("udp", "udp", "ip")]
udp_ok = "checksum_ok(udp, " + SUM4.format("IP_PROTO_UDP", "udp") + ")"
udp_fields = [("udp->src_port", "udp.srcport"), ("udp->dst_port", "udp.dstport"), ("udp->length", "udp.length"),
              ("udp->checksum", "udp.checksum")]
datagram = ETHER / IP(src=A4, dst=B4) / UDP(sport=40000, dport=7) / Raw(b"odd length")
read("udp", "net/ipv4 net/udp", datagram, udp, udp_fields + [(udp_ok, "udp.checksum.status")], [("udp_length_ok(udp)", 1)])
read("udp_bad", "net/ipv4 net/udp", corrupted(datagram, -1, 0x80), udp, udp_fields + [(udp_ok, "udp.checksum.status")])
bare = ETHER / IP(src=A4, dst=B4) / UDP(sport=40000, dport=7, chksum=0) / Raw(b"none")
read("udp_without_checksum", "net/ipv4 net/udp", bare, udp, udp_fields, [(udp_ok, 1)])
read("udp_bad_length", "net/ipv4 net/udp", ETHER / IP(src=A4, dst=B4) / UDP(len=99) / Raw(b"x"), udp, [],
     [("udp_length_ok(udp)", 0)])

# ---- TCP
tcp = [IP4, peek("tcp", "tcp", "ip")]
tcp_ok = "checksum_ok(tcp, " + SUM4.format("IP_PROTO_TCP", "tcp") + ")"
tcp_fields = [(f"tcp->{ours}", f"tcp.{theirs}") for ours, theirs in [
    ("src_port", "srcport"), ("dst_port", "dstport"), ("seq", "seq_raw"), ("ack_seq", "ack_raw"), ("flags", "flags"),
    ("window", "window_size_value"), ("checksum", "checksum"), ("urgent", "urgent_pointer")]]
syn = ETHER / IP(src=A4, dst=B4) / TCP(sport=33000, dport=443, seq=0xdeadbeef, ack=0xcafebabe, flags="S", window=64240,
                                       options=TCP_OPTIONS)
segment = ETHER / IP(src=A4, dst=B4) / TCP(sport=33000, dport=443, seq=1, ack=2, flags="PA", urgptr=3) / Raw(b"GET / HTTP/1.1!")
read("tcp_options", "net/ipv4 net/tcp", syn, tcp,
     tcp_fields + [(tcp_ok, "tcp.checksum.status"), ("tcp_mss(tcp)", "tcp.options.mss_val"),
                   ("tcp_window_scale(tcp)", "tcp.options.wscale.shift"), ("tcp->data_offset * 4", "tcp.hdr_len")],
     [("tcp_option(tcp, TCP_OPTION_SACK_PERMITTED)", 24), ("tcp_option(tcp, TCP_OPTION_TIMESTAMPS)", 26),
      ("tcp_option(tcp, TCP_OPTION_SACK)", 0)])
read("tcp_odd_payload", "net/ipv4 net/tcp", segment, tcp, tcp_fields + [(tcp_ok, "tcp.checksum.status")],
     [("tcp_mss(tcp)", 536), ("tcp_window_scale(tcp)", 0)])
read("tcp_bad", "net/ipv4 net/tcp", corrupted(segment, -1), tcp, [(tcp_ok, "tcp.checksum.status")])
bad_options = ETHER / IP(src=A4, dst=B4) / TCP(dataofs=6) / Raw(b"\x02\x05\x05\xb4")
read("tcp_option_too_long", "net/ipv4 net/tcp", bad_options, tcp, [], [("tcp_mss(tcp)", 536)])
read("tcp_option_of_no_length", "net/ipv4 net/tcp", ETHER / IP(src=A4, dst=B4) / TCP(dataofs=6) / Raw(b"\x09\x00\x02\x04"),
     tcp, [], [("tcp_mss(tcp)", 536)])
read("tcp_options_beyond_the_packet", "net/ipv4 net/tcp", ETHER / IP(src=A4, dst=B4) / TCP(dataofs=15) / Raw(b"\x01\x01"),
     tcp, [], [("tcp_mss(tcp)", 536)])

# ---- MPLS
labels = ETHER / MPLS(label=16, cos=5, s=0, ttl=64) / MPLS(label=1048575, cos=0, s=0, ttl=63) / MPLS(
    label=3000, cos=7, s=1, ttl=62) / IP(src=A4, dst=B4) / UDP() / Raw(b"in")
read("mpls", "net/mpls", labels, [peek("mpls", "a", "ether"), peek("mpls", "b", "a"), peek("mpls", "c", "b")],
     [(f"{name}->{ours}", f"mpls.{theirs}#{index}") for index, name in [(1, "a"), (2, "b"), (3, "c")]
      for ours, theirs in [("label", "label"), ("tc", "exp"), ("bottom", "bottom"), ("ttl", "ttl")]],
     [("mpls_payload_type(c)", 0x800), ("mpls_payload_type(b)", 0)])

# ---- RTP and RTCP
rtp_bytes = struct.pack("!BBHII", 0x92, 0xe1, 65530, 0x11223344, 0xdeadbeef) + struct.pack("!II", 1, 2)
rtp_bytes += struct.pack("!HHII", 0xbede, 2, 7, 8) + b"media"
stream = ETHER / IP(src=A4, dst=B4) / UDP(sport=5004, dport=5004) / Raw(rtp_bytes)
rtp = udp + [peek("rtp", "rtp", "udp")]
read("rtp", "net/ipv4 net/udp media/rtp", stream, rtp,
     [(f"rtp->{ours}", f"rtp.{theirs}") for ours, theirs in [
         ("version", "version"), ("padding", "padding"), ("extension", "ext"), ("csrc_count", "cc"), ("marker", "marker"),
         ("payload_type", "p_type"), ("sequence", "seq"), ("timestamp", "timestamp"), ("ssrc", "ssrc")]],
     [("rtp_payload(rtp)", 32), ("(u16) rtp_ahead(3, rtp->sequence)", 9), ("(u16) rtp_ahead(65529, rtp->sequence)", 65535)])
report = struct.pack("!BBHIQIIIIBBHIIII", 0x81, 200, 12, 0xdeadbeef, 0x83aa7e80_40000000, 1000, 20, 3000,
                     0xcafebabe, 64, 0xff, 0xfffe, 70000, 11, 22, 33)
control = ETHER / IP(src=A4, dst=B4) / UDP(sport=5005, dport=5005) / Raw(report)
read("rtcp", "net/ipv4 net/udp media/rtcp", control,
     udp + [peek("rtcp", "rtcp", "udp"), peek("rtcp_sender_info", "sender", "rtcp", 8),
            peek("rtcp_report", "report", "sender")],
     [("rtcp->version", "rtcp.version"), ("rtcp->count", "rtcp.rc"), ("rtcp->packet_type", "rtcp.pt"),
      ("rtcp->length", "rtcp.length"), ("rtcp->ssrc", "rtcp.senderssrc"),
      ("sender->ntp_timestamp >> 32", "rtcp.timestamp.ntp.msw"), ("sender->rtp_timestamp", "rtcp.timestamp.rtp"),
      ("sender->packet_count", "rtcp.sender.packetcount"), ("sender->octet_count", "rtcp.sender.octetcount"),
      ("report->ssrc", "rtcp.ssrc.identifier"), ("report->fraction_lost", "rtcp.ssrc.fraction"),
      ("report->highest_sequence", "rtcp.ssrc.ext_high"), ("report->jitter", "rtcp.ssrc.jitter"),
      ("report->last_sender_report", "rtcp.ssrc.lsr"), ("report->delay_since_report", "rtcp.ssrc.dlsr")],
     [("(u32) rtcp_total_lost(report)", 2**32 - 2), ("rtcp_is_packet_type(rtcp->packet_type)", 1),
      ("packet_length(report)", 24)])

# ---- Changes
NAT = """
    ip->src = 203.0.113.200;
    tcp->src_port = 61000;
"""


def rebuilt(packet, **changes):
    """The packet with some fields changed and all lengths and checksums computed anew."""
    packet = Ether(bytes(packet))
    for name, value in changes.items():
        layer, field = name.split("_", 1)
        setattr(packet[{"ip": IP, "ip6": IPv6, "tcp": TCP, "udp": UDP, "icmp": ICMP}[layer]], field, value)
    for layer in (IP, TCP, UDP, ICMP):
        if layer in packet and not (layer is UDP and packet[UDP].chksum == 0):
            del packet[layer].chksum
    for layer in (IP, UDP):
        if layer in packet:
            del packet[layer].len
    return Ether(bytes(packet))


natted = rebuilt(segment, ip_src=C4, tcp_sport=61000)
write("nat_tcp", "net/ipv4 net/tcp", segment, natted, f"{IP4}\n{tcp[1]}\n{NAT}")
write("nat_tcp_address_first", "net/ipv4 net/tcp", segment, natted,
      f"{IP4}\nip->src = 203.0.113.200;\n{tcp[1]}\ntcp->src_port = 61000;")
write("nat_tcp_in_steps", "net/ipv4 net/tcp", segment, natted,
      f"{IP4}\nip->src = 1.2.3.4;\n{{ {tcp[1]}\ntcp->src_port = 1; }}\nip->src = 203.0.113.200;\n{{ {tcp[1]}\n"
      "if (tcp->dst_port == 443)\ntcp->src_port = 61000; }")
write("nat_tcp_in_a_loop", "net/ipv4 net/tcp", segment, natted,
      f"{IP4}\n{tcp[1]}\nfor (u32 i = 0; i < 3; i++) {{\nip->src = 203.0.113.198 + i;\nif (i == 2) continue;\n}}\n"
      "for (u16 i = 0; i < 5; i++) {\nif (i == 3) break;\ntcp->src_port = 60998 + i;\n}")
write("nat_tcp_options", "net/ipv4 net/tcp", syn, rebuilt(syn, ip_dst=C4, tcp_dport=8443, tcp_seq=1),
      f"{IP4}\n{tcp[1]}\nip->dst = 203.0.113.200;\ntcp->dst_port = 8443;\ntcp->seq = 1;")
decapped = Ether(dst=ETHER.dst, src=ETHER.src, type=0) / Raw(bytes(natted[TCP]))
write("nat_tcp_decapped", "net/ipv4 net/tcp", segment, decapped,
      """
      mac_addr_t dst = ether->dst;
      mac_addr_t src = ether->src;
      ipv4_packet_t *ip = packet_decap(ether);
      ip->src = 203.0.113.200;
      tcp_packet_t *tcp = packet_decap(ip);
      tcp->src_port = 61000;
      ether = packet_encap(tcp);
      ether->dst = dst;
      ether->src = src;
      """)
# What is stored where no header is known yet the program follows by itself.
write("nat_tcp_adjusted", "net/ipv4 net/tcp", segment, natted,
      f"""
      if (packet_store(ether, 26, (u32) 203.0.113.200) && packet_store(ether, 34, (u16) 61000))
          ether->metadata.done = true;
      {IP4}
      {tcp[1]}
      ip->checksum = {natted[IP].chksum};
      checksum_adjust(tcp, (ipv4_addr_t) 192.0.2.1, 203.0.113.200);
      checksum_adjust(tcp, (u16) 33000, (u16) 61000);
      """)
write("nat_udp", "net/ipv4 net/udp", datagram, rebuilt(datagram, ip_src=C4, udp_sport=61000),
      f"{IP4}\n{udp[1]}\nip->src = 203.0.113.200;\nudp->src_port = 61000;")
write("nat_udp_without_checksum", "net/ipv4 net/udp", bare, rebuilt(bare, ip_src=C4, udp_sport=61000),
      f"{IP4}\n{udp[1]}\nip->src = 203.0.113.200;\nudp->src_port = 61000;")
# A source port for which the sum of all else is 0xffff: the checksum would be 0 and is sent as 0xffff.
zero = next(p for p in range(1, 65536) if rebuilt(datagram, udp_sport=p)[UDP].chksum in (0, 0xffff))
write("udp_computed_zero", "net/ipv4 net/udp", datagram, rebuilt(datagram, udp_sport=zero),
      f"{IP4}\n{udp[1]}\nudp->src_port = {zero};")
nat6 = Ether(bytes(plain6))
nat6[IPv6].src, nat6[UDP].dport = C6, 9999
del nat6[UDP].chksum
write("nat_ipv6", "net/ipv6 net/udp", plain6, nat6,
      f"{IP6}\n{peek('udp', 'udp', 'ip')}\nip->src = {int(ipaddress.ip_address(C6)):#x};\nudp->dst_port = 9999;")
deep6 = Ether(bytes(deep))
deep6[IPv6].src, deep6[TCP].seq = C6, 99
del deep6[TCP].chksum
write("nat_ipv6_behind_extensions", "net/ipv6 net/tcp", deep, deep6,
      f"""
      {IP6}
      ipv6_upper_t upper = ipv6_upper(ip);
      {peek("ipv6_options", "first", "ip")}
      {peek("ipv6_options", "second", "first")}
      {peek("ipv6_options", "third", "second")}
      {peek("ipv6_options", "fourth", "third")}
      {peek("tcp", "tcp", "fourth")}
      ip->src = {int(ipaddress.ip_address(C6)):#x};
      tcp->seq = 99;
      ether->metadata.done = upper.complete;
      """)
# The packet that an ICMP error is about, and the error itself, hold the same address.
inner = Ether(bytes(unreachable))
whole = IP(bytes(inner[ICMP].payload))
whole.src = A4
del whole.chksum
inner[ICMP].remove_payload()
inner = inner / Raw(bytes(whole)[:20] + bytes(inside)[20:28])
inner[IP].dst = A4
for layer in (IP, ICMP):
    del inner[layer].chksum
write("nat_icmp_error", "net/ipv4 net/icmp", unreachable, inner,
      f"{IP4}\n{icmp[1]}\n{peek('ipv4', 'inside', 'icmp')}\nip->dst = 192.0.2.1;\ninside->src = 192.0.2.1;\nchecksum_none(inside);")
media = Ether(bytes(stream))
media[UDP].payload = Raw(rtp_bytes[:2] + b"\x12\x34" + rtp_bytes[4:8] + b"\0\0\0\x05" + rtp_bytes[12:-2] + b"!!")
write("rtp_rewritten", "net/ipv4 net/udp media/rtp", stream, rebuilt(media),
      f"""
      {IP4}
      {udp[1]}
      {peek("rtp", "rtp", "udp")}
      rtp->sequence = 0x1234;
      rtp->ssrc = 5;
      if (packet_store(rtp, rtp_payload(rtp) + 3, (u16) 0x2121))
          ether->metadata.done = true;
      """)
odd = rebuilt(segment)
odd[TCP].payload = Raw(b"GxT / HTTP/1.1?")
write("tcp_payload_stored", "net/ipv4 net/tcp", segment, rebuilt(odd),
      f"""
      {IP4}
      {tcp[1]}
      if (packet_store(tcp, 21, (u8) 0x78) && packet_store(ip, 54, (u8) 0x3f))
          ether->metadata.done = true;
      """)
options2 = rebuilt(options)
options2[IP].options = [b"\x94\x04\x12\x34"]
write("ipv4_option_stored", "net/ipv4", options, rebuilt(options2),
      f"{IP4}\nif (packet_store(ip, 22, (u16) 0x1234))\nether->metadata.done = true;")
# The store covers the header's end and the source port: only the first counts for the header's checksum.
options2[IP].options = [b"\x94\x04\x56\x78"]
write("ipv4_option_and_payload_stored", "net/ipv4", options,
      Ether(bytes(rebuilt(options2))[:38] + b"\x9a\xbc" + bytes(options)[40:]),
      f"{IP4}\nif (packet_store(ip, 22, (u32) 0x56789abc))\nether->metadata.done = true;")
reply = rebuilt(echo, icmp_type=0)
reply[IP].src, reply[IP].dst = B4, A4
reply.src, reply.dst = ETHER.dst, ETHER.src
write("icmp_reply", "net/ipv4 net/icmp", echo, rebuilt(reply),
      f"""
      mac_addr_t mac = ether->dst;
      ether->dst = ether->src;
      ether->src = mac;
      {IP4}
      ipv4_addr_t dst = ip->dst;
      ip->dst = ip->src;
      ip->src = dst;
      {icmp[1]}
      icmp->type = ICMP_ECHO_REPLY;
      """)
created = ETHER / IP(src=C4, dst=A4, ttl=64, id=7) / ICMP(type=11) / Raw(bytes(segment)[14:14 + 28])
write("icmp_error_created", "net/ipv4 net/icmp", segment, created,
      f"""
      {IP4}
      u128 *first = packet_load(ip, 0);
      u96 *second = packet_load(ip, 16);
      if (first == null || second == null) {{ packet_drop(ether, malformed); return; }}
      icmp_packet_t *icmp = packet_create();
      if (!packet_grow_tail(icmp, 28) || !packet_store(icmp, 8, *first) || !packet_store(icmp, 24, *second)) {{
          packet_drop(ether, malformed);
          packet_drop(icmp, malformed);
          return;
      }}
      icmp->type = ICMP_TIME_EXCEEDED;
      checksum_set(icmp);
      ipv4_packet_t *error = packet_encap(icmp);
      error->total_length = (u16) packet_length(error);
      error->identification = 7;
      error->ttl = 64;
      error->protocol = IP_PROTO_ICMP;
      error->src = 203.0.113.200;
      error->dst = 192.0.2.1;
      ether_packet_t *frame = packet_encap(error);
      frame->dst = ether->dst;
      frame->src = ether->src;
      frame->type = ETH_TYPE_IPV4;
      packet_drop(ether, malformed);
      ether = frame;
      """)
wrapped = ETHER / IP(src=C4, dst=A4, ttl=9, id=0) / UDP(sport=1, dport=2) / Raw(bytes(datagram)[14:])
write("udp_encapsulated", "net/ipv4 net/udp", datagram, wrapped,
      """
      mac_addr_t dst = ether->dst;
      mac_addr_t src = ether->src;
      ipv4_packet_t *ip = packet_decap(ether);
      udp_packet_t *udp = packet_encap(ip);
      udp->src_port = 1;
      udp->dst_port = 2;
      udp->length = (u16) packet_length(udp);
      checksum_set(udp, ipv4_pseudo_sum(203.0.113.200, 192.0.2.1, IP_PROTO_UDP, packet_length(udp)));
      ip = packet_encap(udp);
      ip->total_length = (u16) packet_length(ip);
      ip->ttl = 9;
      ip->protocol = IP_PROTO_UDP;
      ip->src = 203.0.113.200;
      ip->dst = 192.0.2.1;
      ether = packet_encap(ip);
      ether->dst = dst;
      ether->src = src;
      ether->type = ETH_TYPE_IPV4;
      """)
padded = Ether(bytes(ETHER / IP(src=A4, dst=B4) / UDP(sport=7, dport=8) / Raw(b"abc")) + b"\xee" * 15)
trimmed = Ether(bytes(padded)[:-15])
write("padding_trimmed", "net/ipv4 net/udp", padded, rebuilt(trimmed, udp_dport=9),
      f"""
      mac_addr_t dst = ether->dst;
      {IP4}
      if (!packet_trim_tail(ether, ipv4_padding(ip))) {{ packet_drop(ether, malformed); return; }}
      {IP4.replace("*ip ", "*again ")}
      {peek("udp", "udp", "again")}
      if (checksum_ok(udp, ipv4_pseudo_sum(again->src, again->dst, again->protocol, packet_length(udp))))
          udp->dst_port = 9;
      """)
untagged = ETHER / IP(src=A4, dst=B4) / UDP() / Raw(b"x")
write("vlan_tags_popped", "net/vlan net/ipv4", double, untagged,
      """
      mac_addr_t dst = ether->dst;
      mac_addr_t src = ether->src;
      u16 type = ether->type;
      vlan_packet_t *tag = packet_decap(ether);
      for (u32 i = 0; i < 4; i++) {
          type = tag->type;
          if (!vlan_is_tag(type))
              break;
          tag = packet_decap(tag);
      }
      ipv4_packet_t *ip = packet_decap(tag);
      ether = packet_encap(ip);
      ether->dst = dst;
      ether->src = src;
      ether->type = type;
      """)
pushed = ETHER / MPLS(label=100, cos=0, s=0, ttl=255) / MPLS(label=200, cos=0, s=1, ttl=255) / IP(src=A4, dst=B4) / UDP() / Raw(b"x")
write("mpls_pushed", "net/mpls net/ipv4", untagged, pushed,
      """
      mac_addr_t dst = ether->dst;
      mac_addr_t src = ether->src;
      ipv4_packet_t *ip = packet_decap(ether);
      mpls_packet_t *label = packet_encap(ip);
      label->bottom = 1;
      label->label = 200;
      label->ttl = 255;
      for (u20 i = 0; i < 1; i++) {
          label = packet_encap(label);
          label->label = 100 + i;
          label->ttl = 255;
      }
      ether = packet_encap(label);
      ether->dst = dst;
      ether->src = src;
      ether->type = ETH_TYPE_MPLS;
      """)
popped = ETHER / IP(src=A4, dst=B4) / UDP() / Raw(b"in")
write("mpls_popped", "net/mpls net/ipv4", labels, popped,
      """
      mac_addr_t dst = ether->dst;
      mac_addr_t src = ether->src;
      mpls_packet_t *label = packet_decap(ether);
      for (u32 i = 0; i < 8; i++) {
          if (label->bottom == 1)
              break;
          label = packet_decap(label);
      }
      u16 type = mpls_payload_type(label);
      ipv4_packet_t *ip = packet_decap(label);
      ether = packet_encap(ip);
      ether->dst = dst;
      ether->src = src;
      ether->type = type;
      """)

# ---- Tunnels
inner = ETHER / IP(src=B4, dst=A4) / UDP(sport=1, dport=2) / Raw(b"inner")
ip_udp = lambda port: ETHER / IP(src=A4, dst=B4) / UDP(sport=50000, dport=port)
UDP4 = [IP4, peek("udp", "udp", "ip")]
read("vxlan", "net/vxlan net/ipv4", ip_udp(4789) / VXLAN(vni=0xABCDEF, flags="Instance") / inner,
     [*UDP4, peek("vxlan", "vxlan", "udp"), peek("ether", "within", "vxlan")],
     [("udp->dst_port", "udp.dstport"), ("vxlan->vni", "vxlan.vni"), ("within->type", "eth.type#2")],
     [("vxlan_ok(vxlan)", 1), ("udp->dst_port == VXLAN_PORT", 1), ("tunnel_source_port(0) >> 14", 3)])
read("vxlan_without_vni", "net/vxlan net/ipv4", ip_udp(4789) / VXLAN(flags=0) / inner,
     [*UDP4, peek("vxlan", "vxlan", "udp")], [], [("vxlan_ok(vxlan)", 0)])
options = [GeneveOptions(classid=0x102, type=1, data=b"8 octets"), GeneveOptions(classid=0x103, type=2, data=b"four")]
read("geneve", "net/geneve net/ipv4", ip_udp(6081) / GENEVE(vni=0x123456, proto=0x6558, critical=1, options=options) / inner,
     [*UDP4, peek("geneve", "geneve", "udp"), peek("ether", "within", "geneve")],
     [("geneve->version", "geneve.version"), ("geneve->critical", "geneve.flags.critical"), ("geneve->control", "geneve.flags.oam"),
      ("geneve->type", "geneve.proto_type"), ("geneve->vni", "geneve.vni"), ("within->src", "eth.src#2")],
     [("geneve->option_length", 5), ("geneve->type == GENEVE_ETHERNET", 1), ("udp->dst_port == GENEVE_PORT", 1)])
gre = GRE(chksum_present=1, key_present=1, seqnum_present=1, key=0xCAFEBABE, sequence_number=9, proto=0x6558)
GRE4 = [IP4, peek("gre", "gre", "ip")]
read("gre", "net/gre net/ipv4", ETHER / IP(src=A4, dst=B4) / gre / inner,
     [*GRE4, peek("ether", "within", "gre")],
     [("ip->protocol", "ip.proto"), ("gre->type", "gre.proto"), ("gre_key_of(gre)", "gre.key"), ("within->dst", "eth.dst#2"),
      ("gre->checksum_present", "gre.flags.checksum"), ("gre->sequence_present", "gre.flags.sequence_number")],
     [("gre_ok(gre)", 1), ("ip->protocol == IP_PROTO_GRE", 1), ("packet_length(gre) - packet_length(within)", 16)])
read("gre_checksum", "net/gre net/ipv4", ETHER / IP(src=A4, dst=B4) / gre / inner,
     [IP4, peek("gre_summed", "gre", "ip")], [("gre->checksum", "gre.checksum"), ("checksum_ok(gre)", "gre.checksum.status")],
     [("gre_is_summed(0x80)", 1), ("gre_is_summed(0x30)", 0)])
wrong = corrupted(ETHER / IP(src=A4, dst=B4) / gre / inner, 60)
read("gre_wrong_checksum", "net/gre net/ipv4", wrong, [IP4, peek("gre_summed", "gre", "ip")],
     [("checksum_ok(gre)", "gre.checksum.status")])
read("gre_plain", "net/gre net/ipv4", ETHER / IP(src=A4, dst=B4) / GRE(proto=0x800) / IP(src=B4, dst=A4) / UDP(),
     [*GRE4, peek("ipv4", "within", "gre")], [("within->src", "ip.src#2")],
     [("gre_ok(gre)", 1), ("gre_key_of(gre)", 0), ("gre->type == ETH_TYPE_IPV4", 1)])
read("gre_cut_off", "net/gre net/ipv4", ETHER / IP(src=A4, dst=B4, proto=47) / Raw(bytes.fromhex("300065580000012c")), GRE4, [],
     [("gre_ok(gre)", 0), ("gre_key_of(gre)", 300)])
read("gre_of_another_version", "net/gre net/ipv4", ETHER / IP(src=A4, dst=B4) / GRE(version=1, key_present=1), GRE4, [],
     [("gre_ok(gre)", 0)])

# ---- IGMP
igmp = ETHER / IP(src=A4, dst="224.0.0.1", ttl=1, proto=2)
IGMP4 = [IP4, peek("igmp", "igmp", "ip")]
IGMP_FIELDS = [("igmp->type", "igmp.type"), ("igmp->checksum", "igmp.checksum"), ("checksum_ok(igmp)", "igmp.checksum.status")]
read("igmp_query", "net/igmp net/ipv4", igmp / IGMP(type=0x11, mrcode=100, gaddr="239.1.2.3"), IGMP4,
     [*IGMP_FIELDS, ("igmp->group", "igmp.maddr"), ("igmp->max_response", "igmp.max_resp")],
     [("igmp_query_version(igmp, packet_length(igmp))", 2), ("ip->dst == IGMP_ALL_SYSTEMS", 1), ("ip->protocol == IP_PROTO_IGMP", 1)])
read("igmp_query_1", "net/igmp net/ipv4", igmp / IGMP(type=0x11, mrcode=0), IGMP4, IGMP_FIELDS,
     [("igmp_query_version(igmp, packet_length(igmp))", 1), ("igmp_query_version(igmp, 9)", 0), ("igmp_query_version(igmp, 7)", 0)])
read("igmp_query_3", "net/igmp net/ipv4", igmp / IGMPv3(type=0x11, mrcode=0xAB) / IGMPv3mq(gaddr="239.1.2.3", srcaddrs=[A4]), IGMP4,
     [*IGMP_FIELDS, ("igmp_code(igmp->max_response)", "igmp.max_resp")],
     [("igmp_query_version(igmp, packet_length(igmp))", 3), ("igmp_code(127)", 127), ("igmp_code(128)", 128), ("igmp_code(255)", 31744)])
records = [IGMPv3gr(rtype=4, maddr="239.1.2.3", srcaddrs=[A4, C4]), IGMPv3gr(rtype=3, maddr="239.9.9.9")]
read("igmp_report_3", "net/igmp net/ipv4", igmp / IGMPv3(type=0x22) / IGMPv3mr(records=records),
     [*IGMP4, peek("igmp_record", "first", "igmp"), peek("igmp_record", "second", "first")],
     [*IGMP_FIELDS, ("(u16) igmp->group", "igmp.num_grp_recs"), ("first->group", "igmp.maddr#1"), ("second->group", "igmp.maddr#2"),
      ("first->sources", "igmp.num_src#1"), ("first->type", "igmp.record_type#1"), ("second->type", "igmp.record_type#2")],
     [("igmp->type == IGMP_REPORT_V3", 1), ("igmp_query_version(igmp, 40)", 0)])

# ---- DNS
DNS4 = [*UDP4, peek("dns", "dns", "udp")]
DNS_FIELDS = [(f"dns->{ours}", f"dns.{theirs}") for ours, theirs in [
    ("id", "id"), ("response", "flags.response"), ("opcode", "flags.opcode"), ("truncated", "flags.truncated"),
    ("recursion_desired", "flags.recdesired"), ("checking_disabled", "flags.checkdisable"), ("questions", "count.queries"),
    ("answers", "count.answers"), ("authorities", "count.auth_rr"), ("additionals", "count.add_rr")]]
question = DNSQR(qname="www.example.org", qtype="AAAA")
query = ip_udp(53) / DNS(id=0xBEEF, rd=1, cd=1, qd=question)
read("dns_query", "net/dns net/udp net/ipv4", query, DNS4,
     [*DNS_FIELDS, ("dns_question_type(dns) & 0xffff", "dns.qry.type"), ("dns_question_type(dns) >> 16", "dns.qry.class")],
     [("dns_is_query(dns)", 1), ("dns_name_length(dns, 12)", 17),
      ("dns_question_type(dns) == (DNS_TYPE_AAAA | (u32) DNS_CLASS_IN << 16)", 1), ("udp->dst_port == DNS_PORT", 1)])
answer = DNSRR(rrname="www.example.org", type="A", ttl=60, rdata=C4)
response = ETHER / IP(src=B4, dst=A4) / UDP(sport=53, dport=50000) / DNS(
    id=0xBEEF, qr=1, aa=1, ra=1, ad=1, rcode=3, qd=question, an=answer)
read("dns_response", "net/dns net/udp net/ipv4", response, DNS4,
     [*DNS_FIELDS, ("dns->authoritative", "dns.flags.authoritative"), ("dns->recursion_available", "dns.flags.recavail"),
      ("dns->authentic", "dns.flags.authenticated"), ("dns->rcode", "dns.flags.rcode"), ("dns->zero", "dns.flags.z")],
     [("dns_is_query(dns)", 0), ("dns->rcode == DNS_NAME_ERROR", 1)])
long_name = ".".join("abcdefghijklmnopq")
read("dns_names", "net/dns net/udp net/ipv4", ip_udp(53) / DNS(qd=DNSQR(qname=long_name)), DNS4, [],
     # Seventeen labels are more than are walked.
     [("dns_name_length(dns, 12)", 0), ("dns_name_length(dns, 14)", 33), ("dns_question_type(dns)", 0)])
pointer = Raw(bytes.fromhex("beef01000001000000000000c00c00010001"))
read("dns_pointer", "net/dns net/udp net/ipv4", ip_udp(53) / pointer, DNS4, [],
     [("dns_name_length(dns, 12)", 0), ("dns_question_type(dns)", 0)])
cut = Raw(bytes.fromhex("beef01000001000000000000") + b"\x03www\x00\x00\x01")
read("dns_cut_off", "net/dns net/udp net/ipv4", ip_udp(53) / cut, DNS4, [],
     [("dns_name_length(dns, 12)", 5), ("dns_question_type(dns)", 0)])
root = Raw(bytes.fromhex("beef010000010000000000000000020001"))
read("dns_root", "net/dns net/udp net/ipv4", ip_udp(53) / root, DNS4, [("dns->id", "dns.id")],
     [("dns_name_length(dns, 12)", 1), ("dns_question_type(dns) & 0xffff", 2), ("dns_is_query(dns)", 1)])

# ---- Routers and hosts: errors and answers
IP4_OF = lambda *layers, **fields: ETHER / IP(**{"src": A4, "dst": B4, **fields}) / (layers[0] if layers else UDP())
SILENT4 = [
    ("datagram", IP4_OF(), 0), ("echo", IP4_OF(ICMP(type=8)), 0), ("timestamp", IP4_OF(ICMP(type=13, ts_ori=0, ts_rx=0, ts_tx=0)), 0),
    ("error", IP4_OF(ICMP(type=3)), 1), ("unknown_type", IP4_OF(ICMP(type=42)), 1), ("no_type", IP4_OF(Raw(b""), proto=1), 1),
    ("error_behind_options", IP4_OF(ICMP(type=11), options=b"\x01\x01\x01\x00"), 1), ("first_fragment", IP4_OF(flags="MF"), 0),
    ("later_fragment", IP4_OF(Raw(b"12345678"), frag=1), 1), ("group", IP4_OF(dst="224.0.0.5"), 1),
    ("broadcast", IP4_OF(dst="255.255.255.255"), 1), ("unspecified_source", IP4_OF(src="0.0.0.0"), 1), ("from_group", IP4_OF(src="224.0.0.1"), 1)]
for name, packet, silent in SILENT4:
    read(f"icmp_error_{name}", "net/icmp_error", packet, [IP4], [], [("icmp_is_silent(ip)", silent)])
IP6_OF = lambda *layers, **fields: ETHER / IPv6(**{"src": A6, "dst": B6, **fields}) / (layers[0] if layers else UDP())
SILENT6 = [
    ("datagram", IP6_OF(), 0), ("echo", IP6_OF(ICMPv6EchoRequest()), 0), ("error", IP6_OF(ICMPv6DestUnreach()), 1),
    ("error_behind_options", IP6_OF(IPv6ExtHdrHopByHop() / ICMPv6DestUnreach()), 1), ("group", IP6_OF(dst="ff02::1"), 1),
    ("unspecified_source", IP6_OF(src="::"), 1), ("later_fragment", IP6_OF(IPv6ExtHdrFragment(nh=17, offset=1) / Raw(bytes(8))), 1)]
for name, packet, silent in SILENT6:
    read(f"icmpv6_error_{name}", "net/icmp_error", packet, [IP6], [], [("icmp_is_silent(ip)", silent)])
read("icmp_quote", "net/icmp_error", IP4_OF(UDP() / Raw(b"abc")) / Padding(bytes(15)), [IP4], [],
     [("icmp_quote_length(ip)", 31), ("packet_length(ip)", 46)])
read("icmp_quote_of_a_long_one", "net/icmp_error", IP4_OF(UDP() / Raw(bytes(600))), [IP4], [], [("icmp_quote_length(ip)", 548)])
read("icmpv6_quote", "net/icmp_error", IP6_OF(UDP() / Raw(b"abc")) / Padding(bytes(4)), [IP6], [],
     [("icmp_quote_length(ip)", 51), ("packet_length(ip)", 55)])
read("icmpv6_quote_of_a_long_one", "net/icmp_error", IP6_OF(UDP() / Raw(bytes(1300))), [IP6], [], [("icmp_quote_length(ip)", 1232)])
OWN = "00:53:ab:cd:ef:12"
local = int(ipaddress.ip_address(f"fe80::{in6_mactoifaceid(OWN)}"))
read("ipv6_link_local", "net/ipv6 net/ip", IP4_OF(), [IP4], [],
     [(f"ipv6_link_local({OWN}) == {local:#x}", 1), ("ip_is_link_local(ip)", 0), ("ip_is_fragment(ip)", 0), ("ip_may_fragment(ip)", 1)])
read("link_local", "net/ip", IP4_OF(dst="169.254.7.7", flags="DF+MF"), [IP4], [],
     [("ip_is_link_local(ip)", 1), ("ip_may_fragment(ip)", 0), ("ipv4_is_first_fragment(ip)", 1), ("ipv4_is_later_fragment(ip)", 0)])
read("later_fragment", "net/ip", IP4_OF(Raw(bytes(8)), frag=1, flags="MF"), [IP4], [],
     [("ipv4_is_first_fragment(ip)", 0), ("ipv4_is_later_fragment(ip)", 1), ("ip_is_multicast(ip)", 0)])
asked = ARP(op=1, hwsrc=ETHER.src, psrc=A4, hwdst="00:00:00:00:00:00", pdst=B4)
write("arp_answer", "net/arp", Ether(dst="ff:ff:ff:ff:ff:ff", src=ETHER.src) / asked,
      Ether(dst=ETHER.src, src=OWN) / ARP(op=2, hwsrc=OWN, psrc=B4, hwdst=ETHER.src, pdst=A4),
      f"{peek('arp', 'arp', 'ether')}\narp_answer(arp, {OWN});\nether_return(ether, {OWN});")
write("arp_ask", "net/arp", Ether(dst="ff:ff:ff:ff:ff:ff", src=OWN) / ARP(op=7, hwsrc=ETHER.src, psrc="0.0.0.0", pdst="0.0.0.0"),
      Ether(dst=ETHER.dst, src=OWN) / ARP(op=1, hwsrc=OWN, psrc=A4, pdst=B4),
      f"{peek('arp', 'arp', 'ether')}\narp_ask(arp, {OWN}, 192.0.2.1, 198.51.100.7);\nether_fill(ether, {ETHER.dst}, {OWN}, ETH_TYPE_ARP);")
asking = lambda src: Ether(dst="33:33:ff:ff:00:07", src=ETHER.src) / IPv6(src=src, dst="ff02::1:ffff:7", hlim=255) / ICMPv6ND_NS(tgt=B6)
told = lambda dst, **flags: IPv6(src=B6, dst=dst, hlim=255) / ICMPv6ND_NA(tgt=B6, O=1, **flags) / ICMPv6NDOptDstLLAddr(lladdr=OWN)
ND_ANSWER = IP6 + "\nnd_answer(ip, " + OWN + ", {0});\nnd_return(ether, ip, " + OWN + ");"
write("nd_answer", "net/nd", asking(A6) / ICMPv6NDOptSrcLLAddr(lladdr=ETHER.src), Ether(dst=ETHER.src, src=OWN) / told(A6, R=1, S=1),
      ND_ANSWER.format("true"))
write("nd_answer_to_all", "net/nd", asking("::") / Raw(bytes(8)), Ether(dst="33:33:00:00:00:01", src=OWN) / told("ff02::1", R=0, S=0),
      ND_ANSWER.format("false"))
for version, imports, ask, answer in (
        ("", "net/echo", IP4_OF(ICMP(type=8, id=5, seq=6) / Raw(b"ping"), ttl=3),
         ETHER / IP(src=B4, dst=A4, ttl=64) / ICMP(type=0, id=5, seq=6) / Raw(b"ping")),
        ("v6", "net/echo", IP6_OF(ICMPv6EchoRequest(id=5, seq=6, data=b"ping"), hlim=3),
         ETHER / IPv6(src=B6, dst=A6, hlim=64) / ICMPv6EchoReply(id=5, seq=6, data=b"ping"))):
    write(f"echo{version}_answer", imports, ask, answer,
          f"{IP6 if version else IP4}\n{peek('icmp' + version, 'icmp', 'ip')}\nif (echo_is_request(icmp))\necho_answer(ip, icmp);")
