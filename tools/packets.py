"""Packets as bytes, and capture files of them: what tools/traces and tools/npf share."""

import ipaddress
import struct


def mac(text):
    return bytes(int(part, 16) for part in text.split(":"))


def ip(text):
    return bytes(int(part) for part in text.split("."))


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(src, dst, protocol, payload, ttl=64, identification=0):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), identification, 0, ttl, protocol, 0, ip(src), ip(dst))
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ether(dst, src, kind, payload):
    return (mac(dst) + mac(src) + struct.pack("!H", kind) + payload).ljust(60, b"\0")


def arp(operation, sender_mac, sender, target_mac, target):
    return struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, operation, mac(sender_mac), ip(sender), mac(target_mac), ip(target))


def udp(rng, size, src=None, dst=5004):
    src = src or rng.randrange(1024, 65536)
    return struct.pack("!HHHH", src, dst, 8 + size, 0) + rng.randbytes(size)


SYN, ACK, FIN, PSH = 2, 16, 1, 8


def tcp(src, dst, flags, seq, ack, payload=b"", options=b""):
    offset = 5 + len(options) // 4 << 4
    return struct.pack("!HHIIBBHHH", src, dst, seq, ack, offset, flags, 65535, 0, 0) + options + payload


def labels(*stack):
    """Label stack entries of (label, TTL), from the top to the bottom."""
    last = len(stack) - 1
    return b"".join(struct.pack("!I", label << 12 | (at == last) << 8 | ttl) for at, (label, ttl) in enumerate(stack))


def ipv6(src, dst, next_header, payload, hop_limit=64):
    address = lambda text: ipaddress.IPv6Address(text).packed
    return struct.pack("!IHBB", 6 << 28, len(payload), next_header, hop_limit) + address(src) + address(dst) + payload


def block(kind, body):
    body += b"\0" * (-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def pcapng(path, ports, packets):
    """Packets are (port, frame), a microsecond apart."""
    with open(path, "wb") as out:
        out.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for port in ports:
            name = port.encode()
            option = struct.pack("<HH", 2, len(name)) + name + b"\0" * (-len(name) % 4) + struct.pack("<HH", 0, 0)
            out.write(block(1, struct.pack("<HHI", 1, 0, 0) + option))
        number = -1
        for number, (port, frame) in enumerate(packets):
            head = struct.pack("<IIIII", ports.index(port), 0, number, len(frame), len(frame))
            out.write(block(6, head + frame))
        print(f"{path}: {number + 1} packets, {out.tell()} bytes")
