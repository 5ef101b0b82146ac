"""The command line as a user runs it, on the inventory of a rack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conftest import Rack

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[1]


class Site:
    """The command line on the rack's inventory, with a state folder of its own."""

    def __init__(self, rack: Rack, folder: Path, *, timeout_s: float = 900) -> None:
        self.rack = rack
        self.timeout_s = timeout_s  # of one command
        self.inventory = rack.inventory(folder / "inventory")
        self.environment = {
            **os.environ,
            "NODEPREP_BOOTSTRAP_PASSWORD": rack.password,
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }

    def command(self, verb: str, *more: str) -> list[str]:
        return [str(BIN / "nodeprep"), verb, str(self.inventory), *more]

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, *more),
            env=self.environment, capture_output=True, text=True, check=False,
            timeout=self.timeout_s,
        )  # fmt: skip

    def document(self, verb: str, *more: str) -> tuple[int, dict[str, Any]]:
        """Exit code, and the nodes of the JSON document by name."""
        done = self.run(verb, "--json", *more)
        assert done.stdout, done.stderr
        return done.returncode, {n["name"]: n for n in json.loads(done.stdout)["nodes"]}

    def ansible(self, *more: str) -> str:
        done = subprocess.run(
            [BIN / "ansible-playbook", "-i", self.inventory, "playbooks/provision.yml", *more],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def copy(self, here: Path, node: str, there: str) -> None:
        """A file or a folder, put onto a node that nodeprep has reached before."""
        words = ["-b", "-m", "ansible.builtin.copy", "-a", f"src={here} dest={there}"]
        done = subprocess.run(
            [BIN / "ansible", "-i", self.inventory, node, *words],
            capture_output=True, text=True, check=False, timeout=1800,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def unmet(node: dict[str, Any]) -> set[str]:
    return {v["claim"] for v in node["verdicts"] if v["verdict"] in ("fail", "unknown")}
