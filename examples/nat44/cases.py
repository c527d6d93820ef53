#!/usr/bin/env python3
"""Makes the cases in `cases`: packets built by scapy, which knows nothing of the program. The cases need no scapy.

Usage: cases.py
"""

import ipaddress
import pathlib
import sys

from scapy.all import ARP, ICMP, IP, TCP, UDP, Ether, Raw, fragment

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
sys.path.insert(0, str(FOLDER.parents[2] / "tools"))

from packet_cases import Case, broken

ROUTER_IN, ROUTER_OUT = "02:00:00:00:01:01", "02:00:00:00:02:01"
A_MAC, B_MAC, GATEWAY_MAC = "02:00:00:00:01:0a", "02:00:00:00:01:0b", "02:00:00:00:02:fe"
A, B, INSIDE, PUBLIC, GATEWAY = "192.168.1.10", "192.168.1.11", "192.168.1.1", "203.0.113.5", "203.0.113.1"
WEB, OTHER = "198.51.100.80", "198.51.100.7"

NEIGHBOURS = [("inside", A, A_MAC), ("inside", B, B_MAC), ("outside", GATEWAY, GATEWAY_MAC)]


def from_a(packet):
    return Ether(dst=ROUTER_IN, src=A_MAC) / packet


def from_b(packet):
    return Ether(dst=ROUTER_IN, src=B_MAC) / packet


def to_a(packet):
    return Ether(dst=A_MAC, src=ROUTER_IN) / packet


def to_b(packet):
    return Ether(dst=B_MAC, src=ROUTER_IN) / packet


def arriving(packet):
    return Ether(dst=ROUTER_OUT, src=GATEWAY_MAC) / packet


def leaving(packet):
    return Ether(dst=GATEWAY_MAC, src=ROUTER_OUT) / packet


def case(name, description):
    made = Case(FOLDER, name, description)
    made.neighbours(NEIGHBOURS)
    return made


def ip(src, dst, ttl=64, **fields):
    return IP(src=src, dst=dst, ttl=ttl, **fields)


def sip_hash(key, *words):
    """SipHash-2-4 (Aumasson and Bernstein) of 64-bit words. `key`: (low, high)."""
    mask = (1 << 64) - 1
    left = lambda value, by: (value << by | value >> 64 - by) & mask

    def rounds(v, count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = left(v[1], 13) ^ v[0], left(v[3], 16) ^ v[2]
            v[0] = left(v[0], 32)
            v[2] = (v[2] + v[1]) & mask
            v[0] = (v[0] + v[3]) & mask
            v[1], v[3] = left(v[1], 17) ^ v[2], left(v[3], 21) ^ v[0]
            v[2] = left(v[2], 32)

    low, high = key
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]
    for word in (*words, len(words) << 59 & mask):
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def udp():
    made = case("udp", "UDP goes out with the public address, and what comes back finds its host (RFC 4787)")
    query = lambda src, sport, ttl: ip(src, WEB, ttl, id=7) / UDP(sport=sport, dport=53) / b"who?"
    answer = lambda dst, dport, ttl: ip(WEB, dst, ttl, id=8) / UDP(sport=53, dport=dport) / b"they."
    made.step("the port stays", "inside", from_a(query(A, 5000, 64)), ("outside", leaving(query(PUBLIC, 5000, 63))))
    made.step("the answer", "outside", arriving(answer(PUBLIC, 5000, 60)), ("inside", to_a(answer(A, 5000, 59))))
    made.step("another host may send to it, too", "outside", arriving(ip(OTHER, PUBLIC) / UDP(sport=9, dport=5000) / b"x"),
              ("inside", to_a(ip(OTHER, A, 63) / UDP(sport=9, dport=5000) / b"x")))
    other = ip(A, OTHER) / UDP(sport=5000, dport=9) / b"y"
    made.step("to another host it is the same mapping", "inside", from_a(other),
              ("outside", leaving(ip(PUBLIC, OTHER, 63) / UDP(sport=5000, dport=9) / b"y")))
    padded = Raw(bytes(from_a(query(A, 5000, 64))).ljust(60, b"\xee"))
    made.step("padding is cut off", "inside", padded, ("outside", leaving(query(PUBLIC, 5000, 63))))
    without = ip(A, WEB) / UDP(sport=5000, dport=53, chksum=0) / b"plain"
    made.step("without a checksum", "inside", from_a(without),
              ("outside", leaving(ip(PUBLIC, WEB, 63) / UDP(sport=5000, dport=53, chksum=0) / b"plain")))
    made.step("a port that is not open", "outside", arriving(answer(PUBLIC, 5001, 60)), drops="no_mapping")
    made.step("another address", "outside", arriving(answer("203.0.113.6", 5000, 60)), drops="not_for_us")
    made.write("", "[after.counters]", "nat.opened = 1", "", "[after.entries]", "nat.ports = 1")


