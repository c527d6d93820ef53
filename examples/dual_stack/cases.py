#!/usr/bin/env python3
"""Makes the cases in `cases`: packets built by scapy, which knows nothing of the program. The cases need no scapy.

Usage: cases.py
"""

import ipaddress
import pathlib
import sys

from scapy.all import (
    ARP, ICMP, IP, TCP, UDP, Ether, ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6ND_NA, ICMPv6ND_NS,
    ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, ICMPv6PacketTooBig, ICMPv6TimeExceeded, IPv6, IPv6ExtHdrFragment, Raw, fragment,
)

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
sys.path.insert(0, str(FOLDER.parents[2] / "tools"))

from packet_cases import Case, broken

LEFT, RIGHT, UP = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
A_MAC, B_MAC, GATEWAY_MAC = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:fe"
A4, B4, FAR4 = "10.0.1.10", "10.0.2.11", "192.0.2.77"
A6, B6, FAR6 = "2001:db8:1::a", "2001:db8:2::b", "2001:db8:ffff::77"
LEFT4, LEFT6, RIGHT4, RIGHT6 = "10.0.1.1", "2001:db8:1::1", "10.0.2.1", "2001:db8:2::1"
# What its Ethernet address makes (RFC 4291 appendix A).
LEFT_LOCAL = "fe80::ff:fe00:1"
BROADCAST = "ff:ff:ff:ff:ff:ff"

KNOWN = [("left", A4, A_MAC), ("left", A6, A_MAC), ("right", B4, B_MAC), ("right", B6, B_MAC),
         ("up", "10.0.9.2", GATEWAY_MAC), ("up", "fe80::5", GATEWAY_MAC)]


def case(name, description):
    made = Case(FOLDER, name, description)
    made.neighbours(KNOWN)
    return made


def from_a(packet):
    return Ether(dst=LEFT, src=A_MAC) / packet


def to_a(packet):
    return Ether(dst=A_MAC, src=LEFT) / packet


def to_b(packet):
    return Ether(dst=B_MAC, src=RIGHT) / packet


def up(packet):
    return Ether(dst=GATEWAY_MAC, src=UP) / packet


def forward():
    made = case("forward", "packets of both versions go to the neighbour or the gateway, with one hop less")
    v4 = lambda dst, ttl, **more: IP(src=A4, dst=dst, ttl=ttl, id=7, **more) / UDP(sport=1, dport=2) / b"four"
    v6 = lambda dst, hops: IPv6(src=A6, dst=dst, hlim=hops, fl=5) / TCP(sport=1, dport=2) / b"six"
    made.step("IPv4 to the other network", "left", from_a(v4(B4, 64)), ("right", to_b(v4(B4, 63))))
    made.step("IPv4 to the gateway", "left", from_a(v4(FAR4, 64)), ("up", up(v4(FAR4, 63))))
    made.step("with options", "left", from_a(v4(B4, 2, options=b"\x01\x01\x01\x00")),
              ("right", to_b(v4(B4, 1, options=b"\x01\x01\x01\x00"))))
    made.step("without its padding", "left", Raw(bytes(from_a(v4(B4, 64))).ljust(60, b"\xee")), ("right", to_b(v4(B4, 63))))
    made.step("IPv6 to the other network", "left", from_a(v6(B6, 64)), ("right", to_b(v6(B6, 63))))
    made.step("IPv6 to the gateway", "left", from_a(v6(FAR6, 2)), ("up", up(v6(FAR6, 1))))
    made.write()


