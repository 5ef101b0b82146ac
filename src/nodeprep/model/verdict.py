"""Verdicts: what a judge says of a claim, a proof or a part of the hardware, with its evidence."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any

from nodeprep.model.base import Frozen


class Outcome(StrEnum):
    """`unknown` (not measured: tool missing, no output, timeout) never passes."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"
    WAIVED = "waived"

    @property
    def blocks(self) -> bool:
        return self in (Outcome.FAIL, Outcome.UNKNOWN)


class Waiver(Frozen):
    """An exception as data: which claim on which nodes, why, and until when (that day included)."""

    claim: str
    reason: str
    expires: dt.date
    nodes: tuple[str, ...] = ("*",)


class Verdict(Frozen):
    """One judgement.

    claim   `<role>/<kind>:<name>`, or `<role>/proof:<name>`, or `hardware/<part>:<name>`
    wanted  what had to be true, in words a technician reads
    read    what was read or measured
    source  where the wanted value comes from
    reason  why the verdict is not a pass, and, in `action`, what to do next
    value, gate, unit, margin   for measurements: figures in `unit`; margin is (value-gate)/gate
    """

    claim: str
    role: str
    verdict: Outcome
    wanted: str = ""
    read: str = ""
    source: str = ""
    reason: str = ""
    action: str = ""
    diff: str = ""
    value: float | None = None
    gate: float | None = None
    unit: str = ""
    provisional: bool = False
    simulated: bool = False
    detail: dict[str, Any] = {}

    @property
    def margin(self) -> float | None:
        if self.value is None or not self.gate:
            return None
        return (self.value - self.gate) / self.gate