def chosen_port(host, port, protocol, attempt):
    """As nat.open chooses it, with the key of nat44.toml."""
    seed = int(ipaddress.ip_address(host)) << 24 | port << 8 | protocol
    random = sip_hash((0x0706050403020100, 0x0F0E0D0C0B0A0908), seed)
    return 1024 + (random >> 8 * attempt & 0xFFFFFFFF) % (65536 - 1024)


def ports():
    made = case("ports", "two hosts with one port: the second gets another, and so do ports that are the system's")
    query = lambda src, sport, ttl: ip(src, WEB, ttl) / UDP(sport=sport, dport=53) / b"who?"
    answer = lambda dst, dport, ttl: ip(WEB, dst, ttl) / UDP(sport=53, dport=dport) / b"they."
    other, ntp = chosen_port(B, 5000, 17, 1), chosen_port(B, 123, 17, 0)
    made.step("A", "inside", from_a(query(A, 5000, 64)), ("outside", leaving(query(PUBLIC, 5000, 63))))
    made.step("B", "inside", from_b(query(B, 5000, 64)), ("outside", leaving(query(PUBLIC, other, 63))))
    made.step("the answer for A", "outside", arriving(answer(PUBLIC, 5000, 60)), ("inside", to_a(answer(A, 5000, 59))))
    made.step("the answer for B", "outside", arriving(answer(PUBLIC, other, 60)), ("inside", to_b(answer(B, 5000, 59))))
    made.step("a port below 1024", "inside", from_b(query(B, 123, 64)), ("outside", leaving(query(PUBLIC, ntp, 63))))
    made.step("its answer", "outside", arriving(answer(PUBLIC, ntp, 60)), ("inside", to_b(answer(B, 123, 59))))
    made.wait("four minutes", "4min")
    made.step("B goes on", "inside", from_b(query(B, 5000, 64)), ("outside", leaving(query(PUBLIC, other, 63))))
    made.wait("one more, and a sweep", "72s")
    made.step("what A had is over", "outside", arriving(answer(PUBLIC, 5000, 60)), drops="no_mapping")
    made.step("what B has is not", "outside", arriving(answer(PUBLIC, other, 60)), ("inside", to_b(answer(B, 5000, 59))))
    made.step("the port is chosen again", "inside", from_b(query(B, 123, 64)), ("outside", leaving(query(PUBLIC, ntp, 63))))
    made.write("", "[after.counters]", "nat.opened = 4", "nat.expired = 2", "", "[after.entries]", "nat.ports = 2")


def tcp():
    made = case("tcp", "a TCP connection from its first segment to its end (RFC 5382)")
    out = lambda flags, ttl=64, src=A, **more: ip(src, WEB, ttl) / TCP(sport=40000, dport=80, flags=flags, **more)
    back = lambda flags, ttl=64, dst=PUBLIC, **more: ip(WEB, dst, ttl) / TCP(sport=80, dport=40000, flags=flags, **more)
    options = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (5, 0))]
    sends = lambda note, flags, **more: made.step(note, "inside", from_a(out(flags, **more)),
                                                  ("outside", leaving(out(flags, 63, PUBLIC, **more))))
    gets = lambda note, flags, **more: made.step(note, "outside", arriving(back(flags, **more)),
                                                 ("inside", to_a(back(flags, 63, A, **more))))
    made.step("nothing is let in before", "outside", arriving(back("S")), drops="no_mapping")
    sends("SYN", "S", seq=100, options=options)
    gets("its answer", "SA", seq=900, ack=101, options=options)
    request = lambda src, ttl: out("PA", ttl, src, seq=101, ack=901) / b"GET / HTTP/1.1\r\n\r\n"
    made.step("a request", "inside", from_a(request(A, 64)), ("outside", leaving(request(PUBLIC, 63))))
    wrong = broken(from_a(request(A, 64)), TCP, chksum=(bytes_sum(from_a(request(A, 64))) + 5) & 0xFFFF)
    shown = broken(leaving(request(PUBLIC, 63)), TCP, chksum=(bytes_sum(leaving(request(PUBLIC, 63))) + 5) & 0xFFFF)
    made.step("a wrong checksum stays wrong by as much", "inside", wrong, ("outside", shown))
    made.wait("an hour of silence", "1h")
    gets("the answer", "PA", seq=901, ack=119)
    sends("FIN", "FA", seq=119, ack=902)
    gets("FIN of the other side", "FA", seq=902, ack=120)
    sends("the last acknowledgement", "A", seq=120, ack=903)
    made.wait("the time that closed connections have is over", "251s")
    made.step("so nothing gets in any more", "outside", arriving(back("A", seq=903, ack=120)), drops="no_mapping")
    made.write("", "[after.counters]", "nat.opened = 1", "nat.expired = 1", "", "[after.entries]", "nat.ports = 0")


