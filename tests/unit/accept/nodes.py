"""Nodes to accept: a document, a reading, and something that answers like the node."""

from __future__ import annotations

import atexit
import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nodeprep.accept.job import Job
from nodeprep.accept.proof import PATH
from nodeprep.accept.run import accept
from nodeprep.accept.session import NodeSession
from nodeprep.lab.sim import board as boards
from nodeprep.lab.sim import native
from nodeprep.model.claim import Claim
from nodeprep.model.event import Event, What
from nodeprep.model.hardware import Cpu, Disk, Gpu, Hardware
from nodeprep.model.node import Connection, Document, Node
from nodeprep.model.profile import Profile
from nodeprep.model.reading import Host, NodeReading
from nodeprep.model.verdict import Outcome, Verdict

ROOT = Path(__file__).resolve().parents[3]
ROLES = ROOT / "roles"
SIM = ROOT / "src/nodeprep/lab/sim/run"
MESH = "lab-a100-sxm4-40g-x4"
CLOCK = 1_800_000_000.0
DRIVER = "535.183.06"
CACHE = Disk(
    name="nvme0n1", size_bytes=1_920_383_410_176, transport="nvme",
    in_use=("signature xfs", "mounted at /cache"),
)  # fmt: skip
TOOLS = (
    "nvidia-smi", "nvcc", "all_reduce_perf", "nvbandwidth", "gdrcopy_sanity", "dmesg", "journalctl",
    "all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "dcgmi", "gdrcopy_copybw", "ethtool",
    "dcgmproftester12",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    stdout: str = ""
    rc: int = 0
    stderr: str = ""
    timed_out: bool = False


@dataclass
class FakeNode:
    """Answers what `answers` knows (the first pattern found in the command), then the simulator.

    What neither knows is a command that is not found.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    sim: Path | None = None
    ran: list[tuple[str, bool, float]] = field(default_factory=list)
    connected: int = 0
    closed: int = 0

    def connect(self) -> FakeNode:
        self.connected += 1
        return self

    def run(self, command: str, *, sudo: bool, timeout_s: float) -> Answer:
        self.ran.append((command, sudo, timeout_s))
        for pattern, answer in self.answers.items():
            if re.search(pattern, command):
                return answer
        if self.sim is None:
            return Answer(rc=127, stderr="not found")
        return _simulated(self.sim, command)

    def close(self) -> None:
        self.closed += 1


def simulated_node(
    folder: Path, model: str = MESH.removeprefix("lab-"), **answers: Answer
) -> FakeNode:
    """A node with a simulated board of `model`; the lab's stand-ins answer for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir()
    for tool in TOOLS:
        (folder / "bin" / tool).symlink_to(SIM)
    node = FakeNode(answers=dict(answers), sim=folder)
    write_board(node, boards.new(model, "test"))
    return node


def write_board(node: FakeNode, board: dict[str, Any]) -> None:
    import json

    assert node.sim
    (node.sim / "board.json").write_text(json.dumps(board))
    parts = dict.fromkeys(("library", "kernel", "loaded"), DRIVER)
    parts |= {"cuda": "12.1.1", "nccl": "2.16.5", "gdrdrv": "2.4.1", "gdrcopy": "2.4.1"}
    parts |= {"libgdrapi": "2.4.1", "nccl-tests": "2.13.9", "nvbandwidth": "0.8"}
    (node.sim / "installed.json").write_text(json.dumps(parts))


def break_board(node: FakeNode, change: Callable[[dict[str, Any]], object]) -> None:
    """Put a fault into the simulated board."""
    import json

    assert node.sim
    board = json.loads((node.sim / "board.json").read_text())
    change(board)
    (node.sim / "board.json").write_text(json.dumps(board))


def _simulated(folder: Path, command: str) -> Answer:
    line = command.replace(f"PATH={PATH}", f"PATH={folder / 'bin'}:{os.environ['PATH']}")
    env = {"PATH": os.environ["PATH"], **stand_ins(folder)}
    done = subprocess.run(
        line, shell=True, env=env, capture_output=True, text=True, timeout=30, check=False
    )
    return Answer(done.stdout, done.returncode, done.stderr)


def stand_ins(folder: Path) -> dict[str, str]:
    """What they need of the environment to be those of the board in `folder`."""
    return {
        "NODEPREP_SIM_BOARD": str(folder / "board.json"),
        "NODEPREP_SIM_ENTRY": str(SIM),
        "LD_LIBRARY_PATH": _libraries(),
    }


@functools.cache
def _libraries() -> str:
    """A folder with the stand-ins of CUDA's, for this process's life."""
    folder = tempfile.TemporaryDirectory(prefix="nodeprep-native-")
    atexit.register(folder.cleanup)
    native.build(Path(folder.name))
    return folder.name


def profile(name: str = MESH) -> Profile:
    text = (ROOT / "inventory/profiles" / f"{name}.yaml").read_text()
    return Profile.model_validate(yaml.safe_load(text))


def document(*roles: str, on: Profile | None = None, claims: Sequence[Claim] = ()) -> Document:
    connection = Connection(host="192.0.2.7", user="ops", key_file="/k", known_hosts="/h")
    node = Node(name="gpu1", site="test", connection=connection, profile=on or profile())
    return Document(node=node, roles=roles, claims=tuple(claims))


def reading(
    simulated: bool = True, buses: Sequence[str] = ("17", "31", "b1", "ca"), **parts: Any
) -> NodeReading:
    """Of a server with two sockets and a cache disk that is mounted; `parts` of other hardware."""
    host = Host(hostname="gpu1", clock=CLOCK, simulated=simulated)
    hardware = {
        "gpus": tuple(Gpu(pci_address=f"0000:{bus}:00.0") for bus in buses),
        "cpu": Cpu(sockets=2, cores_per_socket=32, numa_nodes=2),
        "disks": (CACHE,),
    }
    return NodeReading(node="gpu1", host=host, hardware=Hardware(**{**hardware, **parts}))


def verdict(claim: str = "base/package:chrony", outcome: str = "pass", **fields: Any) -> Verdict:
    role = claim.partition("/")[0]
    return Verdict(claim=claim, role=role, verdict=Outcome(outcome), **fields)


def job(wanted: Document, roles: Path = ROLES, **fields: Any) -> Job:
    values: dict[str, Any] = {
        "document": wanted,
        "reading": reading(),
        "claims": (verdict(),),
        "roles_path": (str(roles),),
    }
    return Job(**{**values, **fields})


@dataclass
class Outcomes:
    """What a run of the acceptance emitted."""

    events: list[Event]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        found = (e.data for e in self.events if e.what is What.VERDICT)
        return {data["claim"]: Verdict.model_validate(data) for data in found}

    @property
    def done(self) -> dict[str, Any]:
        return self.events[-1].data

    @property
    def errors(self) -> list[str]:
        return [e.data["message"] for e in self.events if e.what is What.ERROR]

    def proof(self, name: str) -> Verdict:
        return next(v for claim, v in self.verdicts.items() if claim.endswith(f"/proof:{name}"))


def accepted(
    what: Job, node: FakeNode, offers: Callable[[str], tuple[str, ...]] | None = None
) -> Outcomes:
    """Run the acceptance in this process; the caller has pytest's plugin loading turned off."""
    events: list[Event] = []
    session = NodeSession(node.connect, offers or (lambda _: ("publickey",)))
    accept(what, session, events.append)
    return Outcomes(events)
