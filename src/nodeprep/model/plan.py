"""A plan: the claims that do not hold on a node, by the roles that own them."""

from __future__ import annotations

from nodeprep.model.base import Frozen
from nodeprep.model.verdict import Outcome, Verdict


class NodePlan(Frozen):
    """What provision would do to one node. Empty `roles`: nothing.

    verdicts   of every claim, in the order of the document
    roles      that own a claim which does not hold, in the playbook's order
    disks      that would be written, by id; reboot: the reason, or empty
    conflicts  why the package set cannot be installed as a whole; a plan with one is not run
    """

    node: str
    verdicts: tuple[Verdict, ...] = ()
    roles: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    reboot: str = ""
    conflicts: tuple[str, ...] = ()

    @property
    def unmet(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.verdict.blocks)

    @property
    def failing(self) -> tuple[Verdict, ...]:
        return tuple(v for v in self.verdicts if v.verdict is Outcome.FAIL)

    @property
    def empty(self) -> bool:
        return not self.roles and not self.conflicts
