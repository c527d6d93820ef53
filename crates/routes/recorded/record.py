#!/usr/bin/env python3
"""Records what the kernel says over rtnetlink while routes change, and where it sends packets then.

    unshare --net python3 record.py > routes.txt

Lines: `# COMMAND` of ip(8); `E HEX`, an event; `D HEX`, a message of a full dump; `? ADDRESS => WHERE`, what
`ip route get` says from then on. The tests replay the messages, and compare what they conclude with what the kernel itself does.
"""

import re
import socket
import struct
import subprocess
import time

GROUPS = 1 | 4 | 0x10 | 0x40 | 0x100 | 0x400
LINKS, ADDRESSES, ROUTES, NEIGHBOURS = 18, 22, 26, 30

SET_UP = """
link set lo up
link add p1 type veth peer name q1
link add p2 type veth peer name q2
link add p3 type veth peer name q3
link set p1 address 02:00:00:00:01:01 up
link set p2 address 02:00:00:00:02:01 up
link set p3 address 02:00:00:00:03:01 mtu 1400 up
link set q1 up
link set q2 up
link set q3 up
addr add 10.0.1.1/24 dev p1
addr add 10.0.2.1/24 dev p2
addr add 10.0.2.2/24 dev p2
addr add 10.0.3.1/24 dev p3
-6 addr add 2001:db8:1::1/64 dev p1 nodad
-6 addr add 2001:db8:2::1/64 dev p2 nodad
-6 addr add 2001:db8:3::1/64 dev p3 nodad
""".strip().splitlines()

STEPS = """
neigh add 10.0.1.11 dev p1 lladdr 02:00:00:00:00:11
neigh add 10.0.2.12 dev p2 lladdr 02:00:00:00:00:12
neigh add 10.0.3.13 dev p3 lladdr 02:00:00:00:00:13
-6 neigh add 2001:db8:2::12 dev p2 lladdr 02:00:00:00:00:12
-6 neigh add fe80::13 dev p3 lladdr 02:00:00:00:00:13
route add default via 10.0.1.11
route add 10.9.0.0/16 via 10.0.2.12
route add 10.9.0.0/16 via 10.0.3.13 metric 100
route add 10.9.7.0/24 via 10.0.3.13 src 10.0.2.2
route add blackhole 10.9.8.0/24
route add prohibit 10.9.9.0/24
route add unreachable 10.9.10.0/24
route add 10.9.11.0/24 via 10.0.3.13 mtu 1280
route add 10.9.12.1/32 dev p2
route add 10.8.0.0/16 nexthop via 10.0.2.12 weight 1 nexthop via 10.0.3.13 weight 2
route add 10.7.0.0/16 via 192.0.2.1 dev p1 onlink
route append 10.9.7.0/24 via 10.0.2.12
route prepend 10.9.7.0/24 via 10.0.1.11
route del 10.9.7.0/24 via 10.0.1.11
route replace 10.9.0.0/16 via 10.0.1.11
route del 10.9.0.0/16 metric 0
route add 10.9.0.0/16 via 10.0.2.12
nexthop add id 7 via 10.0.2.12 dev p2
nexthop add id 8 via 10.0.3.13 dev p3
nexthop add id 9 group 7/8
route add 10.6.0.0/16 nhid 7
route add 10.5.0.0/16 nhid 9
nexthop replace id 7 via 10.0.3.13 dev p3
nexthop replace id 9 group 8
route add 10.4.0.0/16 table 100 via 10.0.2.12
-6 route add default via fe80::13 dev p3
-6 route add 2001:db8:9::/48 via 2001:db8:2::12
-6 route add 2001:db8:9::/48 via fe80::13 dev p3 metric 2048
-6 route add 2001:db8:8::/48 nexthop via 2001:db8:2::12 nexthop via fe80::13 dev p3
-6 route append 2001:db8:9::/48 via fe80::13 dev p3
-6 route del 2001:db8:9::/48 via 2001:db8:2::12
-6 route replace 2001:db8:9::/48 via 2001:db8:2::12
-6 route add blackhole 2001:db8:a::/48
-6 route add prohibit 2001:db8:b::/48
-6 route add 2001:db8:c::/48 via 2001:db8:2::12 mtu 1300
route add 10.3.0.0/16 via inet6 fe80::13 dev p3
addr del 10.0.2.2/24 dev p2
link set p3 down
link set p3 up
link set q2 down
link set q2 up
link set p3 mtu 1450
link set p3 address 02:00:00:00:03:02
neigh del 10.0.2.12 dev p2
-6 route flush root 2001:db8:8::/47
route flush root 10.8.0.0/13
link del p2
""".strip().splitlines()

