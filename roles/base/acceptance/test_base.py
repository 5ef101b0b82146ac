"""Proofs of the base: the clock runs right, and logins and services get their limits."""

from __future__ import annotations

import time

import pytest

from nodeprep.accept.parsers.chrony import parse_tracking
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.accept.wanted import file_text
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile

LIMITS = "/etc/security/limits.d/60-nodeprep.conf"
ULIMITS = "ulimit -S -l; ulimit -H -l; ulimit -S -n; ulimit -H -n"
# Tokens (munge, Kerberos) tolerate minutes; a clock that is seconds off was never set.
CLOCK_S = 5.0
TRACKING = ["chronyc", "-n", "tracking"]
# 15 times, a second apart: any correction, a skew of 1000 ppm at most. With a drift file from a
# chronyd that ran for seconds, the skew starts at a million, and the error grows as fast as time.
WAITSYNC = ["chronyc", "-n", "waitsync", "15", "0", "1000", "1"]


@pytest.mark.proof("clock.synchronised", timeout_s=30)
def test_chrony_follows_a_source(proof: Proof, profile: Profile) -> None:
    if not profile.platform.initramfs:
        proof.not_applicable("the clock is that of the host's kernel", profile="platform.initramfs")
    tracking = parse_tracking(proof.run(TRACKING))
    if not tracking.synchronised:  # chronyd that just started has seen its sources a few times only
        proof.run(WAITSYNC, accept=(0, 1), or_nothing=True)
        tracking = parse_tracking(proof.run(TRACKING))
    proof.holds(
        tracking.synchronised,
        wanted="chrony follows a time source",
        read=tracking.words,
        action="check that the sources (base_chrony_sources) answer: chronyc -n sources",
    )


@pytest.mark.proof("clock.offset", timeout_s=30)
def test_the_clock_agrees_with_this_machines(proof: Proof) -> None:
    before = time.time()
    there = float(proof.run(["date", "+%s.%N"]).strip())
    after = time.time()
    off = max(before - there, there - after, 0.0)
    proof.holds(
        off <= CLOCK_S,
        wanted=f"within {CLOCK_S:g} s of this machine's clock",
        read=f"{off:.3f} s off",
        action="set the clock: chronyc makestep",
    )


@pytest.mark.proof("limits.login", timeout_s=30)
def test_a_fresh_login_has_its_limits(proof: Proof, document: Document, profile: Profile) -> None:
    _applicable(proof, profile)
    _limits(proof, document, proof.run(ULIMITS, sudo=False))


@pytest.mark.proof("limits.service", timeout_s=30)
def test_a_service_has_its_limits(proof: Proof, document: Document, profile: Profile) -> None:
    _applicable(proof, profile)
    transient = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", "sh", "-c", ULIMITS]
    _limits(proof, document, proof.run(transient))


def _applicable(proof: Proof, profile: Profile) -> None:
    if not profile.platform.rlimits:
        proof.not_applicable("hard limits cannot be raised here", profile="platform.rlimits")


def _limits(proof: Proof, document: Document, text: str) -> None:
    """PAM's file is the wanted value for services too: the role states it once for both."""
    memlock, nofile = _wanted(file_text(document, LIMITS))
    read = text.split()
    if len(read) != 4:
        raise Unknown(f"ulimit printed {len(read)} limits of 4")
    for name, wanted, found in (("memlock", memlock, read[:2]), ("nofile", nofile, read[2:])):
        proof.equals(
            f"{name} (soft, hard)", tuple(found), (wanted, wanted),
            source=LIMITS, action="converge role base; a login needs UsePAM yes in sshd_config",
        )  # fmt: skip


def _wanted(text: str) -> tuple[str, str]:
    rules = [line.split() for line in text.splitlines()]
    values = {rule[2]: rule[3] for rule in rules if len(rule) == 4 and rule[:2] == ["*", "-"]}
    if not {"memlock", "nofile"} <= values.keys():
        raise Unknown(f"{LIMITS} claims no memlock and nofile for everyone")
    return values["memlock"], values["nofile"]
