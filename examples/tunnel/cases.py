#!/usr/bin/env python3
"""Makes the cases in `cases`: packets built by scapy, which knows nothing of the program. The cases need no scapy.

Usage: cases.py
"""

import pathlib
import sys

from scapy.all import GRE, IP, UDP, Ether, Raw, VXLAN
from scapy.contrib.geneve import GENEVE, GeneveOptions

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
sys.path.insert(0, str(FOLDER.parents[2] / "tools"))

from packet_cases import Case, broken

# Between the ends of the tunnels, from here and from there.
OUT = Ether(dst="02:00:00:00:00:0a", src="02:00:00:00:00:09")
BACK = Ether(dst="02:00:00:00:00:09", src="02:00:00:00:00:0a")
HERE, THERE = "192.0.2.1", "192.0.2.2"
# Within them.
A, B = "02:00:00:00:00:a1", "02:00:00:00:00:b2"
INNER = IP(src="10.0.0.1", dst="10.0.0.2", ttl=17, id=7) / UDP(sport=1000, dport=2000) / b"within the tunnel"
REPLY = IP(src="10.0.0.2", dst="10.0.0.1", ttl=33, id=8) / UDP(sport=2000, dport=1000) / b"and back"


def outer(protocol=None, **fields):
    return IP(src=HERE, dst=THERE, id=0, flags="DF", ttl=64, **({"proto": protocol} if protocol else {}), **fields)


def back(protocol=None, **fields):
    return IP(src=THERE, dst=HERE, id=0x1234, ttl=61, **({"proto": protocol} if protocol else {}), **fields)


def source_port(frame):
    """As lib/net/vxlan.baker says it, of the addresses as the program mixes them."""
    dst, src = (int(mac.replace(":", ""), 16) for mac in (frame.dst, frame.src))
    mixed = (dst ^ dst >> 32 ^ src << 1 ^ src >> 31) & 0xFFFFFFFF
    return 0xC000 | (mixed ^ mixed >> 14 ^ mixed >> 28) & 0x3FFF


def vxlan():
    case = Case(FOLDER, "vxlan", "frames go through a VXLAN tunnel and come back (RFC 7348)")
    frame, reply = Ether(dst=B, src=A) / INNER, Ether(dst=A, src=B) / REPLY
    into = VXLAN(vni=100, flags="Instance")
    udp = UDP(sport=source_port(frame), dport=4789, chksum=0)
    case.step("a frame goes in", "vxlan", frame, ("underlay", OUT / outer() / udp / into / frame))
    arriving = BACK / back() / UDP(sport=50000, dport=4789, chksum=0) / into / reply
    case.step("one comes back, without a UDP checksum", "underlay", arriving, ("vxlan", reply))
    summed = BACK / back() / UDP(sport=50000, dport=4789) / into / reply
    case.step("with a right one", "underlay", summed, ("vxlan", reply))
    wrong = broken(summed, UDP, chksum=1)
    case.step("with a wrong one", "underlay", wrong, drops="bad_checksum")
    reserved = BACK / back() / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=100, flags=0xF8, reserved2=0xFF) / reply
    case.step("reserved bits are ignored", "underlay", reserved, ("vxlan", reply))
    flags = BACK / back() / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=100, flags=0) / reply
    case.step("without the flag that a VNI is there", "underlay", flags, drops="bad_vxlan_flags")
    other = BACK / back() / UDP(sport=50000, dport=4789, chksum=0) / VXLAN(vni=101, flags="Instance") / reply
    case.step("another VNI", "underlay", other, drops="no_tunnel")
    stranger = BACK / IP(src="192.0.2.66", dst=HERE) / UDP(dport=4789, chksum=0) / into / reply
    case.step("from a stranger", "underlay", stranger, drops="no_tunnel")
    case.step("without a frame", "underlay", BACK / back() / UDP(dport=4789, chksum=0) / into, drops="truncated")
    length = BACK / back() / UDP(dport=4789, chksum=0, len=9000) / into / reply
    case.step("a datagram longer than its packet", "underlay", length, drops="bad_udp_length")
    case.step("options in front of UDP", "underlay",
              BACK / back(options=b"\x01\x01\x01\x00") / UDP(dport=4789) / into / reply, ("vxlan", reply))
    case.write("", "[after.counters]", "enter.packets = { 1 = 1, 2 = 0 }")


def geneve():
    case = Case(FOLDER, "geneve", "frames go through a Geneve tunnel and come back (RFC 8926)")
    frame, reply = Ether(dst=B, src=A) / INNER, Ether(dst=A, src=B) / REPLY
    into = GENEVE(vni=200, proto=0x6558)
    udp = UDP(sport=source_port(frame), dport=6081, chksum=0)
    case.step("a frame goes in", "geneve", frame, ("underlay", OUT / outer() / udp / into / frame))
    arriving = lambda header: BACK / back() / UDP(sport=50000, dport=6081) / header / reply
    case.step("one comes back", "underlay", arriving(into), ("geneve", reply))
    options = GENEVE(vni=200, proto=0x6558, options=[GeneveOptions(classid=0x102, type=1, data=b"8 octets")])
    case.step("options are passed over", "underlay", arriving(options), ("geneve", reply))
    critical = GENEVE(vni=200, proto=0x6558, critical=1, options=[GeneveOptions(classid=0x102, type=0x81, data=b"8 octets")])
    case.step("but for critical ones", "underlay", arriving(critical), drops="geneve_critical_option")
    case.step("another version", "underlay", arriving(GENEVE(version=1, vni=200, proto=0x6558)), drops="bad_geneve_version")
    case.step("another VNI", "underlay", arriving(GENEVE(vni=100, proto=0x6558)), drops="no_tunnel")
    beyond = BACK / back() / UDP(dport=6081) / GENEVE(vni=200, proto=0x6558, optionlen=63) / Raw(b"short")
    case.step("options that reach beyond the packet", "underlay", beyond, drops="malformed")
    case.write()


