"""What a data centre offers its nodes, at 10.77.0.1: packages (HTTP), names (DNS), time (NTP).

`python -m nodeprep.lab.services NETNS LOG DEBIAN NVIDIA NAMES_JSON`. Standard library only. Every
HTTP request is logged as `<seconds since the epoch> <client> <status> <path>`.
"""

from __future__ import annotations

import http.server
import json
import socket
import socketserver
import struct
import sys
import threading
import time
from pathlib import Path

from nodeprep.lab import netns

_GATEWAY = "10.77.0.1"
_HTTP_PORT = 80
_DNS_PORT = 53
_NTP_PORT = 123
_NTP_EPOCH = 2208988800  # seconds from 1900 to 1970, RFC 5905
_A_RECORD = 1
_NAME_ERROR = 3
_TTL_S = 60


class Repositories(http.server.SimpleHTTPRequestHandler):
    """Serves the folders in `folders` by the first part of the path."""

    protocol_version = "HTTP/1.1"
    folders: dict[str, Path] = {}
    log: Path

    def translate_path(self, path: str) -> str:
        first, _, rest = path.split("?", 1)[0].lstrip("/").partition("/")
        folder = self.folders.get(first)
        if folder is None:
            return "/nonexistent"
        self.directory = str(folder)
        return super().translate_path("/" + rest)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        number = getattr(code, "value", code)
        with self.log.open("a") as stream:
            stream.write(f"{time.time():.3f} {self.client_address[0]} {number} {self.path}\n")

    def log_message(self, format: str, *args: object) -> None:
        """Errors are in the log already, as the status of the request."""


class _Web(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A node that hangs up in the middle is no event."""


def answer(query: bytes, names: dict[str, str]) -> bytes:
    """The answer to a DNS query: the address of a node (with or without `.lab`), or NXDOMAIN.

    RFC 1035, one question a message. Empty for what is no query: then nothing is sent.
    """
    if len(query) < 17 or query[2] & 0x80 or struct.unpack(">H", query[4:6])[0] != 1:
        return b""
    labels, at = [], 12
    while at < len(query) and query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
        at += query[at] + 1
    question = query[12 : at + 5]
    if len(question) < at + 5 - 12:
        return b""
    kind = struct.unpack(">H", question[-4:-2])[0]
    address = names.get(".".join(labels).removesuffix(".lab"))
    code = 0 if address else _NAME_ERROR
    count = 1 if address and kind == _A_RECORD else 0
    flags = 0x8580 | code  # a response, authoritative, recursion asked for and had
    header = query[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0)
    if not count:
        return header + question
    record = struct.pack(">HHHIH", 0xC00C, _A_RECORD, 1, _TTL_S, 4)
    return header + question + record + socket.inet_aton(str(address))


class _Names(socketserver.BaseRequestHandler):
    table: Path

    def handle(self) -> None:
        query, made = self.request
        reply = answer(query, json.loads(self.table.read_text()))
        if reply:
            made.sendto(reply, self.client_address)


def time_answer(query: bytes, now: float) -> bytes:
    """The answer to an NTP client: the machine's own clock, as a stratum 1 server tells it.

    RFC 5905, the 48 octets of a header. Empty for what is no client's query.
    """
    if len(query) < 48 or query[0] & 7 != 3:
        return b""
    stamp = struct.pack(">II", int(now) + _NTP_EPOCH, int((now % 1) * 2**32))
    first = (query[0] & 0x38) | 4  # no leap second, the client's version, mode server
    head = struct.pack(">BBbbII4s", first, 1, 6, -20, 0, 16, b"LOCL")
    return head + stamp + query[40:48] + stamp + stamp


class _Time(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        query, made = self.request
        reply = time_answer(query, time.time())
        if reply:
            made.sendto(reply, self.client_address)


def main(argv: list[str]) -> None:
    namespace, log, debian, nvidia, table = map(Path, argv)
    Repositories.folders = {"debian": debian, "nvidia": nvidia}
    Repositories.log = log
    _Names.table = table
    with netns.inside(namespace):
        web = _Web((_GATEWAY, _HTTP_PORT), Repositories)
        others = [
            socketserver.UDPServer((_GATEWAY, _DNS_PORT), _Names),
            socketserver.UDPServer((_GATEWAY, _NTP_PORT), _Time),
        ]
    for other in others:
        threading.Thread(target=other.serve_forever, daemon=True).start()
    print("serving", flush=True)
    web.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
