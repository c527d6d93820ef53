#!/usr/bin/env python3
"""Makes the cases in `cases`: packets built by scapy, which knows nothing of the program. The cases need no scapy.

Usage: cases.py
"""

import pathlib
import sys

from scapy.all import IP, TCP, UDP, Ether, Raw
from scapy.layers.rtp import RTP

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
sys.path.insert(0, str(FOLDER.parents[2] / "tools"))

from packet_cases import Case, broken

FRAME = Ether(dst="02:00:00:00:00:0a", src="02:00:00:00:00:09")


def ip(**fields):
    return IP(src="10.0.0.1", dst="192.0.2.9", id=7, ttl=63, **fields)


def media(payload, timestamp=0x01020304, options=None, **fields):
    header = RTP(sequence=5, timestamp=timestamp, sourcesync=0xDECADE, payload_type=96, **fields)
    return FRAME / ip(options=options or []) / UDP(sport=5004, dport=61000) / header / Raw(payload)


def segment(payload, timestamp=0x01020304, options=None):
    header = TCP(sport=5004, dport=61000, seq=timestamp, ack=0, flags="A", window=0)
    return FRAME / ip(options=options or []) / header / Raw(payload)


def add(packet, wrong):
    """What a checksum that is off by so much is after the same bytes were taken out and others put in."""
    return (packet + wrong) % 0xFFFF


case = Case(FOLDER, "replace", "the headers of UDP and RTP become one of TCP, whose checksum is right where UDP's was")
for length in (0, 1, 2, 3, 188, 1328):
    payload = bytes(n * 7 % 251 for n in range(length))
    case.step(f"a payload of {length} bytes", "media", media(payload), ("viewer", segment(payload)))
payload = b"one frame of video"
for timestamp in (0, 0xFFFFFFFF):
    case.step(f"timestamp {timestamp}", "media", media(payload, timestamp), ("viewer", segment(payload, timestamp)))
options = b"\x01\x01\x01\x00"
case.step("behind options of IPv4", "media", media(payload, options=options),
          ("viewer", segment(payload, options=options)))
good, translated = media(payload), segment(payload)
wrong = add(bytes(good[UDP])[6] << 8 | bytes(good[UDP])[7], 0x1234)
still = add(bytes(translated[TCP])[16] << 8 | bytes(translated[TCP])[17], 0x1234)
case.step("a wrong checksum stays wrong, by as much", "media", broken(good, UDP, chksum=wrong),
          ("viewer", broken(translated, TCP, chksum=still)))
case.step("half of RTP's header", "media", Raw(bytes(media(b""))[:-6]), drops="truncated")
case.step("contributing sources", "media", media(payload, numsync=1), drops="not_rtp")
case.step("padding", "media", media(payload, padding=1), drops="not_rtp")
case.step("no UDP", "media", segment(payload), drops="not_rtp")
case.step("a length that is not IP's", "media", broken(good, UDP, len=30), drops="not_rtp")
case.write()
