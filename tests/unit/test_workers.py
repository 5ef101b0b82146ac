"""A worker's events arrive in order; a worker that ends badly is never taken as done."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nodeprep import workers
from nodeprep.errors import ToolFailure
from nodeprep.model.event import Event, What

PREFACE = "import json, os, sys, time\njob = json.load(sys.stdin)\n"
SAY = "print(json.dumps({{'what': 'note', 'node': {node!r}, 'data': {{'text': {text}}}}}))\n"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that children can run; `write` its body first."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return "fake_worker"


def write(folder: Path, body: str) -> None:
    (folder / "fake_worker.py").write_text(PREFACE + body)


def events_of(module: str, job: dict[str, object], folder: Path) -> list[Event]:
    found: list[Event] = []
    workers.run(module, job, found.append, log=folder / "log")
    return found


def test_the_job_goes_in_and_the_events_come_out_in_order(worker: str, tmp_path: Path) -> None:
    write(tmp_path, "for i in range(3):\n    " + SAY.format(node="n", text="job['word'] + str(i)"))
    found = events_of(worker, {"word": "x"}, tmp_path)
    assert [e.data["text"] for e in found] == ["x0", "x1", "x2"]
    assert {e.what for e in found} == {What.NOTE}


def test_a_job_is_in_no_process_list(worker: str, tmp_path: Path) -> None:
    write(tmp_path, SAY.format(node="n", text="open('/proc/self/cmdline').read()"))
    shown = events_of(worker, {"password": "hunter22"}, tmp_path)[0].data["text"]
    assert "fake_worker" in shown
    assert "hunter22" not in shown


def test_a_worker_that_ends_badly_is_a_failure_with_its_last_word(
    worker: str, tmp_path: Path
) -> None:
    write(tmp_path, SAY.format(node="n", text="'began'") + "sys.exit('the disk is full')\n")
    with pytest.raises(ToolFailure, match="the disk is full"):
        events_of(worker, {}, tmp_path)


def test_output_that_is_no_event_is_a_failure(worker: str, tmp_path: Path) -> None:
    write(tmp_path, "print('hello')\n")
    with pytest.raises(ToolFailure, match="no event"):
        events_of(worker, {}, tmp_path)


def test_one_failure_among_many_leaves_the_others_alone(worker: str, tmp_path: Path) -> None:
    write(tmp_path, "if job['bad']: sys.exit(3)\n" + SAY.format(node="n", text="'good'"))
    found: list[Event] = []
    jobs = [{"bad": bad} for bad in (False, True, False)]
    logs = [tmp_path / str(i) for i in range(3)]
    failures = workers.run_each(worker, jobs, [found.append] * 3, logs=logs, limit=2)
    assert [f is None for f in failures] == [True, False, True]
    assert len(found) == 2


def test_no_child_is_left_when_the_reader_of_events_breaks(worker: str, tmp_path: Path) -> None:
    write(tmp_path, SAY.format(node="n", text="os.getpid()") .replace("'text'", "'pid'")
          + "sys.stdout.flush(); time.sleep(60)\n")  # fmt: skip
    pids: list[int] = []

    def break_off(event: Event) -> None:
        pids.append(event.data["pid"])
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        workers.run(worker, {}, break_off, log=tmp_path / "log")
    assert time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
