"""Fetches files on connections that stay, and pipelined; compares them: client.py ADDRESS FOLDER NAME..."""

import http.client
import socket
import sys

address, folder, *names = sys.argv[1:]
host = address.strip("[]")
contents = {name: open(f"{folder}/{name}", "rb").read() for name in names}

connection = http.client.HTTPConnection(host, 80, timeout=60)
for turn in range(5):
    for name in names:
        connection.request("GET", f"/{name}")
        response = connection.getresponse()
        assert response.status == 200 and response.read() == contents[name], name
connection.request("HEAD", f"/{names[0]}")
assert connection.getresponse().read() == b""
connection.request("GET", "/missing")
response = connection.getresponse()
assert response.status == 404, response.status
response.read()
connection.close()

# All requests before the first response.
small = [name for name in names if len(contents[name]) < 200_000] * 3
with socket.create_connection((host, 80), timeout=60) as pipelined:
    pipelined.sendall(b"".join(f"GET /{name} HTTP/1.1\r\nHost: test\r\n\r\n".encode() for name in small))
    stream = pipelined.makefile("rb")
    for name in small:
        assert stream.readline().split()[1] == b"200"
        length = 0
        while (line := stream.readline()) != b"\r\n":
            field, value = line.split(b":", 1)
            if field.lower() == b"content-length":
                length = int(value)
        assert stream.read(length) == contents[name], name
