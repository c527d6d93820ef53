#!/usr/bin/env python3
"""Makes the cases in `cases`: headers, checksums, cookies and null packets by the RFCs, by code of its own.

Usage: cases.py
"""

import ipaddress
import pathlib
import struct
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "cases"
sys.path.insert(0, str(FOLDER.parents[2] / "tools"))

from packet_cases import Case, text  # noqa: E402

VIEWER_MAC, OWN_V, SERVER_MAC, OWN_S = (
    bytes.fromhex(mac) for mac in ("020000000111", "020000000101", "020000000211", "020000000201"))
ADDRESSES = {4: ("10.0.1.11", "10.0.1.1"), 6: ("2001:db8:1::11", "2001:db8:1::1")}
SOURCE = ("10.0.2.11", "10.0.2.1")
CLIENT_PORT, PORT = 50000, 80
KEYS = (12345678901234567, 987654321098765)
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
FIRST = 1000
WINDOW = 16384
REQUEST = b"GET /hall HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nConnection: close\r\n\r\n"
CONNECTION, GENERATION, STREAM = 1, 77, 3


def checksum(*parts):
    """RFC 1071."""
    data = b"".join(parts)
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packed(address):
    return ipaddress.ip_address(address).packed


def mapped(address):
    own = ipaddress.ip_address(address)
    return own.packed if own.version == 6 else bytes(10) + b"\xff\xff" + own.packed


def ip_frame(macs, src, dst, protocol, upper, at=None, **fields):
    """A frame with an IP packet; `at`: where the checksum of what is in it lies, over a pseudo header."""
    a, b = packed(src), packed(dst)
    if at is not None:
        end = ("!BBH", 0, protocol, len(upper)) if len(a) == 4 else ("!II", len(upper), protocol)
        pseudo = a + b + struct.pack(*end)
        upper = upper[:at] + struct.pack("!H", checksum(pseudo, upper)) + upper[at + 2:]
    if len(a) == 16:
        header = struct.pack("!IHBB", 6 << 28, len(upper), protocol, fields.get("ttl", 64)) + a + b
        return macs[0] + macs[1] + b"\x86\xdd" + header + upper
    numbers = (0x45, 0, 20 + len(upper), fields.get("ident", 0), 0x4000, fields.get("ttl", 64), protocol, 0)
    header = struct.pack("!BBHHHBBH", *numbers)
    header += a + b
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return macs[0] + macs[1] + b"\x08\0" + header + upper


