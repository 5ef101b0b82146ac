"""The rack: a lab brought up, taken down, looked at, and its nodes reset. What other code calls."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from nodeprep import resources
from nodeprep.errors import BadInput, ToolFailure
from nodeprep.lab import (
    cgroups,
    container,
    disk,
    host,
    hostfaults,
    image,
    names,
    network,
    node,
    processes,
    servers,
    shell,
    sitefile,
    state,
)
from nodeprep.lab.locks import locked
from nodeprep.lab.sim import models
from nodeprep.lab.state import LabDir, LabState, NodeState
from nodeprep.model.base import Frozen

_READY_TIMEOUT_S = 180
_BANNER_TIMEOUT_S = 5

Note = Callable[[str], None]


class NodeStatus(Frozen):
    """One node as it is now.

    power  running or off.  ssh  answers, silent (accepts and never speaks) or refused
    """

    name: str
    host: str
    port: int
    address: str
    board: str
    power: str
    ssh: str
    faults: tuple[str, ...] = ()


class LabStatus(Frozen):
    name: str
    index: int
    site_dir: str
    nodes: tuple[NodeStatus, ...]


def _silent(_text: str) -> None:
    pass


@contextmanager
def _alone() -> Iterator[None]:
    """One command at a time changes labs."""
    with locked(state.labs_dir() / ".lock"):
        yield


def up(
    name: str = names.DEFAULT_LAB,
    *,
    gpus: int = 3,
    nas: int = 1,
    board: str = sitefile.DEFAULT_BOARD,
    tier: names.Tier = "fast",
    note: Note = _silent,
) -> LabStatus:
    """Bring a lab up and wait until every node's sshd answers. Nodes that run are left alone.

    A lab that is larger than asked for keeps its nodes; those that are new are of `tier`.
    LabUnavailable where it cannot run.
    """
    wanted = names.rack_nodes(gpus, nas)
    _check_tier(tier, board)
    if board not in models.MODELS:
        known = ", ".join(sorted(models.MODELS))
        raise BadInput(f"no board is called {board!r}; there are {known}")
    lab = LabDir(name)
    host.check(tier)
    built = _image(lab, note)
    with _alone():
        host.borrow()
        spec = _specify(lab, built, wanted, board, tier)
        if not spec.warm and any(one.tier == "vm" for one in spec.nodes):
            spec = spec.model_copy(
                update={"warm": str(disk.ensure(built, note=note, in_use=_warm_ones()))}
            )
        lab.save(spec)
        lab.password()
        network.make_lab(name)
        for one in spec.nodes:
            node.make(lab, spec, one)
        servers.start(lab, spec)
        note(f"starting {len(spec.nodes)} nodes")
        for one in spec.nodes:
            node.start(lab, spec, one)
        servers.refresh(lab, spec)
    wait_ready(lab, spec)
    return status(name)


def _check_tier(tier: names.Tier, board: str) -> None:
    """BadInput for a board that has no profile for virtual machines."""
    if tier == "vm" and board != sitefile.DEFAULT_BOARD:
        raise BadInput(
            f"virtual machines come with the board {sitefile.DEFAULT_BOARD}, not {board}",
            hint="the fast tier has the others",
        )


def _image(lab: LabDir, note: Note) -> image.Image:
    """The image that the lab was made from, or today's for a new lab."""
    if not lab.exists():
        used = [Path(layer) for other in state.all_labs() for layer in (other.base, other.sim)]
        return image.ensure(note=note, in_use=used)
    spec = lab.load()
    found = image.Image(Path(spec.base), Path(spec.sim))
    if not all(layer.is_dir() for layer in found.layers):
        raise ToolFailure(
            f"the image that lab {lab.name!r} was made from is gone",
            hint=f"nodeprep lab down --name {lab.name}, then up",
        )
    if found != image.today():
        note(f"lab {lab.name} keeps the image of its first start; a newer one: down, then up")
    return found


def _warm_ones() -> list[Path]:
    """The warm machines that any lab's virtual machines have under them."""
    return [Path(lab.warm) for lab in state.all_labs() if lab.warm]


def _specify(
    lab: LabDir,
    built: image.Image,
    wanted: Iterable[names.NodeName],
    board: str,
    tier: names.Tier,
) -> LabState:
    """The lab's state: as it was, with the nodes that are new."""
    if lab.exists():
        spec = lab.load()
    else:
        if network.namespaces_of(lab.name):
            raise ToolFailure(
                f"another lab called {lab.name!r} runs on this machine, from another state folder",
                hint="choose another --name, or take it down where it was started",
            )
        wanted = tuple(wanted)
        index = state.choose_index(lab.name, state.all_labs(), wanted)
        spec = LabState(name=lab.name, index=index, base=str(built.base), sim=str(built.sim))
    have = {one.name for one in spec.nodes}
    for name in wanted:
        if name not in have:
            model = sitefile.NAS_BOARD if name.kind == "nas" else board
            spec = spec.with_node(NodeState(name=name, board=model, tier=tier))
    return spec