ADDRESSES4 = """10.0.1.1 10.0.1.255 10.0.1.11 10.0.2.12 10.0.2.77 127.0.0.1 8.8.8.8 10.9.1.1 10.9.7.1 10.9.8.1 10.9.9.1
10.9.10.1 10.9.11.1 10.9.12.1 10.8.1.1 10.7.1.1 10.6.1.1 10.5.1.1 10.4.1.1 10.3.1.1 10.0.3.13""".split()
ADDRESSES6 = """2001:db8:1::1 2001:db8:2::12 2001:db8:2::99 2001:db8:9::1 2001:db8:8::1 2001:db8:a::1 2001:db8:b::1
2001:db8:c::1 2001:4860::1""".split()


def open_socket(groups):
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    found.bind((0, groups))
    return found


def messages(datagram):
    while len(datagram) >= 16:
        length, kind = struct.unpack_from("=IH", datagram)
        yield kind, datagram[:length]
        datagram = datagram[(length + 3) & ~3:]


def events(monitor):
    monitor.settimeout(0.15)
    try:
        while True:
            for _, message in messages(monitor.recv(1 << 16)):
                print("E", message.hex())
    except TimeoutError:
        pass


def dump(kind, family):
    asker = open_socket(0)
    asker.send(struct.pack("=IHHII", 32, kind, 0x301, 1, 0) + bytes([family]) + bytes(15))
    while True:
        for kind, message in messages(asker.recv(1 << 16)):
            if kind in (2, 3):
                return
            print("D", message.hex())


def dump_all():
    for kind, families in ((LINKS, [0]), (ADDRESSES, [0]), (NEIGHBOURS, [0]), (ROUTES, [2, 10])):
        for family in families:
            dump(kind, family)


def ip(arguments):
    return subprocess.run(["ip", *arguments.split()], capture_output=True, text=True)


def where(address):
    said = ip(f"-o route get {address}")
    text = " ".join(said.stdout.split())
    if said.returncode:
        error = said.stderr
        answers = {"Invalid": "blackhole", "denied": "prohibited", "No route to host": "unreachable", "unreachable": "no_route"}
        return next((answer for text, answer in answers.items() if text in error), error.strip())
    if re.match(r"(local|broadcast|multicast|anycast) ", text):
        return "host"
    part = lambda name: (re.search(rf" {name} (\S+)", text) or [None, "-"])[1]
    gateway = re.search(r" via (?:inet6 )?(\S+)", text)
    return f"dev {part('dev')} via {gateway[1] if gateway else '-'} src {part('src')}"


def main():
    for command in SET_UP:
        done = ip(command)
        assert done.returncode == 0, (command, done.stderr)
    time.sleep(1)
    monitor = open_socket(GROUPS)
    events(monitor)
    print("# at the start")
    dump_all()
    said = {}
    for command in STEPS:
        print("#", command)
        done = ip(command)
        assert done.returncode == 0, (command, done.stderr)
        events(monitor)
        if re.match("addr del|link set .* (up|down)$|link del", command):
            # The kernel says nothing of some routes that go with these.
            dump_all()
        for address in ADDRESSES4 + ADDRESSES6:
            now = where(address)
            if said.get(address) != now:
                print("?", address, "=>", now)
            said[address] = now
    print("# at the end")
    dump_all()


main()
