"""The lab's own two processes: services inside its network, the forwarder on this machine."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from nodeprep.errors import ToolFailure
from nodeprep.lab import cgroups, image, names, network, processes, shell
from nodeprep.lab.state import LabDir, LabState, NodeState


def start(lab: LabDir, spec: LabState) -> None:
    """The packages' and names' server inside the lab, the forwarder outside."""
    groups = cgroups.make(lab.name, cgroups.SERVICES)
    netns = str(network.path_of(names.lab_netns(lab.name)))
    table = lab.path / "names.json"
    shell.write_atomic(
        table, json.dumps({str(one.name): one.name.address for one in spec.nodes}) + "\n"
    )
    _write_routes(lab, spec)
    layers = image.Image(Path(spec.base), Path(spec.sim))
    python = [sys.executable, "-m"]
    folders = [str(layers.debian), str(layers.nvidia)]
    commands = {
        "services": ["nodeprep.lab.services", netns, str(lab.http_log), *folders, str(table)],
        "forwarder": ["nodeprep.lab.forwarder", str(lab.forward_file)],
    }
    for what, argv in commands.items():
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
            "mode": mode(one),
        }
        for one in spec.nodes
    ]
    netns = str(network.path_of(names.lab_netns(lab.name)))
    shell.write_atomic(lab.forward_file, json.dumps({"netns": netns, "nodes": routes}) + "\n")


def mode(one: NodeState) -> str:
    """How the forwarder treats a node: `open`, or what an injected fault makes of it."""
    if "port_refused" in one.faults:
        return "refused"
    return "hangs" if "ssh_hangs" in one.faults else "open"


def refresh(lab: LabDir, spec: LabState) -> None:
    """Make the forwarder listen as the lab's state says now."""
    _write_routes(lab, spec)
    forwarder = processes.load(lab.pid("forwarder"))
    if forwarder is None:
        raise ToolFailure(
            f"the forwarder ended; see {lab.path / 'forwarder.log'}",
            hint=f"start it: nodeprep lab up --name {lab.name}",
        )
    os.kill(forwarder.pid, signal.SIGHUP)
