"""Runs the worker processes: a job in on stdin, events out on stdout, a line each.

The parent stays plain: gevent, Ansible and pytest live in the children alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, cast

from pydantic import ValidationError

from nodeprep.errors import ToolFailure
from nodeprep.model.event import Event

Feed = Callable[[Event], None]
_GRACE_S = 15.0  # for a child to end its own children, after it was asked to


def run(module: str, job: Mapping[str, Any], feed: Feed, *, log: Path) -> None:
    """Run `python -m module` on one job and feed its events, in order, from this thread.

    What the child writes to stderr goes to the file `log`. Raises ToolFailure when the child
    ends badly: then nothing that it did not report may be taken as done.
    """
    with _child(module, log) as child:
        _send(child, json.dumps(job).encode())
        for line in cast("IO[bytes]", child.stdout):
            feed(_event(line, module))
        code = child.wait()
    if code != 0:
        raise _failure(module, code, log)


def run_each(
    module: str,
    jobs: Sequence[Mapping[str, Any]],
    feeds: Sequence[Feed],
    *,
    logs: Sequence[Path],
    limit: int,
) -> list[ToolFailure | None]:
    """Run one child a job, `limit` at a time, each with a feed; one of them is called at a time.

    Returns, for each job, the failure of its child or None.
    """
    lock = threading.Lock()

    def one(job: Mapping[str, Any], feed: Feed, log: Path) -> ToolFailure | None:
        def fed(event: Event) -> None:
            with lock:
                feed(event)

        try:
            run(module, job, fed, log=log)
        except ToolFailure as failure:
            return failure
        return None

    with ThreadPoolExecutor(max_workers=max(1, limit)) as pool:
        try:
            return list(pool.map(one, jobs, feeds, logs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise


@contextlib.contextmanager
def beside(module: str, job: Mapping[str, Any], *, log: Path) -> Iterator[None]:
    """Run `python -m module` for as long as this is open; its job is the first line of its stdin.

    It says `ready` on stdout, and ends when its stdin does: by that it ends with its parent, too,
    however that ends. Raises ToolFailure when it does not get ready.
    """
    with _child(module, log) as child:
        stdin = cast("IO[bytes]", child.stdin)
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(job).encode() + b"\n")
            stdin.flush()
        if cast("IO[bytes]", child.stdout).readline() != b"ready\n":
            child.wait()
            raise _failure(module, child.returncode, log)
        try:
            yield
        finally:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=_GRACE_S)


_living: set[subprocess.Popen[bytes]] = set()


@contextlib.contextmanager
def _child(module: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m module` with pipes to it. Whatever happens, no child is left behind."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,  # Ctrl-C is for the parent: it ends the children in order
        )
    _living.add(child)
    try:
        yield child
    finally:
        _end(child)
        _living.discard(child)


def _failure(module: str, code: int, log: Path) -> ToolFailure:
    return ToolFailure(
        f"{module} ended with {code}: {_last_words(log)}", hint=f"all that it said: {log}"
    )


def end_all() -> None:
    """Ask every child to end, then see to it."""
    for child in list(_living):
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    for sign, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        try:
            child.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue
        return


def _send(child: subprocess.Popen[bytes], job: bytes) -> None:
    """Passwords may be in a job: a pipe is the only way that they travel."""
    stdin = cast("IO[bytes]", child.stdin)
    with contextlib.suppress(BrokenPipeError):  # its exit code tells
        stdin.write(job)
        stdin.close()


def _event(line: bytes, module: str) -> Event:
    try:
        return Event.model_validate_json(line)
    except ValidationError:
        raise ToolFailure(f"{module} wrote what is no event: {line[:200]!r}") from None


def _last_words(log: Path) -> str:
    with log.open(errors="replace") as lines:
        last = [line.strip() for line in deque(lines, maxlen=20) if line.strip()]
    return last[-1][:300] if last else "without a word"
