"""The rows of the ledger as models. No database in here."""

from __future__ import annotations

import datetime as dt

from nodeprep.model.base import Frozen
from nodeprep.model.lifecycle import Event, State


class NodeState(Frozen):
    """Where a node stands. `since`: when it entered the state; None when it was never seen."""

    state: State = State.NEW
    since: dt.datetime | None = None
    why: str = ""


class Move(Frozen):
    """One line of a node's history."""

    node: str
    at: dt.datetime
    event: Event
    before: State
    after: State
    reason: str = ""
    run_id: str = ""


class Identity(Frozen):
    """What tells one machine from another that has the same parts. None: it was not read."""

    board_serial: str | None = None
    gpu_uuids: tuple[str, ...] | None = None


class IdentityChange(Frozen):
    """A part that is not the one that was accepted."""

    part: str  # board, gpu
    accepted: str
    found: str

    def __str__(self) -> str:
        return f"{self.part}: accepted {self.accepted}, found {self.found}"


class Accepted(Frozen):
    """An acceptance: of which desired state, in which boot, with which figures.

    measurements   by name (nccl.all_reduce.busbw), in the unit of the profile's gate
    stands         false once the node drifted, was refused or retired
    """

    digest: str
    boot_id: str
    at: dt.datetime
    measurements: dict[str, float] = {}
    identity: Identity = Identity()
    stands: bool = True


class RunRecord(Frozen):
    """One run. Neither finished nor interrupted: at work, by `pid`."""

    id: str
    verb: str
    inventory: str
    pid: int
    started: dt.datetime
    finished: dt.datetime | None = None
    exit_code: int | None = None
    interrupted: bool = False
