#!/usr/bin/env python3
"""Makes the cases in `cases`: packets built by scapy, which knows nothing of the program. The cases need no scapy.

Usage: cases.py
"""

import pathlib
import sys

from scapy.all import IP, UDP, Ether, ICMP, IPv6, Raw
from scapy.layers.rtp import RTP

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
sys.path.insert(0, str(FOLDER.parents[2] / "tools"))

from packet_cases import Case, text  # noqa: E402

SERVER, OWN_S, OWN_V, VIEWER = ("02:00:00:00:02:11", "02:00:00:00:02:01", "02:00:00:00:01:01", "02:00:00:00:01:11")
ORIGIN4, PROXY4S, PROXY4V, VIEWER4 = "10.0.2.11", "10.0.2.1", "10.0.1.1", "10.0.1.11"
ORIGIN6, PROXY6S, PROXY6V, VIEWER6 = "2001:db8:2::11", "2001:db8:2::1", "2001:db8:1::1", "2001:db8:1::11"
# What flow entries add, and say.
SEQUENCE, TIMESTAMP, SSRC, GENERATION = 65000, 4000000000, 0x0BADCAFE, 4
PAYLOAD = bytes(range(200))


def ip(src, dst, **fields):
    if ":" in src:
        return IPv6(src=src, dst=dst, hlim=fields.get("ttl", 64))
    return IP(src=src, dst=dst, id=fields.get("id", 0x4242), flags="DF", ttl=fields.get("ttl", 64))


def rtp(sequence, timestamp, ssrc, payload=PAYLOAD, **fields):
    return RTP(sequence=sequence, timestamp=timestamp, sourcesync=ssrc, payload_type=33, marker=1, **fields) / Raw(payload)


def received(src, dst, sequence, ssrc=0x11223344, sport=6970, dport=20000, timestamp=None, **fields):
    """A packet of the stream, as the origin sends it."""
    timestamp = 90000 + 3000 * (sequence & 0xFFFF) if timestamp is None else timestamp
    body = UDP(sport=sport, dport=dport) / rtp(sequence & 0xFFFF, timestamp & 0xFFFFFFFF, ssrc, **fields)
    return Ether(dst=OWN_S, src=SERVER) / ip(src, dst, ttl=57) / body


def sent(src, dst, sequence, timestamp=None, ident=0x4242, dport=5000, adds=(SEQUENCE, TIMESTAMP, SSRC), **fields):
    """The same as a viewer gets it, which knows it by numbers and a source of its own."""
    timestamp = 90000 + 3000 * (sequence & 0xFFFF) if timestamp is None else timestamp
    numbers = ((sequence + adds[0]) & 0xFFFF, (timestamp + adds[1]) & 0xFFFFFFFF, adds[2])
    body = UDP(sport=8000, dport=dport) / rtp(*numbers, **fields)
    return Ether(dst=VIEWER, src=OWN_V) / ip(src, dst, id=ident) / body


def mapped(address):
    return address if ":" in address else f"::ffff:{address}"


class Counted:
    """What is to be counted of the packets of a flow, by the whole list of them. Times are in nanoseconds."""

    def __init__(self):
        self.packets = self.bytes = self.late = self.duplicate = self.restarts = self.lost = self.jitter = 0
        self.ssrc, self.numbers, self.transit, self.timestamp, self.highest = 0, [], 0, 0, 0
        self.now = self.heard = self.handed = self.fanned = 0

    def add(self, packet):
        datagram = bytes(packet[UDP])
        own = RTP(datagram[8:int.from_bytes(datagram[4:6], "big")])
        self.packets, self.bytes, self.heard = self.packets + 1, self.bytes + len(own), self.now
        transit = self.now // 1000 * 90000 // 1000000 - own.timestamp
        if self.numbers:
            ahead = (own.sequence - self.highest + 0x8000) % 0x10000 - 0x8000
            if own.sourcesync != self.ssrc or ahead > 3000 or ahead < -100:
                self.restarts, self.numbers = self.restarts + 1, []
        if not self.numbers:
            self.ssrc, self.numbers, self.highest, self.timestamp = own.sourcesync, [own.sequence], own.sequence, own.timestamp
            self.transit = transit
            return
        number = self.highest + ahead
        if ahead > 0:
            self.lost, self.highest, self.timestamp = self.lost + ahead - 1, number, own.timestamp
        elif number in self.numbers:
            self.duplicate += 1
        else:
            self.late, self.lost = self.late + 1, self.lost - 1
        self.numbers.append(number)
        change = (transit - self.transit + 2**31) % 2**32 - 2**31
        self.transit = transit
        self.jitter += abs(change) - ((self.jitter + 8) >> 4)

    def value(self):
        seen = sum(1 << (self.highest - number) for number in set(self.numbers) if self.highest - number < 64)
        fields = {
            "packets": self.packets, "bytes": self.bytes, "heard": self.heard, "seen": seen, "highest": self.highest,
            "timestamp": self.timestamp, "ssrc": self.ssrc, "lost": self.lost, "late": self.late,
            "duplicate": self.duplicate, "restarts": self.restarts, "transit": self.transit % 2**32,
            "jitter": self.jitter, "handed": self.handed, "fanned": self.fanned,
        }
        return ", ".join(f"{name} = {value}" for name, value in fields.items())


