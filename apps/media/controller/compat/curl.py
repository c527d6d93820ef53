#!/usr/bin/python3
"""The RTSP verbs of libcurl: plays the picture of a film to its end, and writes its H.264 stream to a file.

    curl.py URL udp|tcp FILE

Needs python3-pycurl.
"""

import io
import select
import socket
import sys

import pycurl

BYE = 203


class Client:
    """A connection; what is asked on it."""

    def __init__(self, url):
        self.curl = pycurl.Curl()
        self.url = url
        self.curl.setopt(pycurl.URL, url)

    def ask(self, what, uri, take=None, **options):
        head, body = io.BytesIO(), io.BytesIO()
        self.curl.setopt(pycurl.OPT_RTSP_REQUEST, what)
        self.curl.setopt(pycurl.OPT_RTSP_STREAM_URI, uri)
        self.curl.setopt(pycurl.HEADERFUNCTION, head.write)
        self.curl.setopt(pycurl.WRITEFUNCTION, take or body.write)
        for name, value in options.items():
            self.curl.setopt(getattr(pycurl, name), value)
        self.curl.perform()
        status = self.curl.getinfo(pycurl.RESPONSE_CODE)
        if status != 200:
            sys.exit(f"{status} for {uri}:\n{head.getvalue().decode()}")
        lines = [line.split(": ", 1) for line in head.getvalue().decode().split("\r\n") if ": " in line]
        return {name.lower(): value for name, value in lines}, body.getvalue()


def pair():
    """Sockets at an even port and the next one."""
    while True:
        media = socket.socket(socket.AF_INET6 if "[" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
        media.bind(("", 0))
        port = media.getsockname()[1]
        reports = socket.socket(media.family, socket.SOCK_DGRAM)
        try:
            reports.bind(("", port + 1))
        except OSError:
            continue
        if port % 2 == 0:
            return media, reports


def is_bye(packet):
    """A compound packet of RTCP that has BYE in it (RFC 3550 section 6.1)."""
    while len(packet) >= 4:
        if packet[1] == BYE:
            return True
        packet = packet[4 * (1 + int.from_bytes(packet[2:4], "big")) :]
    return False


def by_udp(media, reports):
    packets = []
    while True:
        ready, _, _ = select.select([media, reports], [], [], 20)
        if not ready:
            sys.exit(f"nothing came any more after {len(packets)} packets, and no BYE")
        if media in ready:
            packets.append(media.recv(65536))
        elif is_bye(reports.recv(65536)):
            return packets


class Carried:
    """Packets on the connection: the first ones come right behind the answer to PLAY."""

    def __init__(self):
        self.packets, self.is_over = [], False

    # What libcurl calls where there is no INTERLEAVEFUNCTION, which pycurl does not know.
    def take(self, data):
        channel, packet = data[1], data[4:]
        if channel == 0:
            self.packets.append(packet)
        elif is_bye(packet):
            self.is_over = True


def by_connection(client, carried):
    client.curl.setopt(pycurl.WRITEFUNCTION, carried.take)
    while not carried.is_over:
        client.curl.setopt(pycurl.OPT_RTSP_REQUEST, pycurl.RTSPREQ_RECEIVE)
        client.curl.perform()
    return carried.packets


def picture(packets):
    """The byte stream of H.264 in RTP packets (RFC 6184): single units and FU-A."""
    numbers = [int.from_bytes(packet[2:4], "big") for packet in packets]
    gaps = [(a, b) for a, b in zip(numbers, numbers[1:]) if (b - a) % 65536 != 1]
    if gaps:
        sys.exit(f"sequence numbers are not in order: {gaps}")
    stream = b""
    for packet in packets:
        unit = packet[12:]
        if unit[0] & 31 != 28:
            stream += b"\0\0\0\1" + unit
        else:
            first = b"\0\0\0\1" + bytes([unit[0] & 0xE0 | unit[1] & 31]) if unit[1] & 0x80 else b""
            stream += first + unit[2:]
    return stream


url, transport, file = sys.argv[1:]
client = Client(url)
headers, _ = client.ask(pycurl.RTSPREQ_OPTIONS, url)
assert "PLAY" in headers["public"], headers
headers, description = client.ask(pycurl.RTSPREQ_DESCRIBE, url)
controls = [line[10:] for line in description.decode().split("\r\n") if line.startswith("a=control:")]
track = controls[1] if "://" in controls[1] else headers["content-base"].rstrip("/") + "/" + controls[1]
if transport == "udp":
    sockets = pair()
    port = sockets[0].getsockname()[1]
    wanted = f"RTP/AVP;unicast;client_port={port}-{port + 1}"
else:
    wanted = "RTP/AVP/TCP;unicast;interleaved=0-1"
client.ask(pycurl.RTSPREQ_SETUP, track, OPT_RTSP_TRANSPORT=wanted)
carried = Carried()
client.ask(pycurl.RTSPREQ_PLAY, url, None if transport == "udp" else carried.take, RANGE="npt=0.000-")
packets = by_udp(*sockets) if transport == "udp" else by_connection(client, carried)
client.ask(pycurl.RTSPREQ_TEARDOWN, url)
with open(file, "wb") as output:
    output.write(picture(packets))
