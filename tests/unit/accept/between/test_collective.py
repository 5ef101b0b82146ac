"""all_reduce over a group: who runs what, and that nothing unmeasured becomes a figure."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL

import pytest

from nodeprep.accept.between.collective import AllReduce
from nodeprep.accept.between.figures import GroupFigures
from nodeprep.errors import Unreachable
from tests.unit.accept.nodes import Answer

ADDRESSES = {"gpu1": "10.0.0.1", "gpu2": "10.0.0.2", "gpu3": "10.0.0.3"}
TABLE = """\
# nThread 1 nGpus 2 minBytes 536870912 maxBytes 536870912 step: 1048576(bytes) warmup iters: 1
# Using devices
{ranks}
#                                                              out-of-place             in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
   536870912     134217728     float     sum      -1   600000    0.89    {busbw}   {wrong}   600000    0.89    {busbw}   {wrong}
{end}"""  # noqa: E501
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.1\n"


def table(nodes: int = 2, busbw: float = 1.1, wrong: str = "0", end: str = END) -> str:
    ranks = "\n".join(
        f"#  Rank {rank:2} Group  0 Pid  41 on gpu{rank // 2 + 1} device {rank % 2} [0x17] NVIDIA"
        for rank in range(2 * nodes)
    )
    return TABLE.format(ranks=ranks, busbw=busbw, wrong=wrong, end=end)


@dataclass
class Fake:
    """A node; the first one's mpirun calls for every other node's daemon."""

    name: str
    says: Answer | Exception = field(default_factory=lambda: Answer(table()))
    daemon: Answer | Exception = field(default_factory=Answer)
    calls: bool = True
    ran: list[tuple[str, float]] = field(default_factory=list)

    def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
        assert not sudo  # training does not run as root, and mpirun refuses to
        self.ran.append((command, timeout_s))
        if "mpirun -np" in command:
            time.sleep(0.01)
            answer = self.says
        elif asked := re.search(r"call\.(\S+) \]", command):
            answer = Answer(f"orted for {asked[1]}") if self.calls else Answer(rc=1)
        elif "orted for" in command:
            answer = self.daemon
        else:
            assert command.startswith("echo ")
            answer = Answer()
        if isinstance(answer, Exception):
            raise answer
        return answer


def reduced(*nodes: Fake) -> GroupFigures:
    return AllReduce(nodes, ADDRESSES, gpus=2, limit_s=60).run()


def test_a_pair_has_its_bus_bandwidth_over_the_ring() -> None:
    first, second = Fake("gpu1"), Fake("gpu2")
    found = reduced(first, second)
    assert (found.group, found.busbw, found.wrong, found.trouble) == (
        ("gpu1", "gpu2"), 1.1, 0, None,
    )  # fmt: skip
    launch = next(command for command, _ in first.ran if "mpirun -np" in command)
    assert "--host 10.0.0.1:1,10.0.0.2:1" in launch
    assert "export NCCL_ALGO=Ring" in launch
    assert re.search(r"all_reduce_perf -b 512M -e 512M .*-g 2\b", launch)


def test_each_daemon_runs_on_the_node_that_it_was_called_for() -> None:
    nodes = [Fake("gpu1", Answer(table(3))), Fake("gpu2"), Fake("gpu3")]
    assert reduced(*nodes).trouble is None
    for node in nodes[1:]:
        ((command, _),) = node.ran
        assert f"orted for {ADDRESSES[node.name]}" in command


def test_everything_ends_with_its_time_on_the_node_itself() -> None:
    first, second = Fake("gpu1"), Fake("gpu2")
    reduced(first, second)
    assert max(limit for _, limit in (*first.ran, *second.ran)) <= 70


@pytest.mark.parametrize(
    ("says", "why", "node"),
    [
        (Answer(rc=127), "mpirun or all_reduce_perf is missing", "gpu1"),
        (Answer(timed_out=True, rc=124), "did not end within 60 s", ""),
        (Answer(rc=1, stderr="no route"), "ended with 1: no route", ""),
        (Answer(), "ended with 0", ""),
        (Answer(table(1)), "used 2 of 4 GPUs: was it built with MPI=1", ""),
        (Answer(table(end="")), "did not run to its end", ""),
        (Answer(table(wrong="N/A")), "validation was off", ""),
        (Unreachable("gpu1: gone"), "gpu1: gone", "gpu1"),
    ],
)
def test_what_was_not_measured_is_no_figure(says: Answer, why: str, node: str) -> None:
    found = reduced(Fake("gpu1", says), Fake("gpu2"))
    assert found.busbw is None
    assert found.trouble is not None
    assert why in found.trouble.why
    assert found.trouble.node == node


def test_wrong_values_are_counted() -> None:
    end = END.replace("0 OK", "3 FAILED")
    assert reduced(Fake("gpu1", Answer(table(wrong="2", end=end), rc=1)), Fake("gpu2")).wrong == 7


@pytest.mark.parametrize(
    ("daemon", "why"),
    [
        (Answer(rc=127), "Open MPI's daemon is missing"),
        (Answer(rc=139, stderr="Segmentation fault"), "ended with 139: Segmentation fault"),
        (Unreachable("gpu2: gone"), "gpu2: gone"),
    ],
)
def test_the_node_whose_daemon_does_not_start_is_named(
    daemon: Answer | Exception, why: str
) -> None:
    says = Answer(rc=1, stderr="ORTE was unable to reliably start one or more daemons.")
    found = reduced(Fake("gpu1", says), Fake("gpu2", daemon=daemon))
    assert found.trouble is not None
    assert why in found.trouble.why
    assert found.trouble.node == "gpu2"


def test_mpirun_is_told_how_each_daemon_ended() -> None:
    first = Fake("gpu1")
    reduced(first, Fake("gpu2", daemon=Answer(rc=7)))
    assert any(command.startswith("echo 7 > ") and "/end.10.0.0.2" in command
               for command, _ in first.ran)  # fmt: skip


def test_a_mpirun_that_calls_for_nobody_says_why_itself() -> None:
    first = Fake("gpu1", Answer(rc=213, stderr="There are not enough slots"), calls=False)
    second = Fake("gpu2")
    found = reduced(first, second)
    assert found.trouble is not None
    assert "not enough slots" in found.trouble.why
    assert second.ran == []


def test_nothing_is_left_of_it_though_a_daemon_ends_in_the_same_moment(tmp_path: Path) -> None:
    for tool in ("mpirun", "all_reduce_perf"):
        (tmp_path / tool).write_text("#!/bin/sh\nsleep 0.02\n")
        (tmp_path / tool).chmod(0o755)
    for _ in range(10):
        first = Fake("gpu1")
        reduced(first, Fake("gpu2"))
        launch = next(command for command, _ in first.ran if "mpirun -np" in command)
        end = next(command for command, _ in first.ran if command.startswith("echo "))
        folder = Path(re.findall(r"/tmp/nodeprep-mpi\.\w+", launch)[0])
        job = subprocess.Popen(["sh", "-c", launch.replace(" PATH=", f" PATH={tmp_path}:", 1)])
        while job.poll() is None:
            ends = ["sh", "-c", f"for _ in $(seq 99); do {end}; done"]
            subprocess.run(ends, stderr=DEVNULL, check=False)
        assert job.wait() == 0
        assert list(folder.parent.glob(f"{folder.name}*")) == []
