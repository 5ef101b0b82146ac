"""Judges claims: a claim and its reading give a verdict. Pure; unknown never passes."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nodeprep.judge import arrays, files, kernel, mounts, nics, shapes, system, text, volumes
from nodeprep.judge.finding import Finding, unknown
from nodeprep.model.verdict import Outcome, Verdict, Waiver

if TYPE_CHECKING:
    import datetime as dt

    from nodeprep.model.claim import Claim
    from nodeprep.model.node import Document
    from nodeprep.model.reading import NodeReading, Reading


@dataclass(frozen=True)
class _Kind:
    """How a kind is judged: what it wants in words, the shape of its data, its judge."""

    wanted: Callable[[Any], str]
    shape: type[shapes._Data]
    judge: Callable[[Any, Any], Finding]


KINDS: dict[str, _Kind] = {
    "package": _Kind(system.wanted_package, shapes.PackageData, system.judge_package),
    "file": _Kind(files.wanted_file, shapes.FileData, files.judge_file),
    "directory": _Kind(files.wanted_directory, shapes.FileData, files.judge_directory),
    "link": _Kind(files.wanted_link, shapes.FileData, files.judge_link),
    "sysctl": _Kind(system.wanted_sysctl, shapes.SysctlData, system.judge_sysctl),
    "service": _Kind(system.wanted_service, shapes.ServiceData, system.judge_service),
    "module": _Kind(kernel.wanted_module, shapes.ModuleData, kernel.judge_module),
    "kernel_argument": _Kind(
        kernel.wanted_argument, shapes.KernelArgumentData, kernel.judge_argument
    ),
    "array": _Kind(arrays.wanted_array, shapes.ArrayData, arrays.judge_array),
    "cached_volume": _Kind(
        volumes.wanted_cached_volume, shapes.CachedVolumeData, volumes.judge_cached_volume
    ),
    "filesystem": _Kind(arrays.wanted_filesystem, shapes.FilesystemData, arrays.judge_filesystem),
    "mount": _Kind(mounts.wanted_mount, shapes.MountData, mounts.judge_mount),
    "governor": _Kind(system.wanted_governor, shapes.GovernorData, system.judge_governor),
    "gpu": _Kind(system.wanted_gpu, shapes.GpuData, system.judge_gpu),
    "nic": _Kind(nics.wanted_nic, shapes.NicData, nics.judge_nic),
    "interrupts": _Kind(nics.wanted_interrupts, shapes.InterruptsData, nics.judge_interrupts),
    "output": _Kind(system.wanted_output, shapes.OutputData, system.judge_output),
}


def judge(claim: Claim, reading: Reading | None, *, simulated: bool = False) -> Verdict:
    """The verdict on one claim. `simulated`: a stand-in reported what was read."""
    kind = KINDS[claim.kind]
    stand_in = simulated or (reading is not None and reading.data.get("simulated") is True)
    common: dict[str, Any] = {
        "claim": claim.id,
        "role": claim.role,
        "wanted": text.line(kind.wanted(claim)),
        "source": text.line(claim.source),
        "simulated": stand_in,
    }
    if not claim.applies:
        why = text.line(claim.why)
        return Verdict(verdict=Outcome.NOT_APPLICABLE, reason=why, **common)
    found = _find(claim, kind, reading)
    outcome = _outcome(found)
    return Verdict(
        verdict=outcome,
        read=text.line(found.read),
        reason=text.line("; ".join(found.problems)),
        action=found.action or _action(claim, outcome),
        diff=found.diff,
        detail={} if found.reboot else {"reboot": False},
        **common,
    )


def _find(claim: Claim, kind: _Kind, reading: Reading | None) -> Finding:
    if reading is None:
        return unknown("it was not read")
    if reading.error:
        return unknown(reading.error)
    try:
        data = kind.shape.model_validate(reading.data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return unknown(f"the reading makes no sense: {where}: {first['msg']}")
    return kind.judge(claim, data)


def _outcome(found: Finding) -> Outcome:
    if found.unknown:
        return Outcome.UNKNOWN
    return Outcome.FAIL if found.problems else Outcome.PASS


def _action(claim: Claim, outcome: Outcome) -> str:
    if outcome is Outcome.FAIL:
        return f"provision mends it: role {claim.role}"
    if outcome is Outcome.UNKNOWN:
        return "find out on the node why it cannot be read; what is not measured does not pass"
    return ""


def judge_document(document: Document, reading: NodeReading, today: dt.date) -> tuple[Verdict, ...]:
    """The verdicts on all claims of a node, in the document's order, waivers applied."""
    verdicts = (judge(claim, reading.readings.get(claim.id)) for claim in document.claims)
    return waive(verdicts, document.node.waivers, document.node.name, today)


def waive(
    verdicts: Iterable[Verdict], waivers: tuple[Waiver, ...], node: str, today: dt.date
) -> tuple[Verdict, ...]:
    """Verdicts with the node's waivers applied; what was read stays.

    Only what blocks is waived. A waiver holds on its last day; after it the reason says so.
    """
    ours = [w for w in waivers if any(fnmatch.fnmatchcase(node, glob) for glob in w.nodes)]
    return tuple(_waived(verdict, ours, today) for verdict in verdicts)


def _waived(verdict: Verdict, waivers: list[Waiver], today: dt.date) -> Verdict:
    if not verdict.verdict.blocks:
        return verdict
    mine = [w for w in waivers if fnmatch.fnmatchcase(verdict.claim, w.claim)]
    if not mine:
        return verdict
    last = max(mine, key=lambda waiver: waiver.expires)
    if last.expires < today:
        late = f"(its waiver expired on {last.expires}: {last.reason})"
        return verdict.model_copy(update={"reason": text.line(f"{verdict.reason} {late}")})
    reason = f"waived until {last.expires}: {last.reason} ({verdict.verdict}: {verdict.reason})"
    return verdict.model_copy(
        update={"verdict": Outcome.WAIVED, "reason": text.line(reason), "action": ""}
    )