class Stream(Case):
    """A case with the flow entry of a stream from `origin` to `proxy`, which a viewer gets from `own`."""

    def __init__(self, name, description, origin, proxy, viewer, own, leads="TO_RECEIVER", tapped=False):
        super().__init__(FOLDER, name, description)
        self.viewer, self.counted, self.members = viewer, Counted(), 0
        leads = ["TO_NOBODY", "TO_RECEIVER", "TO_GROUP", "TO_RECEIVER_AGAIN"].index(leads)
        self.add(
            "",
            "[[tables.streams.flows]]",
            f'key = {{ src = "{mapped(origin)}", dst = "{mapped(proxy)}", src_port = 6970, dst_port = 20000 }}',
            f'value = {{ dst = "{mapped(viewer)}", src = "{mapped(own)}", dst_port = 5000, src_port = 8000, '
            f"ssrc = {SSRC}, timestamp = {TIMESTAMP}, sequence = {SEQUENCE}, leads = {leads}, "
            f"tapped = {str(tapped).lower()}, rate = 90000, track = 7, generation = {GENERATION} }}",
        )

    def hop(self, action="NEXT_HOP_SEND", reason="no_reason", mtu=1500):
        """The way to the viewer, as the controller `routes` would set it."""
        version, bits = (6, 128) if ":" in self.viewer else (4, 32)
        self.add(
            "",
            "[tables.routes.hops]",
            f'1024 = {{ action = "{action}", port = "viewers", src = "{OWN_V}", dst = "{VIEWER}", mtu = {mtu}, '
            f'reason = "{reason}", ways = 0, first = 0, number = 1024 }}',
            "",
            f"[tables.routes.routes{version}]",
            f'"{self.viewer}/{bits}" = 1024',
        )
        return self

    def member(self, number, viewer, own, port, adds, since=0):
        """A receiver in the group of the track, and from which number in the flow entry on packets are for it."""
        self.add(
            "",
            "[[tables.streams.receivers]]",
            f"key = {{ group = 7, member = {number} }}",
            f'value = {{ dst = "{mapped(viewer)}", src = "{mapped(own)}", dst_port = {port}, src_port = 8000, '
            f"ssrc = {adds[2]}, timestamp = {adds[1]}, sequence = {adds[0]}, since = {since} }}",
        )
        return self

    def way(self, viewer):
        """Another viewer at the same next hop."""
        version, bits = (6, 128) if ":" in viewer else (4, 32)
        self.add("", f"[tables.routes.routes{version}]", f'"{viewer}/{bits}" = 1024')
        return self

    def waited(self, milliseconds):
        self.counted.now += milliseconds * 1_000_000
        self.wait("time goes on", f"{milliseconds}ms")

    def step(self, note, packet, out=None, drops=None):
        super().step(note, "servers", packet, out, drops)

    def streamed(self, note, packet, **more):
        """A step with a packet that is counted."""
        self.counted.add(packet)
        self.step(note, packet, **more)

    def write(self):
        more = ["", "[after.tables.streams.progress]", f"7 = {{ {self.counted.value()} }}"] if self.counted.packets else []
        super().write(*more)