def bytes_sum(packet):
    """The TCP checksum that scapy computes."""
    return packet.__class__(bytes(packet))[TCP].chksum


def icmp():
    made = case("icmp", "pings go out by their identifier, and the router itself answers pings (RFC 5508)")
    ping = lambda src, dst, ttl, kind=8: ip(src, dst, ttl) / ICMP(type=kind, id=4711, seq=3) / b"abcdefgh"
    made.step("a request", "inside", from_a(ping(A, WEB, 64)), ("outside", leaving(ping(PUBLIC, WEB, 63))))
    made.step("its answer", "outside", arriving(ping(WEB, PUBLIC, 50, 0)), ("inside", to_a(ping(WEB, A, 49, 0))))
    made.step("an answer without a question", "outside", arriving(ip(WEB, PUBLIC) / ICMP(type=0, id=4712)), drops="no_mapping")
    made.step("the public address answers", "outside", arriving(ping(OTHER, PUBLIC, 50)),
              ("outside", leaving(ping(PUBLIC, OTHER, 64, 0))))
    made.step("on its last hop, too", "outside", arriving(ping(OTHER, PUBLIC, 1)),
              ("outside", leaving(ping(PUBLIC, OTHER, 64, 0))))
    made.step("from inside, too", "inside", from_a(ping(A, PUBLIC, 64)), ("inside", to_a(ping(PUBLIC, A, 64, 0))))
    made.step("and for the router's address there", "inside", from_a(ping(A, INSIDE, 64)),
              ("inside", to_a(ping(INSIDE, A, 64, 0))))
    made.step("other packets for the router", "inside", from_a(ip(A, INSIDE) / UDP(dport=53)), drops="not_for_us")
    made.wait("a minute", "72s")
    made.step("the mapping is over", "outside", arriving(ping(WEB, PUBLIC, 50, 0)), drops="no_mapping")
    made.write()


def errors():
    made = case("errors", "ICMP errors about translated packets find their way, and quote what was sent (RFC 5508 section 4)")
    datagram = lambda src, ttl: ip(src, WEB, ttl, id=9) / UDP(sport=5000, dport=7) / b"too long for a router"
    segment = lambda src, ttl: ip(src, WEB, ttl, id=10) / TCP(sport=40000, dport=80, flags="S", seq=77)
    ping = lambda src, ttl: ip(src, WEB, ttl, id=11) / ICMP(id=4711, seq=1) / b"echo"
    router = "198.51.100.254"
    quoting = lambda src, dst, ttl, quote, **kind: ip(src, dst, ttl, id=3) / ICMP(**kind) / Raw(bytes(quote))
    for note, packet in (("UDP", datagram), ("TCP", segment), ("a ping", ping)):
        made.step(f"{note} goes out", "inside", from_a(packet(A, 64)), ("outside", leaving(packet(PUBLIC, 63))))
    needed = dict(type=3, code=4, nexthopmtu=1400)
    made.step("it is too long for a router on its way", "outside",
              arriving(quoting(router, PUBLIC, 60, datagram(PUBLIC, 5), **needed)),
              ("inside", to_a(quoting(router, A, 59, datagram(A, 5), **needed))))
    over = dict(type=11, code=0)
    made.step("TCP in whole: the quoted checksum follows", "outside",
              arriving(quoting(router, PUBLIC, 60, segment(PUBLIC, 1), **over)),
              ("inside", to_a(quoting(router, A, 59, segment(A, 1), **over))))
    made.step("TCP in the shortest quote", "outside",
              arriving(quoting(router, PUBLIC, 60, bytes(segment(PUBLIC, 1))[:28], **over)),
              ("inside", to_a(quoting(router, A, 59, bytes(segment(A, 1))[:28], **over))))
    made.step("a ping", "outside", arriving(quoting(router, PUBLIC, 60, ping(PUBLIC, 1), **over)),
              ("inside", to_a(quoting(router, A, 59, ping(A, 1), **over))))
    made.step("about what was never sent", "outside",
              arriving(quoting(router, PUBLIC, 60, ip(PUBLIC, WEB) / UDP(sport=5555, dport=7), **over)), drops="no_mapping")
    made.step("about another host's packet", "outside",
              arriving(quoting(router, PUBLIC, 60, ip(OTHER, WEB) / UDP(sport=5000, dport=7), **over)),
              drops="not_translated")
    made.step("with a wrong checksum", "outside",
              broken(arriving(quoting(router, PUBLIC, 60, datagram(PUBLIC, 5), **over)), ICMP, chksum=1),
              drops="bad_checksum")
    made.step("a redirect", "outside",
              arriving(quoting(router, PUBLIC, 60, datagram(PUBLIC, 5), type=5, code=1, gw=OTHER)), drops="not_translated")
    made.step("with half a quote", "outside",
              arriving(quoting(router, PUBLIC, 60, bytes(datagram(PUBLIC, 5))[:24], **over)), drops="not_translated")
    answer = lambda dst, ttl: ip(WEB, dst, ttl, id=12) / UDP(sport=7, dport=5000) / b"no process listens any more"
    made.step("an answer", "outside", arriving(answer(PUBLIC, 60)), ("inside", to_a(answer(A, 59))))
    closed = dict(type=3, code=3)
    made.step("of which its host says that no process listens", "inside", from_a(quoting(A, WEB, 64, answer(A, 59), **closed)),
              ("outside", leaving(quoting(PUBLIC, WEB, 63, answer(PUBLIC, 59), **closed))))
    made.write("", "[after.counters]", "nat.opened = 3")


