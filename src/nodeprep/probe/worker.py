"""The child process that speaks to nodes: one JSON job on stdin, events on stdout, a line each.

    {"job": "read", "concurrency": 20, "nodes":
        [{"name", "connection": {…}, "claims": [{…}, …], "hardware": false, "timeout_s": 60,
          "password": only for a node before its first contact}],
     "keeper": the socket of who holds the run's connections, if anybody does}
    {"job": "contact", "concurrency": 20, "nodes":
        [{"name", "connection": {…}, "password": "…" or null, "files": [{path, content, mode}]}]}

Run as `python -m nodeprep.probe.worker`: gevent changes the whole process, so the parent stays out
of it. Each node ends in one READING, DONE or ERROR; whatever becomes of one, the others go on.
"""

from __future__ import annotations

import gc
import sys

from gevent import monkey

if __name__ == "__main__":
    # Before anything imports sockets or threads. What no job uses is left out, for its time.
    monkey.patch_all(ssl=False, subprocess=False, signal=False)
    # Modules are no garbage: collecting while they load is a tenth of the start, and for nothing.
    gc.disable()
    # paramiko loads a task runner for `Match exec` in ~/.ssh/config, which nodeprep never reads.
    sys.modules.setdefault("invoke", None)  # type: ignore[arg-type]

import functools
import json
import os
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TextIO

from gevent.pool import Pool

from nodeprep.errors import NodeFault, NodeprepError, told
from nodeprep.remote import Address, KeptRemote, Remote, Result, kept, remotes

CONCURRENCY = 20
TIMEOUT_S = 60
_MARGIN_S = 10  # what the reader leaves of the timeout, so that it answers and is not killed
Job = Mapping[str, Any]


class Emitter:
    """Writes events, each at once and whole. No text leaves with a secret in it."""

    def __init__(self, out: TextIO, secrets: list[str]) -> None:
        self._out = out
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def __call__(self, what: str, node: str, data: Mapping[str, Any]) -> None:
        self._write(what, node, json.dumps({key: self._clean(v) for key, v in data.items()}))

    def reading(self, node: str, document: str) -> None:
        self._write("reading", node, document)

    def note(self, node: str, text: str) -> None:
        self("note", node, {"text": text})

    def error(self, node: str, error: Exception) -> None:
        self("error", node, told(error))

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "[hidden]")
        return value

    def _write(self, what: str, node: str, data: str) -> None:
        head = f'{{"what":"{what}","node":{json.dumps(node)},"at":{time.time()}'
        try:
            self._out.write(f'{head},"data":{data}}}\n')
            self._out.flush()
        except BrokenPipeError:  # the parent is gone: nobody wants the rest
            os._exit(1)


def each(nodes: list[Job], concurrency: int, emit: Emitter, work: Callable[[Job], None]) -> None:
    """Do `work` for every node, so many at a time; an error is that node's alone."""

    def guarded(node: Job) -> None:
        try:
            work(node)
        except Exception as error:  # noqa: BLE001
            emit.error(node["name"], error)

    pool = Pool(concurrency)
    for node in nodes:
        pool.spawn(guarded, node)
    pool.join()


def address(node: Job) -> Address:
    """The connection as it came: the parent has validated it, and 5,000 of them take time."""
    return SimpleNamespace(**node["connection"])


def read(job: Job, emit: Emitter) -> None:
    """Send every node its reader, in one round trip, and pass on what it answers."""
    try:
        opened = _reached(job)
    except NodeprepError as error:  # the site's files, not a node: it is everybody's
        for node in job["nodes"]:
            emit.error(node["name"], error)
        return
    claims = Claims()

    def work(node: Job) -> None:
        name, timeout_s = node["name"], node.get("timeout_s") or TIMEOUT_S
        deadline_s = max(1.0, timeout_s - _MARGIN_S)
        with _visit(node, emit) if node.get("password") else opened[name].connect() as remote:
            # Loads the models: by now the other nodes' servers have work of their own.
            from nodeprep.probe import request  # noqa: PLC0415

            wanted, hardware = claims.of(node), bool(node.get("hardware"))
            program = request.program(wanted, hardware, name, deadline_s=deadline_s)
            result = remote.run(["python3", "-I", "-"], stdin=program, timeout_s=timeout_s)
        _ran(remote, result, timeout_s)
        emit.reading(name, request.parse(result.stdout, name).model_dump_json())

    each(job["nodes"], job.get("concurrency") or CONCURRENCY, emit, work)


def _reached(job: Job) -> Mapping[str, Remote | KeptRemote]:
    if job.get("keeper"):
        return kept({n["name"]: n["connection"]["user"] for n in job["nodes"]}, job["keeper"])
    return remotes({node["name"]: address(node) for node in job["nodes"]})


def _visit(node: Job, emit: Emitter) -> Remote:
    from nodeprep.probe.contact import FirstContact  # noqa: PLC0415

    say = functools.partial(emit.note, node["name"])
    return FirstContact(node, address(node), say).visit()


class Claims:
    """Claims of a job, validated once for all nodes that have the same."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def of(self, node: Job) -> Any:
        from nodeprep.model.claim import CLAIMS  # noqa: PLC0415

        key = json.dumps(node.get("claims") or [])
        if key not in self._known:
            self._known[key] = CLAIMS.validate_json(key)
        return self._known[key]


def _ran(remote: Remote | KeptRemote, result: Result, timeout_s: float) -> None:
    """NodeFault when the reader did not get to speak; what it said is `parse`'s affair."""
    said = result.stderr.strip()[-300:]
    if result.timed_out:
        raise NodeFault(f"{remote.name} did not answer the reader within {timeout_s:g} s")
    if result.rc == 127:
        what = "python3" if "python3" in said else "sudo"
        raise NodeFault(
            f"there is no {what} on {remote.name}",
            hint="first contact installs it: `nodeprep provision`",
        )
    if said.startswith("sudo") and not result.stdout:
        raise NodeFault(
            f"{remote.name}: {remote.user} may not use sudo without a password ({said})",
            hint="first contact sets it up: `nodeprep provision`",
        )


def contact(job: Job, emit: Emitter) -> None:
    """First contact with every node."""
    from nodeprep.probe.contact import first_contact  # noqa: PLC0415

    def work(node: Job) -> None:
        name = node["name"]
        say = functools.partial(emit.note, name)
        emit("done", name, first_contact(node, address(node), say))

    each(job["nodes"], job.get("concurrency") or CONCURRENCY, emit, work)


JOBS: dict[str, Callable[[Job, Emitter], None]] = {"read": read, "contact": contact}


def main() -> int:
    gc.freeze()
    gc.enable()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is not an event
    job: Job = json.load(sys.stdin)
    secrets = [node.get("password") or "" for node in job["nodes"]]
    try:
        JOBS[job["job"]](job, Emitter(out, secrets))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
