"""A node with a board: its tools answer in this process, from a state folder of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import installed, main
from nodeprep.lab.sim.faults import CATALOGUE
from nodeprep.lab.sim.result import Result

VERSION = "535.183.01"
EVERYTHING = {
    "library": VERSION,
    "kernel": VERSION,
    "loaded": VERSION,
    "fabricmanager": VERSION,
    "nccl": "2.16.5-1+cuda12.0",
    "gdrdrv": "2.4",
    "cuda": "12.1.105",
    "dcgm": "3.3.5",
}


class Node:
    """`run` answers as the node would; `inject` breaks something first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.become("a100-sxm4-40g-x4")

    def become(self, model: str, parts: dict[str, str] | None = None) -> Node:
        self.write(boards.new(model, seed="gpu01"))
        installed.save(dict(EVERYTHING if parts is None else parts))
        return self

    def write(self, board: dict[str, Any]) -> None:
        (self.folder / "board.json").write_text(json.dumps(board))

    @property
    def board(self) -> dict[str, Any]:
        return boards.load()

    def inject(self, fault: str, **args: Any) -> Node:
        self.write(CATALOGUE[fault].apply(self.board, **args))
        return self

    def run(self, command: str) -> Result:
        tool, *args = command.split()
        return main.answer(tool, args)

    def out(self, command: str) -> str:
        result = self.run(command)
        assert result.rc == 0, result
        return result.out


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    monkeypatch.setenv("NODEPREP_SIM_BOARD", str(tmp_path / "board.json"))
    for name in ("NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "NCCL_ALGO"):
        monkeypatch.delenv(name, raising=False)
    return Node(tmp_path)