for name, origin, proxy, viewer, own in [
    ("forward", ORIGIN4, PROXY4S, VIEWER4, PROXY4V),
    ("forward_ipv6", ORIGIN6, PROXY6S, VIEWER6, PROXY6V),
]:
    case = Stream(name, "packets of a stream get the viewer's addresses, ports and numbers", origin, proxy, viewer, own).hop()
    for sequence in (535, 536, 537):
        case.streamed("in order, beyond the wrap of the viewer's numbers", received(origin, proxy, sequence),
                  out=("viewers", sent(own, viewer, sequence)))
    unsummed = received(origin, proxy, 538)
    if ":" not in origin:
        unsummed[UDP].chksum = 0
        answer = sent(own, viewer, 538)
        answer[UDP].chksum = 0
        case.streamed("without a checksum", unsummed, out=("viewers", answer))
    else:
        case.streamed("in order", unsummed, out=("viewers", sent(own, viewer, 538)))
    case.streamed("a source that contributes",
              received(origin, proxy, 539, sync=[9], numsync=1),
              out=("viewers", sent(own, viewer, 539, sync=[9], numsync=1)))
    wrong = received(origin, proxy, 540)
    wrong[UDP].chksum = 0x1234
    right, answer = received(origin, proxy, 540), sent(own, viewer, 540)
    right, answer = Ether(bytes(right)), Ether(bytes(answer))
    # What was wrong stays wrong by as much, in one's complement.
    off = (answer[UDP].chksum + 0x1234 + (~right[UDP].chksum & 0xFFFF))
    off = (off & 0xFFFF) + (off >> 16)
    answer[UDP].chksum = (off & 0xFFFF) + (off >> 16)
    case.streamed("a wrong checksum stays wrong", wrong, out=("viewers", answer))
    case.write()

for name, origin, proxy, viewer, own in [
    ("translate_to_ipv6", ORIGIN4, PROXY4S, VIEWER6, PROXY6V),
    ("translate_to_ipv4", ORIGIN6, PROXY6S, VIEWER4, PROXY4V),
]:
    case = Stream(name, "from one version of IP to the other", origin, proxy, viewer, own).hop()
    for sequence in (1, 2):
        case.streamed("in order", received(origin, proxy, sequence), out=("viewers", sent(own, viewer, sequence, ident=0)))
    short = received(origin, proxy, 3, payload=b"")
    padded = Ether(bytes(short) + bytes(max(0, 60 - len(short))))
    case.streamed("the padding of a short frame is left out", padded,
              out=("viewers", sent(own, viewer, 3, ident=0, payload=b"")))
    if ":" not in origin:
        unsummed = received(origin, proxy, 4)
        unsummed[UDP].chksum = 0
        case.streamed("IPv6 wants a checksum, so it is computed", unsummed,
                  out=("viewers", sent(own, viewer, 4, ident=0)))
    case.write()

args = (ORIGIN4, PROXY4S, VIEWER4, PROXY4V)
case = Stream("host", "all that is no stream's packet is the host's", *args).hop()
reply = Ether(dst=OWN_S, src=SERVER) / ip(ORIGIN4, PROXY4S)
for note, packet in [
    ("another port of the origin", received(ORIGIN4, PROXY4S, 1, sport=6972)),
    ("another own port", received(ORIGIN4, PROXY4S, 1, dport=20002)),
    ("another host", received("10.0.2.12", PROXY4S, 1)),
    ("reports, on the same port", reply / UDP(sport=6970, dport=20000) / Raw(bytes.fromhex("80c8000600000001" + "00" * 20))),
    ("a datagram that is too short for a stream's", reply / UDP(sport=6970, dport=20000) / Raw(b"hi")),
    ("ping", reply / ICMP() / Raw(bytes(40))),
    ("a fragment", Ether(dst=OWN_S, src=SERVER) / IP(src=ORIGIN4, dst=PROXY4S, flags="MF", id=9) / UDP(sport=6970, dport=20000) / rtp(1, 1, 1)),
    ("ARP", Ether(dst="ff:ff:ff:ff:ff:ff", src=SERVER, type=0x0806) / Raw(bytes(28))),
]:
    case.step(note, packet, out=("host", packet))
case.write()