def refused():
    made = case("refused", "what a router must not forward is dropped by name (RFC 1812 section 5.3.7, RFC 4291 section 2.5.6)")
    v4 = lambda src=A4, dst=B4, **more: IP(src=src, dst=dst, **more) / UDP() / b"x"
    v6 = lambda src=A6, dst=B6, **more: IPv6(src=src, dst=dst, **more) / UDP() / b"x"
    made.step("a wrong checksum", "left", broken(from_a(v4()), IP, chksum=1), drops="bad_checksum")
    made.step("a source that no host has", "left", from_a(v4(src="127.0.0.1")), drops="martian_source")
    made.step("to this host", "left", from_a(v4(dst="127.0.0.1")), drops="martian_destination")
    made.step("to a group", "left", from_a(v4(dst="224.0.0.5")), drops="martian_destination")
    made.step("link-local", "left", from_a(v4(src="169.254.1.1")), drops="link_local")
    made.step("IPv6 from a group", "left", from_a(v6(src="ff02::1")), drops="martian_source")
    made.step("IPv6 to this host", "left", from_a(v6(dst="::1")), drops="martian_destination")
    made.step("IPv6 to a group", "left", from_a(v6(dst="ff05::2")), drops="martian_destination")
    made.step("IPv6 from a link-local address", "left", from_a(v6(src="fe80::a")), drops="link_local")
    made.step("longer than its packet", "left", from_a(v6(plen=100)), drops="bad_payload_length")
    made.step("for another station", "left", Ether(dst=B_MAC, src=A_MAC) / v4(), drops="not_for_us")
    made.step("to all on the link", "left", Ether(dst=BROADCAST, src=A_MAC) / v4(), drops="not_for_us")
    made.step("another protocol", "left", Ether(dst=LEFT, src=A_MAC, type=0x88B5) / Raw(bytes(46)), drops="other_protocol")
    made.write()


def reports():
    made = case("reports", "senders are told (RFC 1812 section 4.3, RFC 4443 section 3)")
    v4 = lambda dst=B4, ttl=64, size=4, **more: IP(src=A4, dst=dst, ttl=ttl, id=7, **more) / UDP(sport=1, dport=2) / bytes(size)
    v6 = lambda dst=B6, hops=64, size=4: IPv6(src=A6, dst=dst, hlim=hops) / UDP(sport=1, dport=2) / bytes(size)
    error4 = lambda quote, **kind: IP(src=LEFT4, dst=A4, ttl=255, tos=0xC0, id=0) / ICMP(**kind) / Raw(bytes(quote)[:548])
    error6 = lambda quote, kind: IPv6(src=LEFT6, dst=A6, hlim=255, tc=0xC0) / kind / Raw(bytes(quote)[:1232])
    last = v4(ttl=1)
    made.step("IPv4: no hop is left", "left", from_a(last), ("left", to_a(error4(last, type=11))))
    padded = Raw(bytes(from_a(last)).ljust(60, b"\xee"))
    made.step("padding is not quoted", "left", padded, ("left", to_a(error4(last, type=11))))
    last = v6(hops=1)
    made.step("IPv6: no hop is left", "left", from_a(last), ("left", to_a(error6(last, ICMPv6TimeExceeded()))))
    nowhere = v6(dst="fc00::1")
    made.step("IPv6: no route", "left", from_a(nowhere), ("left", to_a(error6(nowhere, ICMPv6DestUnreach(code=0)))))
    long = v4(size=1000, flags="DF")
    made.step("IPv4: too long", "left", from_a(long), ("left", to_a(error4(long, type=3, code=4, nexthopmtu=900))))
    long = v6(size=1300)
    made.step("IPv6: too long, and the error has 1280 bytes", "left", from_a(long),
              ("left", to_a(error6(long, ICMPv6PacketTooBig(mtu=900)))))
    made.step("not about an error", "left", from_a(IP(src=A4, dst=B4, ttl=1) / ICMP(type=11) / Raw(bytes(28))), drops="ttl_expired")
    made.step("nor an error of IPv6", "left", from_a(IPv6(src=A6, dst=B6, hlim=1) / ICMPv6TimeExceeded() / Raw(bytes(48))),
              drops="ttl_expired")
    ping = IPv6(src=A6, dst=B6, hlim=1) / ICMPv6EchoRequest(id=1, seq=2)
    made.step("about a ping", "left", from_a(ping), ("left", to_a(error6(ping, ICMPv6TimeExceeded()))))
    made.step("nor about a later fragment", "left", from_a(IP(src=A4, dst=B4, ttl=1, frag=3) / Raw(bytes(8))), drops="ttl_expired")
    made.step("of IPv6 neither", "left", from_a(IPv6(src=A6, dst=B6, hlim=1) / IPv6ExtHdrFragment(nh=17, offset=3) / Raw(bytes(8))),
              drops="ttl_expired")
    made.write("", "[ports.right]", "mtu = 900", "", "[after.counters]", "report4.sent = { 1 = 2, 2 = 1 }",
               "report6.sent = { 1 = 2, 2 = 1, 3 = 1 }")


