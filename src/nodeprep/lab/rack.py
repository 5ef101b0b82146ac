"""The rack: a lab brought up, taken down, looked at, and its nodes reset. What other code calls."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from nodeprep import resources
from nodeprep.errors import BadInput, ToolFailure
from nodeprep.lab import (
    cgroups,
    host,
    image,
    names,
    network,
    node,
    processes,
    shell,
    state,
)
from nodeprep.lab.locks import locked
from nodeprep.lab.sim import models
from nodeprep.lab.state import LabDir, LabState, NodeState
from nodeprep.model.base import Frozen

DEFAULT_BOARD = "a100-sxm4-40g-x4"
NAS_BOARD = "nas"
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
    board: str = DEFAULT_BOARD,
    note: Note = _silent,
) -> LabStatus:
    """Bring a lab up and wait until every node's sshd answers. Nodes that run are left alone.

    A lab that is larger than asked for keeps its nodes. LabUnavailable where it cannot run.
    """
    wanted = names.rack_nodes(gpus, nas)
    if board not in models.MODELS:
        known = ", ".join(sorted(models.MODELS))
        raise BadInput(f"no board is called {board!r}; there are {known}")
    lab = LabDir(name)
    host.check()
    built = image.ensure(note=note, in_use=_layers_in_use())
    with _alone():
        host.borrow()
        spec = _specify(lab, built, wanted, board)
        lab.save(spec)
        lab.password()
        network.make_lab(name)
        for one in spec.nodes:
            network.make_node(name, one.name)
            node.make(lab, spec, one)
        _start_servers(lab, spec)
        note(f"starting {len(spec.nodes)} nodes")
        for one in spec.nodes:
            node.start(lab, one)
        refresh_routes(lab, spec)
    wait_ready(lab, spec)
    return status(name)


def _layers_in_use() -> list[image.Path]:
    return [image.Path(layer) for lab in state.all_labs() for layer in (lab.base, lab.sim)]


def _specify(
    lab: LabDir, built: image.Image, wanted: Iterable[names.NodeName], board: str
) -> LabState:
    """The lab's state: as it was, with what is new. A running lab keeps its image."""
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
            model = NAS_BOARD if name.kind == "nas" else board
            spec = spec.with_node(NodeState(name=name, board=model))
    return spec


def _start_servers(lab: LabDir, spec: LabState) -> None:
    """The packages' and names' server inside the lab, the forwarder outside."""
    groups = cgroups.make(lab.name, cgroups.SERVICES)
    netns = str(network.path_of(names.lab_netns(lab.name)))
    table = lab.path / "names.json"
    shell.write_atomic(
        table, json.dumps({str(one.name): one.name.address for one in spec.nodes}) + "\n"
    )
    _write_routes(lab, spec)
    layers = image.Image(image.Path(spec.base), image.Path(spec.sim))
    python = [sys.executable, "-m"]
    folders = [str(layers.debian), str(layers.nvidia)]
    servers = {
        "services": ["nodeprep.lab.services", netns, str(lab.http_log), *folders, str(table)],
        "forwarder": ["nodeprep.lab.forwarder", str(lab.forward_file)],
    }
    for what, argv in servers.items():
        if processes.load(lab.pid(what)) is None:
            processes.spawn(
                [*python, *argv],
                record=lab.pid(what),
                log=lab.path / f"{what}.log",
                cgroups=groups,
            )


def _write_routes(lab: LabDir, spec: LabState) -> None:
    routes = [
        {
            "listen": one.name.forwarded(spec.index),
            "port": names.SSH_PORT,
            "to": one.name.address,
            "mode": _mode(one),
        }
        for one in spec.nodes
    ]
    netns = str(network.path_of(names.lab_netns(lab.name)))
    shell.write_atomic(lab.forward_file, json.dumps({"netns": netns, "nodes": routes}) + "\n")


def _mode(one: NodeState) -> str:
    if "port_refused" in one.faults:
        return "refused"
    return "hangs" if "ssh_hangs" in one.faults else "open"


def refresh_routes(lab: LabDir, spec: LabState) -> None:
    """Make the forwarder listen as the lab's state says now."""
    _write_routes(lab, spec)
    forwarder = processes.load(lab.pid("forwarder"))
    if forwarder is None:
        raise ToolFailure(f"the forwarder ended; see {lab.path / 'forwarder.log'}")
    os.kill(forwarder.pid, signal.SIGHUP)


def wait_ready(lab: LabDir, spec: LabState, only: Iterable[str] = ()) -> None:
    """Until sshd of every node (or of `only`) answers, those apart that a fault keeps silent."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    chosen = set(only)
    waiting = [
        one
        for one in spec.nodes
        if _mode(one) == "open" and (not chosen or str(one.name) in chosen)
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
    nodes = tuple(
        NodeStatus(
            name=str(one.name),
            host=one.name.forwarded(spec.index),
            port=names.SSH_PORT,
            address=one.name.address,
            board=one.board,
            power="running" if node.running(lab, one) else "off",
            ssh=_ssh(one.name.forwarded(spec.index)),
            faults=tuple(sorted(one.faults)),
        )
        for one in spec.nodes
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
            fresh = one.model_copy(update={"faults": {}})
            node.make(lab, spec, fresh)
            node.start(lab, fresh)
            spec = spec.with_node(fresh)
            lab.save(spec)
        refresh_routes(lab, spec)
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
    return subprocess.run(node.command(lab, one, argv), check=False).returncode


def password(name: str = names.DEFAULT_LAB) -> str:
    """The root password of a lab's fresh nodes."""
    lab = LabDir(name)
    lab.load()
    return lab.password()
