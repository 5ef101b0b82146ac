"""The job of the acceptance worker: what it reads from stdin."""

from __future__ import annotations

from typing import Literal, get_args

from nodeprep.model.base import Frozen
from nodeprep.model.node import Document
from nodeprep.model.reading import NodeReading
from nodeprep.model.verdict import Verdict

Level = Literal["poc", "stress", "burnin"]
LEVELS: tuple[Level, ...] = get_args(Level)


class Job(Frozen):
    """Accept one node.

    claims      judged by the pipeline, from a reading taken after the last change
    roles_path  folders of roles; the first that holds a role wins, as with Ansible
    level       proofs of this level and of those before it in `LEVELS`
    junit       where to write a JUnit file
    raw         where to write what the proofs' commands printed
    keeper      the socket of who holds the run's connections, if anybody does
    baseline    what this node measured when it was last accepted, by measurement or by proof
    """

    document: Document
    reading: NodeReading
    claims: tuple[Verdict, ...]
    roles_path: tuple[str, ...]
    level: Level = "poc"
    junit: str | None = None
    raw: str | None = None
    keeper: str | None = None
    baseline: dict[str, float] | None = None
