"""One writer per site: an advisory lock that ends with its process, however that ends."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
from pathlib import Path

from nodeprep.errors import ToolFailure


class SiteLock:
    """`flock` on a file beside the ledger. The file says who holds it; its text proves nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        return self._fd is not None

    def acquire(self, verb: str, since: dt.datetime) -> None:
        """Take the lock; ToolFailure that names the holder when another run has it."""
        if self.held:
            return
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(os.pread(fd, 4096, 0))
            os.close(fd)
            raise ToolFailure(
                f"another run is at work on this site: {holder}",
                hint="wait for it, or stop it; `nodeprep status` can be read meanwhile",
            ) from None
        except BaseException:
            os.close(fd)
            raise
        os.ftruncate(fd, 0)
        words = {"verb": verb, "pid": os.getpid(), "since": since.isoformat(timespec="seconds")}
        os.pwrite(fd, json.dumps(words).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        if self._fd is None:
            return
        os.ftruncate(self._fd, 0)
        os.close(self._fd)  # closing the only descriptor drops the lock
        self._fd = None


def _holder(raw: bytes) -> str:
    """Who wrote the lock file; it may be caught empty, between the lock and the write."""
    try:
        words = json.loads(raw)
        return f"nodeprep {words['verb']}, pid {words['pid']}, since {words['since']}"
    except (ValueError, KeyError, TypeError):
        return "its holder has not said its name yet"
