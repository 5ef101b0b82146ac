"""The plan of a node: which roles must run, which disks are written, and what forbids it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeprep.judge.writes import Writes
from nodeprep.model.plan import NodePlan
from nodeprep.model.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nodeprep.model.node import Document
    from nodeprep.model.verdict import Verdict


def plan(
    document: Document,
    verdicts: Iterable[Verdict],
    conflicts: tuple[str, ...] = (),
    writes: Writes | None = None,
) -> NodePlan:
    """Roles that own a claim which does not hold, in the document's order.

    An unknown makes its role run too: converging may bring the tool that was missing. A claim
    that notifies a handler named `reboot…` and fails makes the plan say that it reboots, unless its
    verdict says that it is mended without (`detail` of `reboot` is false).
    """
    found = tuple(verdicts)
    owners = {verdict.role for verdict in found if verdict.verdict.blocks}
    failing = {
        verdict.claim
        for verdict in found
        if verdict.verdict is Outcome.FAIL and verdict.detail.get("reboot", True)
    }
    reboots = [
        claim.id
        for claim in document.claims
        if claim.id in failing and any(name.lower().startswith("reboot") for name in claim.notify)
    ]
    return NodePlan(
        node=document.node.name,
        verdicts=found,
        roles=tuple(role for role in document.roles if role in owners),
        reboot=", ".join(reboots),
        disks=tuple(writes.lines) if writes else (),
        writes=tuple(writes.todo) if writes else (),
        conflicts=(*conflicts, *(writes.refusals if writes else ())),
    )
