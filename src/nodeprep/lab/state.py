"""What a lab remembers, under <state>/labs/<name>/, and where its files lie.

lab.json            this model        password       the root password, mode 0600
forward.json        what the forwarder listens to     http.log       what nodes fetched
nodes/<node>/       upper, work, root (the mount), console.log
pids/<what>.json    pid and start time of every process that was started
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterable
from pathlib import Path

from nodeprep import resources
from nodeprep.errors import BadInput, LabUnavailable
from nodeprep.lab import names, shell
from nodeprep.model.base import Frozen


class NodeState(Frozen):
    """One node. `faults`: those injected and not cleared, with their arguments."""

    name: names.NodeName
    board: str
    tier: names.Tier = "fast"
    faults: dict[str, dict[str, str]] = {}


class LabState(Frozen):
    name: str
    index: int
    base: str  # the image's two layers, as paths
    sim: str
    warm: str = ""  # the machine that virtual machines start from; empty: there are none
    nodes: tuple[NodeState, ...] = ()

    def node(self, name: str) -> NodeState:
        for node in self.nodes:
            if str(node.name) == name:
                return node
        known = ", ".join(str(node.name) for node in self.nodes)
        raise BadInput(f"lab {self.name} has no node {name!r}; it has {known}")

    def with_node(self, changed: NodeState) -> LabState:
        others = {node.name: node for node in self.nodes}
        others[changed.name] = changed
        order = sorted(others.values(), key=lambda node: (node.name.kind, node.name.number))
        return self.model_copy(update={"nodes": tuple(order)})


def labs_dir() -> Path:
    return resources.state_home() / "labs"


class LabDir:
    """The folder of one lab."""

    def __init__(self, name: str) -> None:
        self.name = names.check_lab(name)
        self.path = labs_dir() / name
        self.lock = labs_dir() / f".{name}.lock"
        self.file = self.path / "lab.json"
        self.password_file = self.path / "password"
        self.forward_file = self.path / "forward.json"
        self.http_log = self.path / "http.log"

    def node(self, name: names.NodeName) -> Path:
        return self.path / "nodes" / str(name)

    def pid(self, what: str) -> Path:
        return self.path / "pids" / f"{what}.json"

    def exists(self) -> bool:
        return self.file.is_file()

    def load(self) -> LabState:
        if not self.exists():
            raise BadInput(
                f"there is no lab {self.name!r} here",
                hint=f"start it: nodeprep lab up --name {self.name}",
            )
        return LabState.model_validate_json(self.file.read_text())

    def save(self, state: LabState) -> None:
        shell.write_atomic(self.file, state.model_dump_json(indent=2) + "\n")

    def password(self) -> str:
        """The root password of a lab's fresh nodes; made at random when there is none yet."""
        if not self.password_file.is_file():
            shell.write_atomic(self.password_file, secrets.token_urlsafe(12) + "\n", mode=0o600)
        return self.password_file.read_text().strip()


def all_labs() -> tuple[LabState, ...]:
    """Every lab that has state here. One whose file cannot be read is passed over."""
    found = []
    for file in sorted(labs_dir().glob("*/lab.json")):
        try:
            found.append(LabState.model_validate_json(file.read_text()))
        except (OSError, ValueError):
            continue
    return tuple(found)


def choose_index(name: str, known: Iterable[LabState], nodes: Iterable[names.NodeName]) -> int:
    """0 for the lab called `lab`, else the smallest that no lab has and no process listens on."""
    taken = {lab.index for lab in known if lab.name != name}
    if name == names.DEFAULT_LAB:
        return 0
    sample = list(nodes)
    for index in range(1, names.MAX_LABS):
        if index not in taken and all(_free(node.forwarded(index)) for node in sample):
            return index
    raise LabUnavailable(f"all {names.MAX_LABS} lab numbers are taken")


def _free(address: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, names.SSH_PORT))
        except OSError:
            return False
    return True