def reports():
    made = case("reports", "the router tells senders what it does not forward (RFC 1812 sections 4.3 and 5.3.1)")
    last = ip(A, WEB, 1, id=5) / UDP(sport=5000, dport=53) / b"who?"
    error = lambda src, dst, quote, **kind: IP(src=src, dst=dst, ttl=255, tos=0xC0, id=0) / ICMP(**kind) / Raw(bytes(quote))
    made.step("the last hop, from inside", "inside", from_a(last), ("inside", to_a(error(INSIDE, A, last, type=11))))
    back = ip(WEB, PUBLIC, 1, id=6) / UDP(sport=53, dport=5000) / b"they."
    made.step("and from outside", "outside", arriving(back), ("outside", leaving(error(PUBLIC, WEB, back, type=11))))
    long = ip(A, WEB, 64, id=7, flags="DF") / UDP(sport=5000, dport=53) / bytes(1000)
    made.step("too long, and may not be cut: the error has 576 bytes", "inside", from_a(long),
              ("inside", to_a(error(INSIDE, A, bytes(long)[:548], type=3, code=4, nexthopmtu=900))))
    made.step("no error about an error", "inside",
              from_a(ip(A, WEB, 1) / ICMP(type=3, code=3) / Raw(bytes(last))), drops="ttl_expired")
    made.step("nor about a later fragment", "inside", from_a(ip(A, WEB, 1, frag=10) / Raw(bytes(16))), drops="ttl_expired")
    made.step("nor about what was for all on the link", "inside",
              Ether(dst="ff:ff:ff:ff:ff:ff", src=A_MAC) / last, drops="not_for_us")
    made.write("", "[ports.outside]", "mtu = 900", "", "[after.counters]", "report.sent = { 1 = 2, 2 = 1 }",
               "nat.opened = 0")


def fragments():
    made = case("fragments", "fragments follow the first one, and what is too long is cut")
    whole = lambda src, ttl: ip(src, WEB, ttl, id=77) / UDP(sport=5000, dport=53) / bytes(range(200))
    first, second = fragment(whole(A, 64), fragsize=104)
    first_out, second_out = fragment(whole(PUBLIC, 63), fragsize=104)
    made.step("a later one that comes first", "inside", from_a(second), drops="fragment_without_first")
    made.step("the first", "inside", from_a(first), ("outside", leaving(first_out)))
    made.step("the second", "inside", from_a(second), ("outside", leaving(second_out)))
    answer = lambda dst, ttl: ip(WEB, dst, ttl, id=78) / UDP(sport=53, dport=5000) / bytes(range(200))
    for note, arrives, goes in zip(("the answer's first", "and second"), fragment(answer(PUBLIC, 60), fragsize=104),
                                   fragment(answer(A, 59), fragsize=104)):
        made.step(note, "outside", arriving(arrives), ("inside", to_a(goes)))
    long = lambda src, ttl: ip(src, WEB, ttl, id=79) / UDP(sport=5000, dport=53) / bytes(1200)
    cut = fragment(long(PUBLIC, 63), fragsize=880)
    made.step("too long for the way out", "inside", from_a(long(A, 64)), [("outside", leaving(part)) for part in cut])
    made.wait("half a minute", "32s")
    made.step("a fragment that is late", "inside", from_a(second), drops="fragment_without_first")
    made.write("", "[ports.outside]", "mtu = 900")