def wait_ready(lab: LabDir, spec: LabState, only: Iterable[str] = ()) -> None:
    """Until sshd of every node (or of `only`) answers, those apart that a fault keeps silent."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    chosen = set(only)
    waiting = [
        one
        for one in spec.nodes
        if servers.mode(one) == "open" and (not chosen or str(one.name) in chosen)
    ]
    while waiting:
        waiting = [one for one in waiting if _ssh(one.name.forwarded(spec.index)) != "answers"]
        if waiting and time.monotonic() > deadline:
            late = waiting[0].name
            raise ToolFailure(
                f"{late} does not answer after {_READY_TIMEOUT_S} s",
                hint=f"see {lab.node(late) / 'console.log'}",
            )
        if waiting:
            time.sleep(0.1)


def _ssh(address: str) -> str:
    try:
        with socket.create_connection((address, names.SSH_PORT), _BANNER_TIMEOUT_S) as made:
            return "answers" if made.recv(4) == b"SSH-" else "refused"
    except TimeoutError:
        return "silent"
    except OSError:
        return "refused"


def status(name: str = names.DEFAULT_LAB) -> LabStatus:
    """Every node of a lab; BadInput when there is no such lab."""
    lab = LabDir(name)
    spec = lab.load()
    addresses = [one.name.forwarded(spec.index) for one in spec.nodes]
    with ThreadPoolExecutor(max_workers=16) as pool:  # a node that hangs holds up no other
        answers = list(pool.map(_ssh, addresses))
    nodes = tuple(
        NodeStatus(
            name=str(one.name),
            host=address,
            port=names.SSH_PORT,
            address=one.name.address,
            board=one.board,
            power="running" if node.running(lab, one) else "off",
            ssh=answer,
            faults=tuple(sorted(one.faults)),
        )
        for one, address, answer in zip(spec.nodes, addresses, answers, strict=True)
    )
    return LabStatus(
        name=name, index=spec.index, site_dir=str(resources.site_dir(name)), nodes=nodes
    )


def down(name: str = names.DEFAULT_LAB) -> None:
    """Remove a lab and everything of it, whatever state it is in. None is no error.

    The site's folder (host keys, key, ledger) goes too: the next lab's nodes are other machines.
    """
    lab = LabDir(name)
    with _alone():
        if lab.path.exists():
            _take_down(lab)
        if not state.all_labs():
            host.give_back()


def _take_down(lab: LabDir) -> None:
    # By name, not by what was recorded: a lab that crashed halfway up is removed all the same.
    records = sorted((lab.path / "pids").glob("*.json"))
    recorded = [found for file in records if (found := processes.load(file))]
    processes.kill(recorded)
    cgroups.kill(lab.name)
    cgroups.remove(lab.name)
    network.remove(lab.name)
    container.forget(lab)
    shell.remove_tree(lab.path)
    if resources.site_dir(lab.name).is_dir():
        shutil.rmtree(resources.site_dir(lab.name))


def reset(name: str, nodes: Sequence[str] = ()) -> LabStatus:
    """Give nodes (none named: all) a fresh image: new host key, password login, healthy board."""
    lab = LabDir(name)
    with _alone():
        spec = lab.load()
        chosen = [spec.node(one) for one in nodes] if nodes else list(spec.nodes)
        for one in chosen:
            node.stop(lab, one)
            node.wipe(lab, one)
            hostfaults.mend_cable(lab, one)
            fresh = one.model_copy(update={"faults": {}})
            node.make(lab, spec, fresh)
            node.start(lab, spec, fresh)
            spec = spec.with_node(fresh)
            lab.save(spec)
        servers.refresh(lab, spec)
    wait_ready(lab, spec, only=[str(one.name) for one in chosen])
    return status(name)


def execute(
    name: str, node_name: str, argv: Sequence[str], *, text: str = "", timeout_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command as root inside a node, not through SSH. The caller reads its exit status."""
    lab, one = node.find(name, node_name)
    return node.execute(lab, one, argv, text=text, check=False, timeout_s=timeout_s)


def attach(name: str, node_name: str, argv: Sequence[str]) -> int:
    """The same with this process's own input and output. Returns the exit status."""
    lab, one = node.find(name, node_name)
    return node.attach(lab, one, argv)


def password(name: str = names.DEFAULT_LAB) -> str:
    """The root password of a lab's fresh nodes."""
    lab = LabDir(name)
    lab.load()
    return lab.password()


def inventory(name: str = names.DEFAULT_LAB) -> str:
    """A lab's inventory; for a lab that is not up, that of the default rack (`lab` alone)."""
    lab = LabDir(name)
    if name == names.DEFAULT_LAB and not lab.exists():
        return sitefile.default()
    return sitefile.of(lab.load())
