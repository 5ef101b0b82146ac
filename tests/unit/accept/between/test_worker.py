"""The worker as the pipeline starts it: a job in, events out; one lost node ends nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodeprep.accept.between.job import SECONDS, Job
from nodeprep.accept.between.measure import why_busy
from nodeprep.accept.between.worker import measure
from nodeprep.accept.job import LEVELS
from nodeprep.model.event import Event, What
from tests.unit.accept.between.test_collective import Fake as Reduced
from tests.unit.accept.between.test_collective import table
from tests.unit.accept.between.test_measure import Fake as Pinged
from tests.unit.accept.nodes import Answer


def run(text: str) -> tuple[int, list[Event]]:
    done = subprocess.run(
        [sys.executable, "-m", "nodeprep.accept.between.worker"],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, [Event.model_validate_json(line) for line in done.stdout.splitlines()]


def member(name: str, folder: Path) -> dict[str, Any]:
    """A node at a port of this machine that nothing listens on."""
    key = folder / "key"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    connection = {
        "host": "127.0.0.1", "port": 1, "user": "ops", "key_file": str(key),
        "known_hosts": str(folder / "known_hosts"),
    }  # fmt: skip
    return {"name": name, "address": "127.0.0.1", "connection": connection, "udp_mbps": 100}


def test_nodes_that_do_not_answer_are_told_and_it_ends(tmp_path: Path) -> None:
    members = [member("gpu1", tmp_path), member("gpu2", tmp_path)]
    code, events = run(json.dumps({"members": members, "rounds": [[["gpu1", "gpu2"]]]}))
    assert code == 0
    errors = [event for event in events if event.what is What.ERROR]
    assert {event.node for event in errors} == {"gpu1", "gpu2"}
    assert not any("pair" in event.data for event in events)
    assert events[-1].data == {"ended": True}


def test_every_level_says_how_long_it_sends() -> None:
    assert tuple(SECONDS) == LEVELS
    assert not SECONDS["poc"].ceiling
    assert all(SECONDS[level].ceiling for level in LEVELS[1:])


def test_a_job_that_is_none_is_bad_input() -> None:
    assert run('{"members": 1}') == (4, [])


def of(name: str, **more: Any) -> dict[str, Any]:
    connection = {"host": "h", "port": 22, "user": "ops", "key_file": "/k", "known_hosts": "/h"}
    return {"name": name, "address": name, "connection": connection, "udp_mbps": 1, **more}


def told(job: dict[str, Any], nodes: list[Any]) -> list[Event]:
    events: list[Event] = []
    measure(Job.model_validate(job), {node.name: node for node in nodes}, events.append)
    return events


class Idle(Pinged):
    """A node whose GPUs have these processes."""

    def __init__(self, name: str, smi: Answer | None = None) -> None:
        super().__init__(name, {"query-compute-apps": smi or Answer("")})


def aside(events: list[Event]) -> dict[str, str]:
    return {e.data["aside"]: e.data["why"] for e in events if "aside" in e.data}


def pairs(events: list[Event]) -> set[frozenset[str]]:
    return {frozenset((e.data["pair"]["a"], e.data["pair"]["b"])) for e in events
            if "pair" in e.data}  # fmt: skip


def test_who_is_in_already_and_at_work_is_left_alone() -> None:
    members = [of("gpu1"), of("gpu2", standing=True), of("gpu3", standing=True)]
    nodes = [Idle("gpu1"), Idle("gpu2", Answer("4121\n4122\n")), Idle("gpu3")]
    rounds = [[["gpu1", "gpu2"]], [["gpu1", "gpu3"]]]
    events = told({"members": members, "rounds": rounds}, nodes)
    assert aside(events) == {"gpu2": "at work: 2 processes on its GPUs"}
    assert pairs(events) == {frozenset(("gpu1", "gpu3"))}
    assert len(nodes[1].ran) == 1


def test_a_newcomer_is_not_asked_whether_it_is_at_work() -> None:
    busy = Idle("gpu1", Answer("4121\n"))
    assert aside(told({"members": [of("gpu1"), of("gpu2")]}, [busy, Idle("gpu2")])) == {}


def test_of_those_outside_the_run_the_first_idle_ones_are_enough() -> None:
    names = [f"gpu{n}" for n in range(2, 8)]
    members = [of("gpu1"), *(of(name, standing=True, spare=True) for name in names)]
    nodes = [Idle("gpu1"), Idle("gpu2", Answer("7\n")), *(Idle(name) for name in names[1:])]
    found = aside(told({"members": members, "spares": 3}, nodes))
    assert found.pop("gpu2").startswith("at work")
    assert found == {"gpu6": "not needed", "gpu7": "not needed"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(), ""),
        (Answer("No running processes found\n"), ""),
        (Answer(rc=127), ""),  # no GPUs
        (Answer("1\n2\n"), "at work: 2 processes"),
        (Answer(rc=15, stdout="GPU is lost"), "ended with 15"),
        (Answer("[N/A]\n"), "tells no processes"),
        (Answer(rc=124, timed_out=True), "ended with 124"),
    ],
)
def test_only_who_says_so_is_idle(answer: Answer, why: str) -> None:
    assert why_busy(Idle("gpu1", answer)).startswith(why) or why in why_busy(Idle("gpu1", answer))
    assert bool(why_busy(Idle("gpu1", answer))) is bool(why)


def test_a_collective_is_searched_over_all_members() -> None:
    class Ring(Reduced):
        """Its mpirun prints what the nodes in it allow."""

        def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
            if hosts := re.search(r"--host (\S+)", command):
                names = [host.partition(":")[0] for host in hosts[1].split(",")]
                self.says = Answer(table(len(names), 0.1 if "gpu3" in names else 1.1))
            return super().run(command, sudo=sudo, timeout_s=timeout_s)

    names = [f"gpu{n}" for n in range(1, 6)]
    wanted = {"names": names, "new": names, "least": 1.0}
    job = {"members": [of(name, gpus=2) for name in names], "collective": wanted}
    events = told(job, [Ring(name) for name in names])
    groups = {tuple(e.data["group"]["group"]): e.data["group"]["busbw"]
              for e in events if "group" in e.data}  # fmt: skip
    assert groups["gpu2", "gpu3"] == groups["gpu3", "gpu4"] == 0.1
    assert groups["gpu1", "gpu2", "gpu4", "gpu5"] == 1.1
    assert any("4 together" in e.data["text"] for e in events if e.what is What.NOTE)


def test_a_group_that_breaks_ends_nothing() -> None:
    class Broken(Reduced):
        def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
            raise RuntimeError("not a node")

    wanted = {"names": ["gpu1", "gpu2"], "new": ["gpu1"], "least": 1.0}
    job = {"members": [of("gpu1", gpus=2), of("gpu2", gpus=2)], "collective": wanted}
    events = told(job, [Broken("gpu1"), Broken("gpu2")])
    (*_, last) = [e.data["group"] for e in events if "group" in e.data]
    assert last["busbw"] is None
    assert "not a node" in last["trouble"]["why"]


@pytest.mark.parametrize(("silent", "busbw"), [(1, 1.1), (2, None)])
def test_a_collective_that_came_to_nothing_is_tried_once_more(
    silent: int, busbw: float | None
) -> None:
    runs: list[str] = []

    class Once(Reduced):
        def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
            if "--host" in command:
                runs.append(command)
                self.says = Answer("" if len(runs) <= silent else table(2, 1.1))
            return super().run(command, sudo=sudo, timeout_s=timeout_s)

    names = ["gpu1", "gpu2"]
    wanted = {"names": names, "new": names, "least": 1.0}
    job = {"members": [of(name, gpus=2) for name in names], "collective": wanted}
    events = told(job, [Once(name) for name in names])
    found = [e.data["group"]["busbw"] for e in events if "group" in e.data]
    assert found[0] == busbw
    assert len(runs) >= 2