def tcp(sport, dport, seq, ack, flags, window, options=b"", payload=b""):
    assert len(options) % 4 == 0
    numbers = (sport, dport, seq % 2**32, ack % 2**32, (5 + len(options) // 4) << 4, flags, window, 0, 0)
    return struct.pack("!HHIIBBHHH", *numbers) + options + payload


def siphash(keys, words):
    """SipHash-2-4 by the paper, of whole words."""
    mask = 2**64 - 1
    v = [keys[0] ^ 0x736F6D6570736575, keys[1] ^ 0x646F72616E646F6D]
    v += [keys[0] ^ 0x6C7967656E657261, keys[1] ^ 0x7465646279746573]

    def rotate(x, bits):
        return ((x << bits) | (x >> (64 - bits))) & mask

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    for word in [*words, len(words) * 8 % 256 << 56]:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def cookie(version, mss_number, scale, sack, period=0):
    """The sequence number of the answer to the SYN: see `tcp/cookie` for its bits."""
    client, own = (int.from_bytes(mapped(address), "big") for address in ADDRESSES[version])
    half = 2**64 - 1
    words = [client >> 64, client & half, own >> 64, own & half, CLIENT_PORT << 48 | PORT << 32 | period]
    flow, all_ = siphash(KEYS, words), siphash(KEYS, [*words, FIRST])
    kept = mss_number << 5 | scale << 1 | sack
    return ((all_ ^ kept << 24) & 0xFF0FFFFF) | (period & 1) << 23 | (flow & 0x700000)


def ts(number, packets=7):
    """Packets of MPEG-TS that say which they are."""
    def one(own):
        rest = bytes((number + own + i) & 255 for i in range(181))
        return b"\x47\x01\x00\x10" + struct.pack("!HB", number, own) + rest

    return b"".join(map(one, range(packets)))


NULLS = (b"\x47\x1f\xff\x10" + bytes(184)) * 7


class Viewer:
    """A case with a client of HTTP, whose connection is open and plays."""

    def __init__(self, name, description, version=4):
        self.version, self.case = version, Case(FOLDER, name, description)
        self.client, self.own = ADDRESSES[version]
        self.isn = cookie(version, 6, 7, 1)
        self.base = self.isn + 1
        self.seq = FIRST + 1
        self.sent = 0
        self.packets = 0
        self.room = WINDOW
        self.tables()
        self.begin()

    def tables(self):
        self.case.lines[0] = "# Made by cases.py."
        self.case.add("", "[tables.accept.secret]", f"0 = {{ key0 = {KEYS[0]}, key1 = {KEYS[1]} }}")
        for number, (version, mss) in enumerate(((4, 1460), (6, 1440)), 1):
            address = str(ipaddress.IPv6Address(mapped(ADDRESSES[version][1])))
            self.case.add("", "[[tables.accept.services]]", f'key = {{ address = "{address}", port = {PORT} }}',
                          f"value = {{ number = {number}, mss = {mss}, scale = 0 }}")
        self.case.add(
            "", "[[tables.origins.flows]]",
            f'key = {{ src = "::ffff:{SOURCE[0]}", dst = "::ffff:{SOURCE[1]}", src_port = 5000, dst_port = 5001 }}',
            f"value = {{ stream = {STREAM}, form = 0, payload_type = 33 }}",
            "", "[tables.ring.settings]", f"{STREAM} = {{ reorder_ms = 0, playout_ms = 1000, lag_ms = 2000, rate = 0, start_ms = 0, marked = false }}",
           
            "", "[[tables.ring.viewers]]", f"key = {{ group = {STREAM}, member = 0 }}",
            f"value = {{ connection = {CONNECTION} }}",
            "", "[tables.routes.hops]",
            '1024 = { action = "NEXT_HOP_SEND", port = "viewers", src = "02:00:00:00:01:01", '
            'dst = "02:00:00:00:01:11", mtu = 1500, reason = "no_reason", ways = 0, first = 0, number = 1024 }',
            "", "[tables.routes.routes4]", '"10.0.1.0/24" = 1024', "",
            "[tables.routes.routes6]", '"2001:db8:1::/64" = 1024')

    def segment(self, flags, ack, payload=b"", options=b"", seq=None, window=500):
        """One of the client; `ack` counts from the first byte that it gets."""
        number = self.seq if seq is None else seq
        upper = tcp(CLIENT_PORT, PORT, number, self.base + ack, flags, window, options, payload)
        return ip_frame((OWN_V, VIEWER_MAC), self.client, self.own, 6, upper, 16)

    def answer(self, flags, seq, payload=b"", window=None, ack=None, options=b""):
        """One for the client."""
        window, ack = self.room if window is None else window, self.seq if ack is None else ack
        upper = tcp(PORT, CLIENT_PORT, self.base + seq, ack, flags, window, options, payload)
        return ("viewers", ip_frame((VIEWER_MAC, OWN_V), self.own, self.client, 6, upper, 16))

    def step(self, note, packet, out=None, drops=None, port="viewers"):
        self.case.step(note, port, packet, out, drops)

    def wait(self, note, time, out=None, drops=None):
        self.case.result(note, f'wait = "{time}"', out, drops)

    def inject(self, note, where, data, metadata, out=None, drops=None):
        fields = ", ".join(f"{name} = {value}" for name, value in metadata.items())
        with_ = f", metadata = {{ {fields} }}" if fields else ""
        packet = f'in = {{ port = "controller translate -> {where}", packet = "{text(data)}"{with_} }}'
        self.case.result(note, packet, out, drops)

    def ack(self, note, ack, options=b""):
        """An acknowledgement, which is answered by nothing."""
        self.step(note, self.segment(ACK, ack, options=options), None, "ended")

    def syn(self):
        upper = tcp(CLIENT_PORT, PORT, FIRST, 0, SYN, 64240, bytes.fromhex("020405b40402080a000000010000000001030307"))
        syn = ip_frame((OWN_V, VIEWER_MAC), self.client, self.own, 6, upper, 16)
        mss = "020405b4" if self.version == 4 else "020405a0"
        options = bytes.fromhex(mss + "04020101" + "01010101" * 2 + "01030300")
        answer = self.answer(SYN | ACK, -1, window=WINDOW, ack=FIRST + 1, options=options)
        self.step("a SYN: the answer is a cookie, and timestamps are declined", syn, answer)

    def request(self):
        self.step("the end of the handshake leaves no trace", self.segment(ACK, 0), None, "no_request")
        request = self.segment(PSH | ACK, 0, REQUEST)
        self.seq += len(REQUEST)
        self.room -= len(REQUEST)
        out = [("controller translate", request[14 + (20 if self.version == 4 else 40):]), self.answer(ACK, 0)]
        self.step("a request goes to the controller, and is acknowledged", request, out)

    def order(self, note, kind, out=None):
        """`fill`: buffered, `rate`: none, `policy`: oldest."""
        order = struct.pack("!BBBBIII", kind, 0, 2, 0, CONNECTION, GENERATION, STREAM)
        order += mapped(self.client) + mapped(self.own)
        self.inject(note, "orders.input", order + struct.pack("!HHI", CLIENT_PORT, PORT, 0), {}, out, "ended")

    def notice(self, kind, reason, documents):
        return ("controller translate", struct.pack("!BBHIII", kind, reason, 0, CONNECTION, GENERATION, documents))

    def begin(self):
        self.syn()
        self.request()
        self.order("the controller opens the connection", 1)
        head = bytes(12) + b"\x50" + bytes(7) + HEAD
        self.inject("the head of the response, and the stream behind it", "documents.input", head,
                    {"connection": CONNECTION, "index": 0, "next": 1})
        self.wait("it is sent", "1ms", self.answer(PSH | ACK, 0, HEAD))
        self.sent = len(HEAD)
        self.ack("it has come", self.sent)
        self.wait("the controller knows", "1ms", self.notice(1, 0, 1))

    def datagram(self, number, payload):
        rtp = struct.pack("!BBHII", 0x80, 33, number, number * 900, 9) + payload
        udp = struct.pack("!HHHH", 5000, 5001, 8 + len(rtp), 0) + rtp
        return ip_frame((OWN_S, SERVER_MAC), *SOURCE, 17, udp, 6, ttl=57, ident=0x4242)

    def packet(self, note, payload=None, out=True):
        """A packet of the stream, and the segment that it becomes."""
        payload = ts(self.packets) if payload is None else payload
        becomes = self.answer(PSH | ACK, self.sent, payload) if out else None
        self.step(note, self.datagram(100 + self.packets, payload), becomes, None if out else "ended", port="servers")
        self.packets += 1
        self.sent += len(payload)
        return payload

    def sack(self, *blocks):
        """An option with blocks, as numbers from the first byte on."""
        edges = b"".join(struct.pack("!II", (self.base + a) % 2**32, (self.base + b) % 2**32) for a, b in blocks)
        return b"\x01\x01\x05" + bytes([2 + len(edges)]) + edges

    def write(self):
        self.case.write()


def handshake():
    viewer = Viewer("ipv6", "handshake with a cookie, request, head and stream, over IPv6", 6)
    viewer.packet("RTP's 20 bytes become TCP's")
    viewer.packet("the next one")
    viewer.ack("both have come", viewer.sent)
    viewer.wait("nothing is to be sent", "1ms")
    viewer.write()


def fin():
    viewer = Viewer("fin", "a client that closes its side gets no more of the stream, and our FIN")
    viewer.packet("the last packet")
    fin = viewer.segment(FIN | ACK, viewer.sent)
    viewer.seq += 1
    viewer.step("its FIN is acknowledged", fin, viewer.answer(ACK, viewer.sent))
    viewer.wait("and ours follows", "1ms", [viewer.answer(FIN | ACK, viewer.sent), viewer.notice(2, 0, 1)])
    viewer.packet("the stream goes on without it", out=False)
    viewer.sent -= 1316
    viewer.ack("ours has come", viewer.sent + 1)
    viewer.wait("and the connection is over", "3s", viewer.notice(3, 1, 1))
    viewer.write()


def lost(viewer):
    begin = viewer.sent
    first = viewer.packet("this one gets lost")
    for _ in range(3):
        viewer.packet("one that comes")
    viewer.ack("three are there, one is missing", begin, viewer.sack((begin + 1316, viewer.sent)))
    viewer.wait("it is sent again, as it was", "1ms", viewer.answer(PSH | ACK, begin, first))
    viewer.ack("all have come", viewer.sent)
    viewer.wait("nothing is left", "1ms")


def damaged(viewer):
    begin = viewer.sent
    good = ts(viewer.packets)
    frame = bytearray(viewer.datagram(100 + viewer.packets, good))
    frame[300] ^= 0x10
    # The sum of what the source has sent is the segment's.
    segment = bytearray(viewer.answer(PSH | ACK, begin, good)[1])
    segment[300] ^= 0x10
    assert frame[54:] == segment[54:]
    viewer.step("a bit of the payload has changed", frame, ("viewers", segment), port="servers")
    viewer.packets, viewer.sent = viewer.packets + 1, begin + 1316
    for _ in range(3):
        viewer.packet("one that comes")
    viewer.ack("the client misses the first", begin, viewer.sack((begin + 1316, viewer.sent)))
    viewer.wait("null packets come in its place", "1ms", viewer.answer(PSH | ACK, begin, NULLS), "damaged_packet")
    viewer.ack("all have come", viewer.sent)
    viewer.wait("nothing is left", "1ms")


def narrow(viewer):
    begin = viewer.sent
    payload = viewer.packet("1356 bytes of IP")
    quoted = viewer.answer(PSH | ACK, begin, payload)[1][14:]
    icmp = struct.pack("!BBHHH", 3, 4, 0, 0, 600) + quoted[:28]
    icmp = icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:]
    viewer.step("a router takes 600", ip_frame((OWN_V, VIEWER_MAC), "10.0.1.99", viewer.own, 1, icmp), None, "ended")
    parts = [(at, payload[at:at + 376]) for at in range(0, 1316, 376)]
    again = [viewer.answer(PSH | ACK, begin + at, part) for at, part in parts]
    viewer.wait("two packets of MPEG-TS fit, and one is left", "1ms", again)
    viewer.ack("all parts have come", begin + 1316)


def reset(viewer):
    near = viewer.segment(RST, viewer.sent, seq=viewer.seq + 5)
    viewer.step("a reset with a number near by is challenged", near, viewer.answer(ACK, viewer.sent))
    viewer.step("the right one", viewer.segment(RST, viewer.sent), None, "ended")
    viewer.wait("the controller knows, and nobody else is told", "1ms", viewer.notice(3, 2, 1))


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)
    FOLDER.mkdir(exist_ok=True)
    handshake()
    fin()
    story = Viewer("connection", "a connection with a lost segment, a damaged datagram, a narrow path and a reset")
    lost(story)
    damaged(story)
    narrow(story)
    reset(story)
    story.write()
