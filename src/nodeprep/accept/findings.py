"""Findings of a proof, and how they become its one verdict. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nodeprep.accept.causes import UNMEASURED
from nodeprep.model.base import Frozen
from nodeprep.model.profile import Gate
from nodeprep.model.verdict import Outcome, Verdict

WORSE = 0.10  # a measurement this much worse than at the last acceptance is noted
_LONGEST = 600  # characters of a verdict's text
# The worst comes first; not applicable counts only when there is nothing else.
_ORDER = (Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS, Outcome.NOT_APPLICABLE)


class Finding(Frozen):
    """One thing that a proof found out."""

    outcome: Outcome
    wanted: str = ""
    read: str = ""
    source: str = ""
    reason: str = ""
    action: str = ""
    value: float | None = None
    gate: float | None = None
    unit: str = ""
    provisional: bool = False
    detail: dict[str, Any] = {}


def judge_measured(
    name: str,
    value: float | None,
    gate: Gate | None,
    *,
    read: str = "",
    at: str = "",
    action: str = "",
    baseline: float | None = None,
) -> Finding:
    """A figure against its gate. Without a gate, or without a finite figure, it is unknown."""
    if value is None or not math.isfinite(value):
        return Finding(
            outcome=Outcome.UNKNOWN, wanted=_limit(gate), read=read, reason=f"{name}: no figure"
        )
    if gate is None:
        return Finding(
            outcome=Outcome.UNKNOWN,
            read=read or f"{value:.4g}",
            reason=f"no gate: the profile says not how much {name} must be",
            action=f"add gates.{name} to the profile",
            value=value,
            detail={"measurement": name},
        )
    good = value >= gate.fail if gate.better == "higher" else value <= gate.fail
    figure = f"{value:.4g} {gate.unit}" + (f" {at}" if at else "")
    return Finding(
        outcome=Outcome.PASS if good else Outcome.FAIL,
        wanted=_limit(gate),
        read=f"{figure} ({read})" if read else figure,
        source=gate.source,
        reason="" if good else f"{name} is {figure}, wanted {_limit(gate)}",
        action="" if good else action,
        value=value,
        gate=gate.fail,
        unit=gate.unit,
        provisional=gate.provisional,
        detail=_detail(name, value, gate, baseline, good),
    )


def merge(findings: Sequence[Finding], *, claim: str, role: str, simulated: bool) -> Verdict:
    """The verdict of a proof: its worst finding decides. No finding at all is unknown."""
    if not findings:
        findings = (Finding(outcome=Outcome.UNKNOWN, reason="ended without a verdict"),)
    worst = min((finding.outcome for finding in findings), key=_ORDER.index)
    deciding = [finding for finding in findings if finding.outcome is worst]
    measured = next(
        (f for f in (*deciding, *findings) if f.value is not None), Finding(outcome=worst)
    )
    first = deciding[0]
    return Verdict(
        claim=claim,
        role=role,
        verdict=worst,
        wanted=_join(finding.wanted for finding in deciding),
        read=_join(finding.read for finding in deciding),
        source=first.source or measured.source,
        reason=_join(finding.reason for finding in deciding),
        action=_join(finding.action for finding in deciding)
        or (UNMEASURED if worst is Outcome.UNKNOWN else ""),
        value=measured.value,
        gate=measured.gate,
        unit=measured.unit,
        provisional=measured.provisional,
        simulated=simulated,
        detail=_details(findings),
    )


def _detail(
    name: str, value: float, gate: Gate, baseline: float | None, good: bool
) -> dict[str, Any]:
    detail: dict[str, Any] = {"measurement": name, "better": gate.better}
    higher = gate.better == "higher"
    notes: list[str] = []
    if good and gate.warn is not None and (value < gate.warn if higher else value > gate.warn):
        notes.append(f"{value:.4g} {gate.unit} is past the warning at {gate.warn:.4g}")
    if baseline:
        detail["baseline"] = baseline
        change = (value - baseline) / abs(baseline)
        if (-change if higher else change) > WORSE:
            notes.append(f"{change:+.0%} against {baseline:.4g} {gate.unit} when last accepted")
    return detail | ({"notes": notes} if notes else {})


def _details(findings: Sequence[Finding]) -> dict[str, Any]:
    """All details; notes add up, of anything else the first told stays."""
    merged: dict[str, Any] = {}
    notes: list[str] = []
    for finding in findings:
        notes += finding.detail.get("notes", [])
        merged = {**finding.detail, **merged}
    return merged | ({"notes": list(dict.fromkeys(notes))} if notes else {})


def _limit(gate: Gate | None) -> str:
    if gate is None:
        return ""
    return f"{'>=' if gate.better == 'higher' else '<='} {gate.fail:.6g} {gate.unit}"


def _join(texts: Any) -> str:
    text = "; ".join(dict.fromkeys(text for text in texts if text))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
