"""The screen during a run."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from nodeprep.model.event import Event, What
from nodeprep.report.live import Screen

Feed = Callable[[Screen], None]


def task(node: str, status: str, text: str = "") -> Event:
    data = {"role": "nccl", "task": "Install packages", "status": status, "text": text}
    return Event(what=What.TASK, node=node, data=data)


def verdict(node: str, outcome: str) -> Event:
    data = {"claim": "nccl/proof:all_reduce", "verdict": outcome, "read": "172.4 GB/s"}
    return Event(what=What.VERDICT, node=node, data=data)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(out: io.StringIO) -> Screen:
    return Screen(Console(file=out, width=40), clock=lambda: 60.0)


def test_without_a_terminal_each_piece_of_news_is_a_line_with_its_time(
    log: Screen, out: io.StringIO
) -> None:
    with log as screen:
        screen.stage("converge", ["gpu1", "gpu2"])
        screen.feed(task("gpu1", "ok"))
        screen.feed(task("gpu1", "changed"))
        screen.feed(task("gpu2", "failed", "no space left on device"))
        screen.feed(verdict("gpu1", "pass"))
        screen.feed(verdict("gpu1", "fail"))
        screen.feed(Event(what=What.NOTE, node="gpu2", data={"text": "waiting for the apt lock"}))
        screen.feed(Event(what=What.ERROR, node="gpu2", data={"message": "gone"}))
        screen.feed(Event(what=What.DONE, node="gpu1"))
    assert out.getvalue().splitlines() == [
        "00:01:00 converge: 2 nodes",
        "00:01:00 gpu1 nccl: Install packages: changed",
        "00:01:00 gpu2 nccl: Install packages: failed no space left on device",
        "00:01:00 gpu1 nccl/proof:all_reduce: fail: read 172.4 GB/s",
        "00:01:00 gpu2 waiting for the apt lock",
        "00:01:00 gpu2 gone",
        "00:01:00 gpu1 converge done in 0 s",
    ]


def test_a_stage_may_come_as_an_event(log: Screen, out: io.StringIO) -> None:
    log.feed(Event(what=What.STAGE, data={"stage": "reach", "nodes": ["gpu1"]}))
    assert out.getvalue() == "00:01:00 reach: 1 node\n"


@pytest.mark.parametrize("what", list(What))
def test_an_event_without_its_data_does_no_harm(log: Screen, what: What) -> None:
    log.feed(Event(what=what))
    log.feed(Event(what=what, node="gpu1"))


def drawn(screen: Screen, height: int = 24) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=80, height=height).print(screen.draw())
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_table_has_a_line_per_node_with_its_task_and_time(out: io.StringIO) -> None:
    now = [0.0]
    screen = Screen(Console(file=out, height=24), verb="provision", clock=lambda: now[0])
    screen.stage("converge", ["gpu1", "gpu2"])
    screen.feed(task("gpu1", "changed"))
    now[0] = 72.0
    screen.feed(Event(what=What.ERROR, node="gpu2", data={"message": "no answer"}))
    now[0] = 75.0
    heading, gpu1, gpu2 = drawn(screen)
    assert heading.split() == ["nodeprep", "provision", "converge", "1", "min", "15", "s"]
    assert gpu1.split("  ")[0] == "gpu1"
    assert "nccl: Install packages  1 changed" in gpu1
    assert gpu1.endswith("1 min 15 s")
    assert gpu2.endswith("1 min 12 s")  # its clock stopped with it


def test_when_not_all_fit_the_failed_and_the_busy_are_shown(out: io.StringIO) -> None:
    screen = Screen(Console(file=out, height=8), clock=lambda: 0.0)
    screen.stage("read", [f"n{n}" for n in range(20)])
    for n in range(17):
        screen.feed(Event(what=What.DONE, node=f"n{n}"))
    screen.feed(Event(what=What.ERROR, node="n0", data={"message": "no answer"}))
    lines = drawn(screen)
    assert [line.split()[0] for line in lines[1:]] == ["n0", "n17", "n18", "n19", "and"]
    assert lines[-1] == "and 16 more"


def test_on_a_terminal_bad_news_stays_above_the_table() -> None:
    out = io.StringIO()
    with Screen(Console(file=out, force_terminal=True, width=80, height=20)) as screen:
        screen.stage("accept", ["gpu1"])
        screen.feed(task("gpu1", "ok"))
        screen.feed(verdict("gpu1", "fail"))
    assert "gpu1  nccl/proof:all_reduce: fail: read 172.4 GB/s" in out.getvalue()
