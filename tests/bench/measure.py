"""Runs one command and writes what it cost: wall seconds, CPU seconds of its whole process tree.

    python measure.py RESULT.json COMMAND…

Linux only: as a subreaper this process also inherits what a command leaves behind (ssh's
ControlPersist masters), ends it and counts it; so nothing escapes into somebody else's bill.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def main() -> int:
    result, command = Path(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    code = subprocess.call(command, stdin=subprocess.DEVNULL)
    wall = time.monotonic() - started
    _end_the_rest()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {"rc": code, "wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime}
    result.write_text(json.dumps(cost))
    return 0


def _end_the_rest() -> None:
    while True:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        try:
            os.wait()
        except ChildProcessError:
            return


def _children() -> list[int]:
    return [int(p) for p in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    sys.exit(main())