def limited():
    made = case("limited", "no more errors are sent than may be (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4)")
    made.add("", "[tables.report6.errors]", "0 = { rate = 1, burst = 2 }")
    last = IPv6(src=A6, dst=B6, hlim=1) / UDP(sport=1, dport=2) / b"x"
    error = IPv6(src=LEFT6, dst=A6, hlim=255, tc=0xC0) / ICMPv6TimeExceeded() / Raw(bytes(last))
    for note in ("one", "another"):
        made.step(note, "left", from_a(last), ("left", to_a(error)))
    made.step("no more", "left", from_a(last), drops="ttl_expired")
    made.wait("a second", "1s")
    made.step("one again", "left", from_a(last), ("left", to_a(error)))
    made.write()


def cut():
    made = case("fragments", "IPv4 packets that are too long and may be cut are (RFC 791 section 3.2)")
    whole = lambda ttl, **more: IP(src=A4, dst=B4, ttl=ttl, id=7, **more) / UDP(sport=1, dport=2) / bytes(i & 0xFF for i in range(1500))
    made.step("three fragments", "left", from_a(whole(64)), [("right", to_b(part)) for part in fragment(whole(63), fragsize=576)])
    part = fragment(whole(64), fragsize=1200)[0]
    made.step("a fragment of fragments", "left", from_a(part), [("right", to_b(piece)) for piece in again(part)])
    made.write("", "[ports.right]", "mtu = 600")


def again(part):
    """A fragment in three (RFC 791 section 3.2): each has more behind them."""
    data = bytes(part.payload)
    head = dict(src=part.src, dst=part.dst, ttl=part.ttl - 1, id=part.id, proto=part.proto, flags="MF")
    return [IP(**head, frag=0) / Raw(data[:576]), IP(**head, frag=72) / Raw(data[576:1152]), IP(**head, frag=144) / Raw(data[1152:])]


def echo():
    made = case("echo", "the router answers pings for its addresses (RFC 1122 section 3.2.2.6, RFC 4443 section 4.2)")
    four = lambda src, dst, ttl, kind=8: IP(src=src, dst=dst, ttl=ttl) / ICMP(type=kind, id=1, seq=2) / b"abcdefgh"
    six = lambda src, dst, hops, kind=ICMPv6EchoRequest: IPv6(src=src, dst=dst, hlim=hops) / kind(id=1, seq=2, data=b"abcdefgh")
    made.step("IPv4", "left", from_a(four(A4, LEFT4, 9)), ("left", to_a(four(LEFT4, A4, 64, 0))))
    made.step("IPv6", "left", from_a(six(A6, LEFT6, 9)), ("left", to_a(six(LEFT6, A6, 64, ICMPv6EchoReply))))
    made.step("by its link-local address", "left", from_a(six("fe80::a", LEFT_LOCAL, 9)),
              ("left", to_a(six(LEFT_LOCAL, "fe80::a", 64, ICMPv6EchoReply))))
    made.step("a part of one", "left", from_a(IP(src=A4, dst=LEFT4, flags="MF") / ICMP(id=1) / bytes(8)), drops="not_for_us")
    made.step("anything else", "left", from_a(IP(src=A4, dst=LEFT4) / UDP(dport=53)), drops="not_for_us")
    made.write()