def neighbours():
    made = Case(FOLDER, "neighbours", "the router answers for its addresses, and asks for those that it must know")
    broadcast = "ff:ff:ff:ff:ff:ff"
    who = lambda mac, sender, target: Ether(dst=broadcast, src=mac) / ARP(op=1, hwsrc=mac, psrc=sender, pdst=target)
    made.step("a request for the router's address", "inside", who(A_MAC, A, INSIDE),
              ("inside", to_a(ARP(op=2, hwsrc=ROUTER_IN, psrc=INSIDE, hwdst=A_MAC, pdst=A))))
    made.step("a request for another's", "inside", who(A_MAC, A, B), drops="not_asked")
    query = lambda src, ttl: ip(src, WEB, ttl) / UDP(sport=5000, dport=53) / b"who?"
    made.step("the gateway is not known yet: the packet is lost", "inside", from_a(query(A, 64)),
              ("outside", who(ROUTER_OUT, PUBLIC, GATEWAY)), drops="no_neighbour")
    told = Ether(dst=ROUTER_OUT, src=GATEWAY_MAC) / ARP(op=2, hwsrc=GATEWAY_MAC, psrc=GATEWAY, hwdst=ROUTER_OUT, pdst=PUBLIC)
    made.step("it answers", "outside", told, drops="ended")
    made.step("the next packet", "inside", from_a(query(A, 64)), ("outside", leaving(query(PUBLIC, 63))))
    answer = lambda dst, ttl: ip(WEB, dst, ttl) / UDP(sport=53, dport=5000) / b"they."
    made.step("the host has asked, so it is known", "outside", arriving(answer(PUBLIC, 60)),
              ("inside", to_a(answer(A, 59))))
    made.write()


def hairpin():
    made = case("hairpin", "inside hosts reach each other by public ports (RFC 4787 section 6)")
    made.step("A opens a port", "inside", from_a(ip(A, WEB) / UDP(sport=5000, dport=53) / b"a"),
              ("outside", leaving(ip(PUBLIC, WEB, 63) / UDP(sport=5000, dport=53) / b"a")))
    made.step("B sends there", "inside", from_b(ip(B, PUBLIC) / UDP(sport=6000, dport=5000) / b"b"),
              ("inside", to_a(ip(PUBLIC, A, 63) / UDP(sport=6000, dport=5000) / b"b")))
    made.step("A answers", "inside", from_a(ip(A, PUBLIC) / UDP(sport=5000, dport=6000) / b"c"),
              ("inside", to_b(ip(PUBLIC, B, 63) / UDP(sport=5000, dport=6000) / b"c")))
    made.step("a port without a host", "inside", from_a(ip(A, PUBLIC) / UDP(sport=5000, dport=6001) / b"d"), drops="no_mapping")
    made.write()


def refused():
    made = case("refused", "what is not translated is dropped by name")
    made.step("another protocol", "inside", from_a(ip(A, WEB, proto=47) / Raw(bytes(40))), drops="not_translated")
    made.step("IPv6", "inside", Ether(dst=ROUTER_IN, src=A_MAC, type=0x86DD) / Raw(bytes(40)), drops="other_protocol")
    made.step("a martian", "inside", from_a(ip("127.0.0.1", WEB) / UDP()), drops="martian_source")
    made.step("to a group", "inside", from_a(ip(A, "224.0.0.251") / UDP()), drops="martian_destination")
    made.step("TCP that ends before its ports", "inside", from_a(ip(A, WEB, proto=6) / Raw(b"abc")), drops="not_translated")
    made.step("TCP that ends before its checksum", "inside", from_a(ip(A, WEB, proto=6) / Raw(bytes(12))), drops="truncated")
    made.step("options in front of UDP are no hindrance", "inside",
              from_a(ip(A, WEB, options=b"\x01\x01\x01\x00") / UDP(sport=5000, dport=53) / b"x"),
              ("outside", leaving(ip(PUBLIC, WEB, 63, options=b"\x01\x01\x01\x00") / UDP(sport=5000, dport=53) / b"x")))
    made.write()


for make in (udp, ports, tcp, icmp, errors, reports, fragments, neighbours, hairpin, refused):
    make()