case = Stream("refused", "what a known flow must not be", *args)
wrong = received(ORIGIN4, PROXY4S, 1)
wrong[RTP].version = 1
case.step("another version of RTP", wrong, drops="bad_rtp")
wrong = received(ORIGIN4, PROXY4S, 1)
wrong[UDP].len = 500
case.step("a length beyond the packet", wrong, drops="bad_udp_length")
case.streamed("no way to the viewer is known", received(ORIGIN4, PROXY4S, 1), drops="no_next_hop")
case.write()

for name, description, reason, hop in [
    ("too_big", "a packet that the way has no room for", "too_big", {"mtu": 239}),
    ("unresolved", "a neighbour that the kernel has yet to find", "neighbour_unresolved",
     {"action": "NEXT_HOP_DROP", "reason": "neighbour_unresolved"}),
]:
    case = Stream(name, description, *args).hop(**hop)
    case.streamed("a packet of 240 bytes", received(ORIGIN4, PROXY4S, 1), drops=reason)
    case.write()

case = Stream("nobody", "while nobody plays, packets are dropped and counted", *args, leads="TO_NOBODY").hop()
case.streamed("a packet", received(ORIGIN4, PROXY4S, 1), drops="nobody_plays")
case.write()

# Of the receivers in groups: ports, and what is added to sequence numbers and timestamps, and their sources.
ADDS = [(1, 2, 0x11111111), (65535, 4294967295, 0x22222222), (40000, 123456789, 0x33333333)]
PORTS = [6000, 6002, 7000]

for name, origin, proxy, viewers in [
    ("group", ORIGIN4, PROXY4S, [(VIEWER4, PROXY4V), (VIEWER4, PROXY4V), (VIEWER6, PROXY6V)]),
    ("group_ipv6", ORIGIN6, PROXY6S, [(VIEWER6, PROXY6V), (VIEWER4, PROXY4V), (VIEWER6, PROXY6V)]),
]:
    case = Stream(name, "several viewers each get their own", origin, proxy, *viewers[0], leads="TO_GROUP").hop()
    case.way(VIEWER6 if ":" not in origin else VIEWER4)
    # Number 1 has left.
    for number, (viewer, own), port, adds in zip([0, 2, 3], viewers, PORTS, ADDS):
        case.member(number, viewer, own, port, adds)

    def all_get(sequence, padded=False, **fields):
        outs = []
        for (viewer, own), port, adds in zip(viewers, PORTS, ADDS):
            translated = (":" in viewer) != (":" in origin)
            ident = 0 if translated else 0x4242
            outs.append(("viewers", sent(own, viewer, sequence, ident=ident, dport=port, adds=adds, **fields)))
        return outs

    for sequence in (65533, 65535, 65536):
        case.streamed("in order, beyond the wrap", received(origin, proxy, sequence), out=all_get(sequence))
    short = received(origin, proxy, 65537, payload=b"")
    padded = Ether(bytes(short) + bytes(max(0, 60 - len(short))))
    case.streamed("without the padding of a short frame", padded, out=all_get(65537, payload=b""))
    if ":" not in origin:
        unsummed = received(origin, proxy, 65538)
        unsummed[UDP].chksum = 0
        case.streamed("each gets a checksum where there was none", unsummed, out=all_get(65538))
    case.streamed("late", received(origin, proxy, 65534), out=all_get(65534))
    case.streamed("twice", received(origin, proxy, 65534), out=all_get(65534))
    case.write()

case = Stream("group_late", "packets that the controller has sent to one who came late are for the others", *args, leads="TO_GROUP").hop()
for number, since in [(0, GENERATION), (1, GENERATION + 1), (2, 0)]:
    case.member(number, VIEWER4, PROXY4V, PORTS[number], ADDS[number], since)
case.counted.add(received(ORIGIN4, PROXY4S, 1))
copies = [("viewers", sent(PROXY4V, VIEWER4, 1, dport=PORTS[number], adds=ADDS[number])) for number in (0, 2)]
case.result("two of three", f'in = {{ port = "servers", packet = "{text(received(ORIGIN4, PROXY4S, 1))}" }}', copies, None)
case.add("drops = { not_yet = 1 }")
case.write()

