"""The forwarder: `python -m nodeprep.lab.forwarder FORWARD_JSON`. Standard library only.

Listens on this machine's loopback and connects inside the lab's network namespace, so that
controllers reach nodes and the machine's network stays as it is. SIGHUP reads the file again:

    {"netns": "/run/netns/np-lab",
     "nodes": [{"listen": "127.77.0.11", "port": 2222, "to": "10.77.0.11", "mode": "open"}]}

mode   open: forward to port 22.  refused: do not listen.  hangs: accept, and never say a word
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from nodeprep.lab import netns

_SSH = 22
_CHUNK = 65536
_CONNECT_TIMEOUT_S = 20
_BACKLOG = 512


@dataclass(frozen=True)
class Route:
    listen: str
    port: int
    to: str
    mode: str


def read_routes(file: Path) -> tuple[Path, tuple[Route, ...]]:
    """The namespace, and what to listen to."""
    data = json.loads(file.read_text())
    return Path(data["netns"]), tuple(Route(**entry) for entry in data["nodes"])


class Forwarder:
    """Holds one listening server per route; `apply` makes them what the file says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._servers: dict[Route, asyncio.Server] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self) -> None:
        namespace, wanted = read_routes(self._file)
        for route in set(self._servers) - set(wanted):
            self._servers.pop(route).close()
        for route in wanted:
            if route not in self._servers and route.mode != "refused":
                self._servers[route] = await self._listen(namespace, route)

    async def _listen(self, namespace: Path, route: Route) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _forward(namespace, route, reader, writer)

        return await asyncio.start_server(
            serve, route.listen, route.port, reuse_address=True, backlog=_BACKLOG
        )

    def close(self) -> None:
        """Listen to nothing more."""
        while self._servers:
            self._servers.popitem()[1].close()

    def reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self.apply())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _forward(
    namespace: Path, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    if route.mode == "hangs":
        with contextlib.suppress(OSError):
            while await reader.read(_CHUNK):
                pass
        writer.close()
        return
    try:
        node_reader, node_writer = await asyncio.wait_for(
            _connect(namespace, route.to), _CONNECT_TIMEOUT_S
        )
    except (OSError, TimeoutError):
        _abort(writer)
        return
    try:
        await asyncio.gather(_pump(reader, node_writer), _pump(node_reader, writer))
    finally:
        node_writer.close()
        writer.close()


async def _connect(
    namespace: Path, address: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with netns.inside(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (address, _SSH))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return await asyncio.open_connection(sock=made)
    except BaseException:
        made.close()
        raise


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, until its end; then the other side is told that no more will come."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Reset, as a machine without a listener would: the client must not wait."""
    made = writer.get_extra_info("socket")
    if made is not None:
        with contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _main(file: Path) -> None:
    forwarder = Forwarder(file)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, forwarder.reload)
    await forwarder.apply()
    print("listening", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1])))
