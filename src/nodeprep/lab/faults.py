"""Faults that can be injected into a node: of its hardware, and of the rest of the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodeprep.errors import BadInput
from nodeprep.lab import hostfaults, node, patch, servers, shell, state
from nodeprep.lab.locks import locked
from nodeprep.lab.sim import faults as board
from nodeprep.lab.state import LabDir, LabState, NodeState


@dataclass(frozen=True)
class Entry:
    """A fault on offer. `kind`: board (what stand-ins report) or host (the machine itself).

    `arguments`: by name, with their defaults; None for one that must be given.
    """

    name: str
    kind: str
    summary: str
    arguments: Mapping[str, str | None] = field(default_factory=dict)


def catalogue() -> tuple[Entry, ...]:
    """Every fault that `inject` knows, hardware first."""
    boards = [
        Entry(name, "board", fault.summary, fault.takes())
        for name, fault in board.CATALOGUE.items()
    ]
    hosts = [
        Entry(name, "host", _with_arguments(fault), dict(fault.defaults))
        for name, fault in hostfaults.CATALOGUE.items()
    ]
    return (*boards, *hosts)


def _with_arguments(fault: hostfaults.HostFault) -> str:
    options = ", ".join(f"{key}={value}" for key, value in fault.defaults.items())
    return f"{fault.summary} ({options})" if options else fault.summary


def inject(lab_name: str, node_name: str, fault: str, given: Mapping[str, str]) -> None:
    """Make a node faulty. Injecting the same fault again is an error: clear it first."""
    with locked(state.labs_dir() / ".lock"):
        lab, one = node.find(lab_name, node_name)
        if fault in one.faults:
            raise BadInput(
                f"{node_name} has the fault {fault} already",
                hint=f"nodeprep lab inject {node_name} --clear",
            )
        if fault in hostfaults.CATALOGUE:
            chosen = hostfaults.CATALOGUE[fault]
            args = hostfaults.arguments(chosen, given)
            chosen.inject(lab, one, args)
        elif fault in board.CATALOGUE:
            args = dict(given)
            _change_board(lab, one, fault, args)
        else:
            known = ", ".join(entry.name for entry in catalogue())
            raise BadInput(f"no fault is called {fault!r}; there are {known}")
        _remember(lab, one.model_copy(update={"faults": {**one.faults, fault: args}}))


def clear(lab_name: str, node_name: str) -> None:
    """Take every injected fault back, the last one first. What else changed on the node stays."""
    with locked(state.labs_dir() / ".lock"):
        lab, one = node.find(lab_name, node_name)
        for fault, args in reversed(list(one.faults.items())):
            if fault in hostfaults.CATALOGUE:
                hostfaults.CATALOGUE[fault].clear(lab, one, args)
            else:
                _restore_board(lab, one, fault)
            left = {name: args for name, args in one.faults.items() if name != fault}
            one = one.model_copy(update={"faults": left})
            _remember(lab, one)


def _remember(lab: LabDir, one: NodeState) -> None:
    spec: LabState = lab.load().with_node(one)
    lab.save(spec)
    servers.refresh(lab, spec)


def _undo_file(lab: LabDir, one: NodeState, fault: str) -> Path:
    return lab.node(one.name) / f"undo-{fault}.json"


def _change_board(lab: LabDir, one: NodeState, fault: str, args: Mapping[str, str]) -> None:
    before = node.read_board(lab, one)
    try:
        after = board.CATALOGUE[fault].apply(before, **args)
    except ValueError as problem:
        given = ", ".join(f"{key}={value}" for key, value in args.items()) or "no arguments"
        raise BadInput(
            f"{fault} with {given}: {problem}",
            hint="nodeprep lab inject --list shows every fault and what it takes",
        ) from None
    undo = patch.changes(before, after)
    shell.write_atomic(_undo_file(lab, one, fault), json.dumps(undo))
    node.write_board(lab, one, after)


def _restore_board(lab: LabDir, one: NodeState, fault: str) -> None:
    file = _undo_file(lab, one, fault)
    restored = patch.undone(node.read_board(lab, one), json.loads(file.read_text()))
    node.write_board(lab, one, restored)
    file.unlink()
