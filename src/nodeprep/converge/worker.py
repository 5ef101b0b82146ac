"""The converge worker: a job on stdin, Ansible's run as events on stdout.

    python -m nodeprep.converge.worker < job.json

Ansible runs as a process of its own session; SIGINT and SIGTERM end it in order. A callback plugin
tells what happens through a pipe: half the cost of ansible-runner's events, and no copy of the
environment left on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from nodeprep.converge import layout as layouts
from nodeprep.converge.job import Job
from nodeprep.converge.stream import Stream
from nodeprep.model.event import Event

_GRACE_S = 10  # for Ansible to end after SIGINT; the parent waits 15


class _Stop(BaseException):
    """A signal asked us to end."""


def main() -> int:
    job = Job.model_validate_json(sys.stdin.buffer.read())
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    stream = Stream(job.nodes)
    code = _run(job, stream) if job.busy else 0
    for event in stream.done():
        _emit(event)
    return code


def _stop(_signal: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the ending.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Stop


def _emit(event: Event) -> None:
    sys.stdout.write(event.line())
    sys.stdout.flush()


def _run(job: Job, stream: Stream) -> int:
    """Run the playbook on the nodes that need it; how each fared is in `stream`."""
    layout = layouts.write(job)
    try:
        code = _ansible(job, layout, stream)
    except _Stop:
        for node in stream.unfinished:
            if node in job.busy:
                _emit(stream.error(node, "Interrupted", "interrupted while it was converged"))
        return 0
    layout.rc.write_text(f"{code}\n", encoding="utf-8")
    left = [node for node in stream.unfinished if node in job.busy]
    if left:
        why = _last_words(layout.stdout)
        for node in left:
            hint = f"all that Ansible said: {layout.stdout}"
            _emit(stream.error(node, "ToolFailure", f"Ansible ended with {code}: {why}", hint))
    return 0


def _ansible(job: Job, layout: layouts.Layout, stream: Stream) -> int:
    """Run ansible-playbook to its end; its exit code."""
    with _sockets() as sockets, _secret(job) as vault_fd, layout.stdout.open("wb") as said:
        reading, writing = os.pipe()
        command = layouts.argv(job, layout, vault_fd)
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env=layouts.environment(job, layout, events_fd=writing, sockets=sockets),
            cwd=layout.root,
            pass_fds=[writing, *([] if vault_fd is None else [vault_fd])],
            start_new_session=True,
        )
        os.close(writing)
        try:
            with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    for event in stream.feed(json.loads(line)):
                        _emit(event)
            return child.wait()
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """See to it that Ansible and all its forks have ended."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


@contextlib.contextmanager
def _sockets() -> Iterator[Path]:
    """Where ssh keeps its shared connections: a short path, and none left open afterwards."""
    with tempfile.TemporaryDirectory(prefix="np-") as folder:
        try:
            yield Path(folder)
        finally:
            for socket in filter(Path.is_socket, Path(folder).iterdir()):
                subprocess.run(
                    ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "node"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    timeout=10,
                )


@contextlib.contextmanager
def _secret(job: Job) -> Iterator[int | None]:
    """A descriptor from which the vault password can be read once; None without one."""
    if job.vault_password is None:
        yield None
        return
    reading, writing = os.pipe()
    try:
        os.write(writing, job.vault_password.get_secret_value().encode() + b"\n")
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


def _last_words(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith("[ERROR]")]
    return (errors or [line for line in lines if line.strip()] or ["it said nothing"])[-1][:500]


if __name__ == "__main__":
    sys.exit(main())
