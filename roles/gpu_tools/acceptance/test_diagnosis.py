"""Proof by DCGM's diagnostic: the vendor's own verdict on each GPU, as deep as the level goes."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict

import pytest

from nodeprep.accept.job import Level
from nodeprep.accept.parsers.dcgm import Diagnosis, Figure, parse_dcgm
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

# DCGM's run level, by ours. It takes 30 s, a quarter of an hour, and up to two hours.
RUN = {"poc": 1, "stress": 3, "burnin": 4}
TIME = {"poc": 240, "stress": 2700, "burnin": 4 * 3600}
# What must have passed on every GPU from a run level on. Others may be skipped: they are for
# other GPUs, or are not shipped with every release.
NEEDED = {2: ("memory", "pcie"), 3: ("diagnostic", "targeted_stress"), 4: ("memtest",)}
# Figures of which more is better, and which must be alike on all GPUs.
ALIKE = re.compile(r"bandwidth|stress level|gflops|tflops", re.IGNORECASE)
RMA = "run `dcgmi diag` on that GPU alone; reset it; if it fails again, RMA with this output"
IN_USE = "end what holds the GPUs' memory (gpu.unused), and accept again"
START = "start nvidia-dcgm.service and read its journal"
DIAG = 'dcgmi diag -r {run} -j -v; printf "\\nended with %d\\n" $?'


@pytest.mark.proof("dcgm.diag", timeout_s=TIME)
def test_the_vendors_diagnostic_passes(proof: Proof, gpus: GpuPart, level: Level) -> None:
    text = proof.run(DIAG.format(run=RUN[level]), timeout_s=TIME[level] - 10)
    found, code = _diagnosis(text)
    failed = found.with_status("fail")
    proof.holds(
        not failed,
        wanted=f"every test of dcgmi diag -r {RUN[level]} passes",
        read="; ".join(f"{r.test} {_places(r.gpus)}: {_why(r.warnings)}" for r in failed)
        or f"{len(found.with_status('pass'))} results pass (DCGM {found.version or 'unknown'})",
        action=RMA,
    )
    complaints = [result for result in found.with_status("pass") if result.warnings]
    for result in (*found.with_status("warn"), *found.with_status("skip"), *complaints):
        word = "was skipped" if result.status == "skip" else "warns"
        proof.note(f"{result.test} {word} {_places(result.gpus)}: {_why(result.warnings)}")
    _alike(proof, found.figures())
    if not failed:
        _enough(found, gpus, RUN[level])
        if code:
            raise Unknown(f"dcgmi ended with {code}, though no test failed", action=START)


def _diagnosis(text: str) -> tuple[Diagnosis, int]:
    """dcgmi's codes differ between releases, so its words decide and the code must agree."""
    body, _, ending = text.rpartition("ended with ")
    if not ending.strip().isdecimal():
        raise Unknown("dcgmi diag did not run to its end")
    code = int(ending)
    if code == 127:
        raise Unknown("dcgmi is missing on the node", action="converge the role that brings it")
    try:
        return parse_dcgm(body), code
    except ValueError as problem:
        raise Unknown(str(problem), action=START) from problem


def _enough(found: Diagnosis, gpus: GpuPart, run: int) -> None:
    """Every GPU was looked at, by every test that this run level is about."""
    every = set(range(gpus.count))
    strange = sorted({result.test for result in found.with_status("unknown")})
    if strange:
        raise Unknown(f"no known verdict on {', '.join(strange)}")
    seen = {gpu for result in found.with_status("pass") for gpu in result.gpus}
    if every - seen:
        raise Unknown(f"nothing was said of {_places(sorted(every - seen))}")
    if shrunk := next((result for result in found.results if result.shrunk), None):
        where = f"{shrunk.test} got too little memory {_places(shrunk.gpus)}"
        raise Unknown(f"{where}: {_why(shrunk.warnings)}", action=IN_USE)
    for test in (test for first, tests in NEEDED.items() if run >= first for test in tests):
        if missing := sorted(every - found.passed_on(test)):
            raise Unknown(f"{test} did not run {_places(missing)}", action="run it by hand")


def _alike(proof: Proof, figures: tuple[Figure, ...]) -> None:
    """GPUs of one node do the same work at the same speed: the slowest against the median."""
    groups: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for figure in figures:
        if ALIKE.search(figure.name):
            groups[figure.test, figure.name].append(figure)
    spreads = [_behind(group) for group in groups.values() if len(group) > 1]
    if not spreads:
        return
    percent, slowest = max(spreads, key=lambda spread: spread[0])
    at = f"at GPU{slowest.gpu}: {slowest.name} {slowest.value:g} {slowest.unit}".rstrip()
    proof.measured("dcgm.spread", percent, at=at, action=RMA)


def _behind(group: list[Figure]) -> tuple[float, Figure]:
    """By how many percent the slowest of a group is below its median."""
    median = statistics.median(figure.value for figure in group)
    slowest = min(group, key=lambda figure: figure.value)
    return (100 * (median - slowest.value) / median if median else 0.0), slowest


def _places(gpus: object) -> str:
    found = ", ".join(f"GPU{gpu}" for gpu in gpus) if isinstance(gpus, list | tuple) else ""
    return f"on {found}" if found else "on the node"


def _why(warnings: tuple[str, ...]) -> str:
    return warnings[0][:160] if warnings else "no word"
