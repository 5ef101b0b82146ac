"""Proofs of the local disk that training reads from: sequential and random, past all caches."""

from __future__ import annotations

import pytest

from nodeprep.accept import scratch
from nodeprep.accept.parsers.fio import FioJob
from nodeprep.accept.proof import Proof
from nodeprep.model.node import Document
from nodeprep.model.profile import Profile
from nodeprep.model.reading import NodeReading

TIME_S = 300
SLOW = "look at its PCIe link (nvme list, lspci -vv), its health (smartctl -a), and md's state"


@pytest.fixture
def jobs(
    proof: Proof, profile: Profile, document: Document, reading: NodeReading
) -> dict[str, FioJob]:
    if not profile.platform.own_disks:
        proof.not_applicable(profile.platform.why, profile="platform.own_disks")
    if "storage.sequential_read" not in profile.gates and not profile.parts.disks:
        proof.not_applicable("no disk is told of in the order", profile="parts.disks")
    return scratch.measure(proof, scratch.place(document, reading), TIME_S - 10)


@pytest.mark.proof("storage.sequential_read", level="stress", timeout_s=TIME_S)
def test_it_reads_fast_enough_in_sequence(proof: Proof, jobs: dict[str, FioJob]) -> None:
    value = jobs["sequential"].read.bytes_per_second / 1e9
    proof.measured("storage.sequential_read", value, action=SLOW)


@pytest.mark.proof("storage.random_read_iops", level="stress", timeout_s=TIME_S)
def test_it_reads_fast_enough_at_random(proof: Proof, jobs: dict[str, FioJob]) -> None:
    proof.measured("storage.random_read_iops", jobs["random"].read.iops, action=SLOW)
