"""Processes that outlive the command: recorded with their start time, so that a pid that the
kernel has given to somebody else is never signalled."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeprep.errors import ToolFailure
from nodeprep.lab import shell

_STARTTIME = 19  # of the fields after the command's closing parenthesis in /proc/PID/stat


@dataclass(frozen=True)
class Recorded:
    """A process: its pid, and when it started (clock ticks since boot)."""

    pid: int
    start: int

    def alive(self) -> bool:
        return start_of(self.pid) == self.start


def start_of(pid: int) -> int | None:
    """When a process started; None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_STARTTIME])


def load(file: Path) -> Recorded | None:
    """What was recorded, if that very process still runs."""
    try:
        data = json.loads(file.read_text())
        found = Recorded(int(data["pid"]), int(data["start"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.alive() else None


def spawn(argv: Sequence[str], *, record: Path, log: Path, cgroups: Iterable[Path]) -> Recorded:
    """Start a process of its own session, a member of `cgroups` from birth, and record it.

    It ignores SIGHUP until it asks for it: a word to a server that still starts must not end it.
    """
    joins = "".join(f'echo $$ > "{group}/cgroup.procs" && ' for group in cgroups)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", f"trap '' HUP; {joins}exec \"$@\"", "sh", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            close_fds=True,
            cwd="/",
        )
    start = start_of(child.pid)
    if start is None:
        raise ToolFailure(f"{argv[0]} ended at once; see {log}")
    found = Recorded(child.pid, start)
    shell.write_atomic(record, json.dumps({"pid": found.pid, "start": found.start}) + "\n")
    return found


def kill(targets: Iterable[Recorded], *, timeout_s: float = 10) -> None:
    """SIGKILL, and wait until they are gone. What runs in a lab has nothing to save."""
    waiting = [target for target in targets if target.alive()]
    for target in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target.pid, signal.SIGKILL)
    deadline = time.monotonic() + timeout_s
    while waiting and time.monotonic() < deadline:
        _reap(waiting)
        waiting = [target for target in waiting if target.alive()]
        if waiting:
            time.sleep(0.02)
    if waiting:
        raise ToolFailure(f"process {waiting[0].pid} does not end")


def _reap(targets: Iterable[Recorded]) -> None:
    """Our own dead children stay zombies until somebody asks for them."""
    for target in targets:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(target.pid, os.WNOHANG)