def neighbours():
    made = Case(FOLDER, "neighbours", "the router answers ARP and neighbour discovery, and asks for neighbours that it does not know")

    def group(mac, sender, target, option=None):
        """A solicitation to the group of its target (RFC 4291 section 2.7.1, RFC 2464 section 7)."""
        low = ipaddress.ip_address(target).packed[-3:]
        to = ipaddress.ip_address(ipaddress.ip_address("ff02::1:ff00:0").packed[:-3] + low)
        message = Ether(dst="33:33:ff:" + low.hex(":"), src=mac) / IPv6(src=sender, dst=str(to), hlim=255) / ICMPv6ND_NS(tgt=target)
        return message / option if option else message

    made.step("ARP", "left", Ether(dst=BROADCAST, src=A_MAC) / ARP(op=1, hwsrc=A_MAC, psrc=A4, pdst=LEFT4),
              ("left", to_a(ARP(op=2, hwsrc=LEFT, psrc=LEFT4, hwdst=A_MAC, pdst=A4))))
    told = lambda target, flags: to_a(IPv6(src=target, dst=A6, hlim=255) / ICMPv6ND_NA(tgt=target, **flags) / ICMPv6NDOptDstLLAddr(lladdr=LEFT))
    asked = dict(R=1, S=1, O=1)
    source = ICMPv6NDOptSrcLLAddr(lladdr=A_MAC)
    made.step("a solicitation", "left", group(A_MAC, A6, LEFT6, source), ("left", told(LEFT6, asked)))
    made.step("for the link-local address", "left", group(A_MAC, A6, LEFT_LOCAL, source), ("left", told(LEFT_LOCAL, asked)))
    made.step("without the option", "left", group(A_MAC, A6, LEFT6), ("left", told(LEFT6, asked)))
    all_nodes = Ether(dst="33:33:00:00:00:01", src=LEFT) / IPv6(src=LEFT6, dst="ff02::1", hlim=255) \
        / ICMPv6ND_NA(tgt=LEFT6, R=1, S=0, O=1) / ICMPv6NDOptDstLLAddr(lladdr=LEFT)
    made.step("a host that would like the address is told that it is taken", "left", group(A_MAC, "::", LEFT6), ("left", all_nodes))
    made.step("for another's address", "left", group(A_MAC, A6, "2001:db8:1::1:b", source), drops="not_asked")
    far = group(A_MAC, A6, LEFT6, source)
    far[IPv6].hlim = 254
    made.step("from farther away", "left", far, drops="malformed")
    made.step("with a wrong checksum", "left", broken(group(A_MAC, A6, LEFT6, source), ICMPv6ND_NS, cksum=1), drops="bad_checksum")
    packet = lambda hops: IPv6(src=A6, dst=B6, hlim=hops) / UDP(sport=1, dport=2) / b"six"
    question = group(RIGHT, RIGHT6, B6, ICMPv6NDOptSrcLLAddr(lladdr=RIGHT))
    made.step("a neighbour that is not known: the packet is lost, the question goes out", "left", from_a(packet(64)),
              ("right", question), drops="no_neighbour")
    answer = Ether(dst=RIGHT, src=B_MAC) / IPv6(src=B6, dst=RIGHT6, hlim=255) / ICMPv6ND_NA(tgt=B6, R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr=B_MAC)
    made.step("an answer with a wrong checksum is not believed", "right", broken(answer, ICMPv6ND_NA, cksum=1), drops="bad_checksum")
    made.step("so the next packet is lost, too", "left", from_a(packet(64)), ("right", question), drops="no_neighbour")
    made.step("a right one", "right", answer, drops="ended")
    made.step("the next packet", "left", from_a(packet(64)), ("right", to_b(packet(63))))
    v4 = lambda ttl: IP(src=A4, dst=B4, ttl=ttl) / UDP(sport=1, dport=2) / b"four"
    made.step("the same with IPv4", "left", from_a(v4(64)),
              ("right", Ether(dst=BROADCAST, src=RIGHT) / ARP(op=1, hwsrc=RIGHT, psrc=RIGHT4, pdst=B4)), drops="no_neighbour")
    made.step("it answers", "right", Ether(dst=RIGHT, src=B_MAC) / ARP(op=2, hwsrc=B_MAC, psrc=B4, hwdst=RIGHT, pdst=RIGHT4),
              drops="ended")
    made.step("the next packet", "left", from_a(v4(64)), ("right", to_b(v4(63))))
    made.write()


for make in (forward, refused, reports, limited, cut, echo, neighbours):
    make()
