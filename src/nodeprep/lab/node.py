"""One lab node, whatever it is made of: a container (fast tier) or a virtual machine (vm tier)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from subprocess import CompletedProcess
from typing import Any, Protocol

from nodeprep.errors import ToolFailure
from nodeprep.lab import container, state, vm
from nodeprep.lab.state import LabDir, LabState, NodeState


class _Tier(Protocol):
    """What both modules offer."""

    def make(self, lab: LabDir, spec: LabState, node: NodeState) -> None: ...
    def start(self, lab: LabDir, spec: LabState, node: NodeState) -> None: ...
    def running(self, lab: LabDir, node: NodeState) -> bool: ...
    def stop(self, lab: LabDir, node: NodeState) -> None: ...
    def wipe(self, lab: LabDir, node: NodeState) -> None: ...
    def new_host_keys(self, lab: LabDir, node: NodeState) -> None: ...
    def read_board(self, lab: LabDir, node: NodeState) -> dict[str, Any]: ...
    def write_board(self, lab: LabDir, node: NodeState, board: Mapping[str, Any]) -> None: ...
    def attach(self, lab: LabDir, node: NodeState, argv: Sequence[str]) -> int: ...
    def run(
        self, lab: LabDir, node: NodeState, argv: Sequence[str], text: str, timeout_s: float
    ) -> CompletedProcess[str]: ...


def _tier(node: NodeState) -> _Tier:
    return vm if node.tier == "vm" else container


def make(lab: LabDir, spec: LabState, node: NodeState) -> None:
    """A fresh node, not started. Does nothing for one that is there already."""
    _tier(node).make(lab, spec, node)


def start(lab: LabDir, spec: LabState, node: NodeState) -> None:
    """Boot a node, unless it runs. A reboot inside it starts it again; a poweroff does not."""
    if not running(lab, node):
        _tier(node).start(lab, spec, node)


def running(lab: LabDir, node: NodeState) -> bool:
    """Whether it has power (a node that reboots is running)."""
    return _tier(node).running(lab, node)


def stop(lab: LabDir, node: NodeState) -> None:
    """Pull the plug."""
    _tier(node).stop(lab, node)


def wipe(lab: LabDir, node: NodeState) -> None:
    """Throw away everything that was ever written on a (stopped) node."""
    _tier(node).wipe(lab, node)


def new_host_keys(lab: LabDir, node: NodeState) -> None:
    """Other SSH host keys than before, as another machine would have."""
    _tier(node).new_host_keys(lab, node)


def read_board(lab: LabDir, node: NodeState) -> dict[str, Any]:
    return _tier(node).read_board(lab, node)


def write_board(lab: LabDir, node: NodeState, board: Mapping[str, Any]) -> None:
    _tier(node).write_board(lab, node, board)


def attach(lab: LabDir, node: NodeState, argv: Sequence[str]) -> int:
    """Run a command in a node with this process's own output. Returns its exit status."""
    return _tier(node).attach(lab, node, argv)


def execute(
    lab: LabDir,
    node: NodeState,
    argv: Sequence[str],
    *,
    text: str = "",
    check: bool = True,
    timeout_s: float = 120,
) -> CompletedProcess[str]:
    """Run a command as root in a node, not through SSH, and bring back what it printed."""
    done = _tier(node).run(lab, node, argv, text, timeout_s)
    if check and done.returncode != 0:
        tail = (done.stderr or done.stdout).strip()[-500:]
        raise ToolFailure(f"{node.name}: `{' '.join(argv[:4])}` failed: {tail}")
    return done


def find(lab: str, name: str) -> tuple[LabDir, NodeState]:
    folder = state.LabDir(lab)
    return folder, folder.load().node(name)
