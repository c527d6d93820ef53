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

from packet_cases import Case  # noqa: E402

SERVER, OWN_S, OWN_V, VIEWER = ("02:00:00:00:02:11", "02:00:00:00:02:01", "02:00:00:00:01:01", "02:00:00:00:01:11")
ORIGIN4, PROXY4S, PROXY4V, VIEWER4 = "10.0.2.11", "10.0.2.1", "10.0.1.1", "10.0.1.11"
ORIGIN6, PROXY6S, PROXY6V, VIEWER6 = "2001:db8:2::11", "2001:db8:2::1", "2001:db8:1::1", "2001:db8:1::11"
# What flow entries add, and say.
SEQUENCE, TIMESTAMP, SSRC = 65000, 4000000000, 0x0BADCAFE
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


def sent(src, dst, sequence, timestamp=None, ident=0x4242, **fields):
    """The same as the viewer gets it."""
    timestamp = 90000 + 3000 * (sequence & 0xFFFF) if timestamp is None else timestamp
    numbers = ((sequence + SEQUENCE) & 0xFFFF, (timestamp + TIMESTAMP) & 0xFFFFFFFF, SSRC)
    body = UDP(sport=8000, dport=5000) / rtp(*numbers, **fields)
    return Ether(dst=VIEWER, src=OWN_V) / ip(src, dst, id=ident) / body


def mapped(address):
    return address if ":" in address else f"::ffff:{address}"


class Counted:
    """What is to be counted of the packets of a flow, by the whole list of them; time stands still."""

    def __init__(self):
        self.packets = self.bytes = self.late = self.duplicate = self.restarts = self.lost = self.jitter = 0
        self.ssrc, self.numbers, self.times, self.timestamp, self.highest = 0, [], [], 0, 0

    def add(self, packet):
        datagram = bytes(packet[UDP])
        own = RTP(datagram[8:int.from_bytes(datagram[4:6], "big")])
        self.packets, self.bytes = self.packets + 1, self.bytes + len(own)
        if self.numbers:
            ahead = (own.sequence - self.highest + 0x8000) % 0x10000 - 0x8000
            if own.sourcesync != self.ssrc or ahead > 3000 or ahead < -100:
                self.restarts, self.numbers = self.restarts + 1, []
        if not self.numbers:
            self.ssrc, self.numbers, self.highest, self.timestamp = own.sourcesync, [own.sequence], own.sequence, own.timestamp
            self.times = [own.timestamp]
            return
        number = self.highest + ahead
        if ahead > 0:
            self.lost, self.highest, self.timestamp = self.lost + ahead - 1, number, own.timestamp
        elif number in self.numbers:
            self.duplicate += 1
        else:
            self.late, self.lost = self.late + 1, self.lost - 1
        self.numbers.append(number)
        change = (self.times[-1] - own.timestamp + 2**31) % 2**32 - 2**31
        self.times.append(own.timestamp)
        self.jitter += abs(change) - ((self.jitter + 8) >> 4)

    def value(self):
        seen = sum(1 << (self.highest - number) for number in set(self.numbers) if self.highest - number < 64)
        fields = {
            "packets": self.packets, "bytes": self.bytes, "heard": 0, "seen": seen, "highest": self.highest,
            "timestamp": self.timestamp, "ssrc": self.ssrc, "lost": self.lost, "late": self.late,
            "duplicate": self.duplicate, "restarts": self.restarts, "transit": -self.times[-1] % 2**32,
            "jitter": self.jitter,
        }
        return ", ".join(f"{name} = {value}" for name, value in fields.items())


class Stream(Case):
    """A case with the flow entry of a stream from `origin` to `proxy`, which a viewer gets from `own`."""

    def __init__(self, name, description, origin, proxy, viewer, own, leads="TO_RECEIVER"):
        super().__init__(FOLDER, name, description)
        self.viewer, self.counted = viewer, Counted()
        leads = {"TO_NOBODY": 0, "TO_RECEIVER": 1, "TO_CONTROLLER": 2}[leads]
        self.add(
            "",
            "[[tables.streams.flows]]",
            f'key = {{ src = "{mapped(origin)}", dst = "{mapped(proxy)}", src_port = 6970, dst_port = 20000 }}',
            f'value = {{ dst = "{mapped(viewer)}", src = "{mapped(own)}", dst_port = 5000, src_port = 8000, '
            f"ssrc = {SSRC}, timestamp = {TIMESTAMP}, sequence = {SEQUENCE}, leads = {leads}, rate = 90000, track = 7 }}",
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

case = Stream("tap", "what the controller delivers it gets as it came", *args, leads="TO_CONTROLLER").hop()
packet = received(ORIGIN4, PROXY4S, 65535)
case.streamed("a packet", packet, out=("controller media", packet))
packet = received(ORIGIN4, PROXY4S, 65536)
case.streamed("the next one, beyond the wrap", packet, out=("controller media", packet))
case.write()

case = Stream("counts", "lost, late and double packets are counted", *args, leads="TO_CONTROLLER").hop()
for note, sequence, ssrc in [
    ("the first", 65533, 1), ("two are missing", 65536, 1), ("one of them is late", 65534, 1), ("it comes twice", 65534, 1),
    ("the last one comes twice, too", 65536, 1), ("the next", 65537, 1), ("far beyond", 70000, 1), ("another source", 5, 2),
    ("its next one is missing", 7, 2),
]:
    packet = received(ORIGIN4, PROXY4S, sequence, ssrc=ssrc)
    case.streamed(note, packet, out=("controller media", packet))
case.write()
