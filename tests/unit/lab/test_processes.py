"""A process is who it was when it was recorded, or it is left alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeprep.lab import processes
from nodeprep.lab.processes import Recorded


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(["sleep", "60"])
    yield child
    child.kill()
    child.wait()


def record(file: Path, pid: int, start: int) -> Path:
    file.write_text(json.dumps({"pid": pid, "start": start}))
    return file


def test_this_process_lives() -> None:
    start = processes.start_of(os.getpid())
    assert start is not None
    assert Recorded(os.getpid(), start).alive()


def test_a_pid_given_to_somebody_else_is_not_ours(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    start = processes.start_of(sleeper.pid)
    assert start is not None
    assert processes.load(record(tmp_path / "same", sleeper.pid, start)) is not None
    assert processes.load(record(tmp_path / "other", sleeper.pid, start + 1)) is None
    processes.kill([Recorded(sleeper.pid, start + 1)])
    assert sleeper.poll() is None, "a stranger was killed"


def test_kill_waits_until_it_is_gone(sleeper: subprocess.Popen[bytes]) -> None:
    start = processes.start_of(sleeper.pid)
    assert start is not None
    processes.kill([Recorded(sleeper.pid, start)])
    assert processes.start_of(sleeper.pid) is None


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.start_of(child.pid) is None
    child.wait()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x", "start": 1}', '{"pid": 1}', "nul"])
def test_a_record_that_is_no_record_is_nobody(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pid.json"
    file.write_text(text)
    assert processes.load(file) is None
    assert processes.load(tmp_path / "missing") is None


def test_a_spawned_process_is_recorded_and_in_its_groups(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    file = tmp_path / "pids" / "one.json"
    found = processes.spawn(["sleep", "60"], record=file, log=tmp_path / "one.log", cgroups=[group])
    try:
        assert processes.load(file) == found
        _until(group / "cgroup.procs")
        assert (group / "cgroup.procs").read_text().split() == [str(found.pid)]
    finally:
        processes.kill([found])
    assert processes.load(file) is None


def _until(file: Path) -> None:
    for _ in range(500):
        if file.exists() and file.read_text():
            return
        subprocess.run(["sleep", "0.01"], check=True)
