"""One command on an open channel: fed, both outputs read at once, bounded in time and size."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

MAX_OUTPUT = 8 * 2**20  # bytes kept of each stream; the rest is read and dropped


@dataclass(frozen=True)
class Result:
    """What a command left, bytes that are no text replaced. `rc` -1: no status of its own."""

    rc: int
    stdout: str
    stderr: str
    timed_out: bool = False
    truncated: bool = False  # a stream was longer than MAX_OUTPUT

    @property
    def ok(self) -> bool:
        return self.rc == 0 and not self.timed_out


class Stream:
    """What is kept of one stream of output: from the mark on, and MAX_OUTPUT of that.

    Before the mark a login may print anything (sshrc, .bashrc, a provider's notice), in megabytes.
    Without a mark it was not our command that spoke: then the beginning of that is kept.
    """

    def __init__(self, mark: bytes = b"") -> None:
        self._mark = mark
        self._seam = b""  # the mark may arrive in two pieces
        self._kept = bytearray()
        self.cut = False

    def add(self, data: bytes) -> None:
        if self._mark:
            joined = self._seam + data
            _, mark, rest = joined.partition(self._mark)
            self._seam = joined[1 - len(self._mark) :]
            if mark:
                self._mark, self.cut, data = b"", False, rest
                self._kept.clear()
        room = MAX_OUTPUT - len(self._kept)
        self._kept += data[:room]
        self.cut = self.cut or len(data) > room

    @property
    def marked(self) -> bool:
        return not self._mark

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace")


def exchange(
    channel: paramiko.Channel, stdin: bytes | str | None, deadline: float, mark: bytes
) -> tuple[Stream, Stream, bool]:
    """Feed a command and read both its streams to their ends; False: not within the deadline.

    All three at once: they share one SSH window, and whichever is left waiting stops the others.
    """
    out, err = Stream(mark), Stream(mark)
    ends = [
        _in_background(lambda: _feed(channel, stdin, deadline)),
        _in_background(lambda: _drain(channel, channel.recv_stderr, err, deadline)),
    ]
    in_time = _drain(channel, channel.recv, out, deadline)
    for thread in ends:
        thread.join(max(0.1, deadline - time.monotonic()))
    return out, err, in_time and not any(thread.is_alive() for thread in ends)


def _in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # a greenlet where gevent has patched
    thread.start()
    return thread


def _feed(channel: paramiko.Channel, stdin: bytes | str | None, deadline: float) -> None:
    data = stdin.encode() if isinstance(stdin, str) else stdin or b""
    try:
        at = 0
        while at < len(data):
            channel.settimeout(max(0.0, deadline - time.monotonic()))
            at += channel.send(data[at : at + 32768])
        channel.shutdown_write()
    except OSError:  # the command ended without reading everything: its status tells
        return


def _drain(
    channel: paramiko.Channel, read: Callable[[int], bytes], into: Stream, deadline: float
) -> bool:
    try:
        while True:
            channel.settimeout(max(0.0, deadline - time.monotonic()))
            data = read(65536)
            if not data:
                return True
            into.add(data)
    except TimeoutError:
        channel.close()
        return False
