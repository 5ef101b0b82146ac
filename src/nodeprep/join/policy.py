"""Who may join: pure. Nothing here talks to a scheduler."""

from __future__ import annotations

from nodeprep.join.adapter import Member
from nodeprep.model.lifecycle import State
from nodeprep.model.run import NodeResult

_MAY_JOIN = (State.ACCEPTED, State.JOINED)


def eligible(node: NodeResult) -> tuple[str, ...]:
    """Why a node may not join; empty: it may.

    Unknown never passes, and a node of which nothing was checked has not passed.
    """
    reasons = []
    if node.state not in _MAY_JOIN:
        reasons.append(f"it is {node.state}" + (f": {node.why}" if node.why else ""))
    if node.fault is not None:
        reasons.append(f"{node.fault.type}: {node.fault.message}")
    if not node.verdicts:
        reasons.append("nothing was checked")
    reasons += [
        f"{v.claim} is {v.verdict}" + (f": {v.reason}" if v.reason else "") for v in node.blocking
    ]
    return tuple(reasons)


def member(node: NodeResult, address: str, *, slots: int | None = None) -> Member:
    """What a scheduler is told of a node. `slots` left out: one per GPU that stands in it."""
    gpus = (node.hardware.gpus if node.hardware else None) or ()
    return Member(
        name=node.name,
        address=address,
        slots=len(gpus) if slots is None else slots,
        since=node.since,
        gpus=tuple(gpu.uuid for gpu in gpus if gpu.uuid),
    )
