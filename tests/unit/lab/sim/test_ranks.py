"""Ranks on several nodes: the first prints what the slowest of all, or the worst hop, allows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import installed, ranks
from nodeprep.lab.sim.faults import CATALOGUE
from tests.unit.accept.nodes import SIM
from tests.unit.lab.sim.conftest import EVERYTHING

SIZES = ["-b", "512M", "-e", "512M", "-g", "4"]


def job(folder: Path, boards_of: list[dict[str, object]], namespace: str) -> str:
    """What the first rank prints; a process for every board, as mpirun would start them."""
    running = []
    for rank, board in enumerate(boards_of):
        home = folder / str(rank)
        home.mkdir()
        (home / "board.json").write_text(json.dumps(board))
        (home / "installed.json").write_text(json.dumps(EVERYTHING))
        env = {
            "PATH": os.environ["PATH"],
            "NODEPREP_SIM_BOARD": str(home / "board.json"),
            "OMPI_COMM_WORLD_SIZE": str(len(boards_of)),
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_MCA_orte_hnp_uri": "1577058304.0;tcp://127.0.0.1:40225",
            "PMIX_NAMESPACE": namespace,
            "NCCL_ALGO": "Ring",
        }
        command = [sys.executable, "-I", str(SIM), "all_reduce_perf", *SIZES]
        running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert outputs[1:] == [""] * (len(outputs) - 1)
    return outputs[0]


def busbw(text: str) -> float:
    found, *_ = re.findall(r"^ +536870912 .*? (\d+\.\d+) +0 ", text, re.MULTILINE)
    return float(found)


def test_the_slowest_node_decides(tmp_path: Path) -> None:
    healthy = boards.new(seed="one")
    slow = CATALOGUE["slow_network"].apply(boards.new(seed="two"), factor=0.3)
    fast = job(tmp_path / "fast", [healthy] * 3, str(os.getpid()))
    spoilt = job(tmp_path / "slow", [healthy, slow, healthy], str(os.getpid() + 1))
    assert busbw(fast) == pytest.approx(1.12, abs=0.03)
    assert busbw(spoilt) == pytest.approx(0.34, abs=0.02)


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    (tmp_path / "fast").mkdir()
    (tmp_path / "slow").mkdir()


def test_a_slow_path_counts_only_where_the_ring_takes_it() -> None:
    names = ["gpu1", "gpu2", "gpu3", "gpu4"]
    told = [{"host": name, "rate": 1.1, "peers": {}} for name in names]
    assert ranks.slowest(told) == 1.1
    told[0]["peers"] = {"gpu3": 0.05}
    assert ranks.slowest(told) == 1.1
    assert ranks.slowest([told[0], told[2], told[1]]) == pytest.approx(0.055)
    told[0]["peers"] = {"gpu4": 0.05}
    assert ranks.slowest(told) == pytest.approx(0.055)


def test_the_fault_names_the_peer() -> None:
    board = CATALOGUE["slow_path"].apply(boards.new(), peer="gpu2", factor=0.1)
    assert ranks.report(board)["peers"] == {"gpu2": 0.1}


def test_a_rank_that_never_comes_ends_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "WAIT_S", 0.3)
    monkeypatch.setenv("NODEPREP_SIM_BOARD", str(tmp_path / "board.json"))
    monkeypatch.setenv("OMPI_MCA_orte_hnp_uri", "1.0;tcp://127.0.0.1:1")
    monkeypatch.setenv("PMIX_NAMESPACE", str(os.getpid() + 2))
    installed.save(dict(EVERYTHING))
    assert ranks.gather(boards.new(), 2) == []