case = Stream("group_no_way", "who can't be reached takes nothing from others", *args, leads="TO_GROUP").hop()
case.member(0, "10.0.9.9", PROXY4V, PORTS[0], ADDS[0]).member(1, VIEWER4, PROXY4V, PORTS[1], ADDS[1])
case.member(2, "2001:db8:9::9", PROXY6V, PORTS[2], ADDS[2])
case.counted.add(received(ORIGIN4, PROXY4S, 1))
case.result("no way to two of three", f'in = {{ port = "servers", packet = "{text(received(ORIGIN4, PROXY4S, 1))}" }}',
            ("viewers", sent(PROXY4V, VIEWER4, 1, dport=PORTS[1], adds=ADDS[1])), None)
case.add("drops = { no_next_hop = 2 }")
case.write()

case = Stream("group_empty", "all have left this moment", *args, leads="TO_GROUP").hop()
case.streamed("a packet", received(ORIGIN4, PROXY4S, 1), drops="no_member")
case.write()

case = Stream("again", "back to one viewer: nothing overtakes what a worker still has", *args, leads="TO_RECEIVER_AGAIN").hop()
case.member(0, VIEWER4, PROXY4V, PORTS[0], ADDS[0])
# A packet went to the group 4 ms after the start, and no later one has come out.
case.counted.handed = 4_000_000
case.add("", "[tables.streams.progress]",
         "7 = { packets = 0, bytes = 0, heard = 0, seen = 0, highest = 0, timestamp = 0, ssrc = 0, lost = 0, late = 0, "
         f"duplicate = 0, restarts = 0, transit = 0, jitter = 0, handed = {case.counted.handed}, fanned = 0 }}")
through = lambda sequence: ("viewers", sent(PROXY4V, VIEWER4, sequence, dport=PORTS[0], adds=ADDS[0]))
case.waited(8)
case.counted.handed = case.counted.fanned = case.counted.now
case.streamed("the first goes to the group, behind those", received(ORIGIN4, PROXY4S, 1), out=through(1))
case.streamed("the next at once: the first may be on its way", received(ORIGIN4, PROXY4S, 2), out=through(2))
case.waited(3)
for sequence in (3, 4):
    case.streamed("all have left", received(ORIGIN4, PROXY4S, sequence), out=("viewers", sent(PROXY4V, VIEWER4, sequence)))
case.write()

case = Stream("tap", "what the controller delivers it gets as it came", *args, leads="TO_NOBODY", tapped=True).hop()
packet = received(ORIGIN4, PROXY4S, 65535)
case.streamed("a packet", packet, out=("controller media", packet), drops="ended")
packet = received(ORIGIN4, PROXY4S, 65536)
case.streamed("the next one, beyond the wrap", packet, out=("controller media", packet), drops="ended")
case.write()

case = Stream("tap_beside", "a viewer over UDP, and one on its connection", *args, tapped=True).hop()
for sequence in (535, 536):
    packet = received(ORIGIN4, PROXY4S, sequence)
    case.streamed("a packet", packet, out=[("controller media", packet), ("viewers", sent(PROXY4V, VIEWER4, sequence))])
case.write()

case = Stream("tap_group", "several viewers over UDP, and one on its connection", *args, leads="TO_GROUP", tapped=True).hop()
for number in (0, 1):
    case.member(number, VIEWER4, PROXY4V, PORTS[number], ADDS[number])
packet = received(ORIGIN4, PROXY4S, 9)
copies = [("viewers", sent(PROXY4V, VIEWER4, 9, dport=PORTS[number], adds=ADDS[number])) for number in (0, 1)]
case.streamed("a packet", packet, out=[("controller media", packet), *copies])
case.write()

case = Stream("counts", "lost, late and double packets are counted", *args, leads="TO_NOBODY", tapped=True).hop()
for note, sequence, ssrc in [
    ("the first", 65533, 1), ("two are missing", 65536, 1), ("one of them is late", 65534, 1), ("it comes twice", 65534, 1),
    ("the last one comes twice, too", 65536, 1), ("the next", 65537, 1), ("far beyond", 70000, 1), ("another source", 5, 2),
    ("its next one is missing", 7, 2),
]:
    packet = received(ORIGIN4, PROXY4S, sequence, ssrc=ssrc)
    case.streamed(note, packet, out=("controller media", packet), drops="ended")
case.write()
