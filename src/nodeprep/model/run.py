"""What a run of nodeprep found and did: the document behind the screen, JSON, JUnit and HTML."""

from __future__ import annotations

import datetime as dt

from nodeprep.model.base import Frozen
from nodeprep.model.hardware import Hardware
from nodeprep.model.lifecycle import State
from nodeprep.model.plan import NodePlan
from nodeprep.model.profile import Profile
from nodeprep.model.reading import Host
from nodeprep.model.verdict import Outcome, Verdict


class Fault(Frozen):
    """Why a node could not go on: an error of `nodeprep.errors`, as data."""

    type: str
    message: str
    hint: str = ""
    stage: str = ""


class NodeResult(Frozen):
    """One node of a run. `verdicts`: hardware, claims and proofs, in that order."""

    name: str
    state: State
    since: dt.datetime | None = None
    why: str = ""
    verdicts: tuple[Verdict, ...] = ()
    fault: Fault | None = None
    plan: NodePlan | None = None
    changed: tuple[str, ...] = ()  # what converge changed: "role: task"
    host: Host | None = None
    hardware: Hardware | None = None
    profile: Profile | None = None
    simulated: bool = False

    @property
    def blocking(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.verdict.blocks)

    def count(self, outcome: Outcome) -> int:
        return sum(v.verdict is outcome for v in self.verdicts)


class RunResult(Frozen):
    id: str  # 20261130T164639-provision-1f3a
    verb: str
    site: str
    inventory: str
    version: str
    started: dt.datetime
    finished: dt.datetime
    exit_code: int
    nodes: tuple[NodeResult, ...] = ()