def gre():
    case = Case(FOLDER, "gre", "frames go through a GRE tunnel with a key and come back (RFC 2784, RFC 2890)")
    frame, reply = Ether(dst=B, src=A) / INNER, Ether(dst=A, src=B) / REPLY
    into = GRE(key_present=1, key=300, proto=0x6558)
    case.step("a frame goes in", "gre", frame, ("underlay", OUT / outer() / into / frame))
    arriving = lambda header: BACK / back(47) / header / reply
    case.step("one comes back", "underlay", arriving(into), ("gre", reply))
    every = GRE(chksum_present=1, key_present=1, seqnum_present=1, key=300, sequence_number=5, proto=0x6558)
    case.step("with checksum and sequence number", "underlay", arriving(every), ("gre", reply))
    wrong = broken(arriving(every), GRE, chksum=0xBAD)
    case.step("with a wrong checksum", "underlay", wrong, drops="bad_checksum")
    case.step("without a key", "underlay", arriving(GRE(proto=0x6558)), drops="no_tunnel")
    case.step("version 1, which PPTP uses", "underlay", arriving(GRE(version=1, key_present=1, key=300)), drops="bad_gre_version")
    routing = Raw(bytes.fromhex("600065580000012c"))
    case.step("routing, as RFC 1701 had it", "underlay", BACK / back(47) / routing / reply, drops="gre_routing")
    short = Raw(bytes.fromhex("300065580000012c"))
    case.step("a header that ends before what it announces", "underlay", BACK / back(47) / short, drops="truncated")
    case.write()


def ipip():
    case = Case(FOLDER, "ipip", "IPv4 packets go through a tunnel in IPv4 and come back (RFC 2003)")
    inner = IP(src="10.0.0.1", dst="10.0.0.2", ttl=17, id=7, tos=0xB9, flags="DF") / b"inner"
    less = inner.copy()
    less.ttl = 16
    frame = Ether(dst=B, src=A)
    padded = Raw(bytes(frame / inner) + bytes(60 - len(frame / inner)))
    around = IP(src=HERE, dst=THERE, id=0, flags="DF", ttl=64, tos=0xB9)
    case.step("a packet goes in: one hop less, its type of service outside, no padding", "ipip", padded,
              ("underlay", OUT / around / less))
    may = IP(src="10.0.0.1", dst="10.0.0.2", ttl=2, id=7) / b"may be cut"
    one = may.copy()
    one.ttl = 1
    case.step("one that may be fragmented", "ipip", frame / may,
              ("underlay", OUT / IP(src=HERE, dst=THERE, id=0, flags=0, ttl=64) / one))
    case.step("the last hop", "ipip", frame / IP(dst="10.0.0.2", src="10.0.0.1", ttl=1) / b"x", drops="ttl_expired")
    case.step("no IPv4", "ipip", Ether(dst=B, src=A, type=0x86DD) / Raw(bytes(40)), drops="not_ipv4")
    arriving = BACK / back() / REPLY
    leaving = Ether(dst="ff:ff:ff:ff:ff:ff", src="02:00:00:00:00:fe") / REPLY
    case.step("one comes back", "underlay", arriving, ("ipip", leaving))
    case.step("with padding", "underlay", Raw(bytes(arriving) + bytes(4)), ("ipip", leaving))
    case.write()


def damaged():
    case = Case(FOLDER, "damaged", "outer packets that are wrong are dropped by name (RFC 1812 section 5.2.2)")
    good = BACK / back() / REPLY
    case.step("the header's checksum", "underlay", broken(good, IP, chksum=0xBAD), drops="bad_checksum")
    case.step("the version", "underlay", BACK / back(version=6) / REPLY, drops="bad_version")
    case.step("the header's length", "underlay", BACK / back(ihl=4) / REPLY, drops="bad_header_length")
    case.step("a total length beyond the packet", "underlay", BACK / back(len=1000) / REPLY, drops="bad_total_length")
    case.step("a total length below the header", "underlay", BACK / back(len=19) / REPLY, drops="bad_total_length")
    case.step("a fragment", "underlay", BACK / back(flags="MF") / REPLY, drops="fragmented")
    case.step("another protocol", "underlay", BACK / back(6) / Raw(bytes(20)), drops="no_tunnel")
    case.step("another port", "underlay", BACK / back() / UDP(dport=53) / b"?", drops="no_tunnel")
    case.step("no IPv4", "underlay", Ether(dst=BACK.dst, src=BACK.src, type=0x0806) / Raw(bytes(28)), drops="not_ipv4")
    case.step("half a header", "underlay", Raw(bytes(good)[:30]), drops="truncated")
    case.step("no inner header", "underlay", BACK / back(4) / b"inner", drops="truncated")
    case.write()


for make in (vxlan, geneve, gre, ipip, damaged):
    make()
