"""`python -m nodeprep.remote.keeper`: one connection a node, for all processes of a run.

The job is the first line of stdin; it ends, and closes all connections, when stdin does:

    {"socket": path, "nodes": {name: connection}}

Says `ready` on stdout once it listens. Each request is a line on a connection of its own to the
socket, and the answer is one line, too:

    {"node": name}                                      connect, if nobody has yet
    {"node", "command", "sudo", "stdin", "timeout_s"}   and run that
    {"result": {…Result}} or {"error": {"type", "message", "hint"}}

The socket stands in a folder that only the operator may enter.
"""

from __future__ import annotations

import gc
import sys

from gevent import monkey

if __name__ == "__main__":
    # Before anything imports sockets or threads.
    monkey.patch_all(ssl=False, subprocess=False, signal=False)
    gc.disable()
    # paramiko loads a task runner for `Match exec` in ~/.ssh/config, which nodeprep never reads.
    sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]

import dataclasses
import json
import os
import socket
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from gevent import os as gevent_os
from gevent.lock import RLock
from gevent.server import StreamServer

from nodeprep.errors import Unreachable, told
from nodeprep.remote.node import Remote, remotes


class Keeper:
    """Connects to a node when it is first asked for, and again only after the connection broke."""

    def __init__(self, nodes: Mapping[str, Remote]) -> None:
        self._nodes = nodes
        self._locks = {name: RLock() for name in nodes}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 - one request must not end the others
            return {"error": told(error)}

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name = request["node"]
        node = self._nodes[name]
        with self._locks[name]:
            node.connect()  # of one that is connected it asks nothing
        if "command" not in request:
            return {"result": None}
        try:
            result = node.run(
                request["command"],
                sudo=request["sudo"],
                stdin=request["stdin"],
                timeout_s=request["timeout_s"],
            )
        except Unreachable:
            # Not run again from here: it may have done its work before the connection broke.
            with self._locks[name]:
                node.close()
            raise
        return {"result": dataclasses.asdict(result)}

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()


def _serve(keeper: Keeper, client: socket.socket) -> None:
    with client.makefile("rwb") as stream:
        answer = keeper.answer(json.loads(stream.readline()))
        try:
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()
        except OSError:  # who asked is gone
            return


def main() -> int:
    gc.freeze()
    gc.enable()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    job = json.loads(sys.stdin.readline())
    keeper = Keeper(remotes({name: SimpleNamespace(**c) for name, c in job["nodes"].items()}))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(job["socket"])
    listener.listen(256)
    server = StreamServer(listener, lambda client, _: _serve(keeper, client))
    server.start()
    print("ready", file=out, flush=True)
    while gevent_os.tp_read(sys.stdin.fileno(), 1):  # at its end the parent is done, or dead
        pass
    server.stop(timeout=0)
    keeper.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
