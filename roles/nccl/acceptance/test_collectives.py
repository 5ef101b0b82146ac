"""Proofs of the other collectives, over all sizes: sharded training lives on them.

Each has a way of its own through the board: a link that all_reduce's rings leave out shows in
alltoall, which uses them all.
"""

from __future__ import annotations

import pytest

from nodeprep.accept import collective
from nodeprep.accept.parsers.nccl_tests import NcclTest
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart, Profile

TIME_S = 900
SOAK_TIME_S = 1800


def measured(proof: Proof, gpus: GpuPart, operation: str) -> NcclTest:
    tool = f"{operation}_perf"
    text = collective.run(proof, tool, gpus, collective.SWEEP, TIME_S - 10)
    table = collective.whole_table(text, tool, gpus)
    collective.judge_speed(proof, f"nccl.{operation}.busbw", table)
    return table


@pytest.mark.proof("nccl.all_gather.busbw", level="stress", timeout_s=TIME_S)
def test_all_gather(proof: Proof, gpus: GpuPart) -> None:
    collective.judge_values(proof, measured(proof, gpus, "all_gather").wrong)


@pytest.mark.proof("nccl.reduce_scatter.busbw", level="stress", timeout_s=TIME_S)
def test_reduce_scatter(proof: Proof, gpus: GpuPart) -> None:
    collective.judge_values(proof, measured(proof, gpus, "reduce_scatter").wrong)


@pytest.mark.proof("nccl.alltoall.busbw", level="stress", timeout_s=TIME_S)
def test_alltoall(proof: Proof, gpus: GpuPart) -> None:
    # nccl-tests never checks what alltoall leaves in place.
    collective.judge_values(proof, measured(proof, gpus, "alltoall").wrong_out_of_place)


@pytest.mark.proof("nccl.soak", level="burnin", timeout_s=SOAK_TIME_S)
def test_values_stay_right_for_long(proof: Proof, gpus: GpuPart, profile: Profile) -> None:
    """All links busy for ten minutes at the gate's speed, and the values checked at the end."""
    tool = "all_reduce_perf"
    size = ["-b", "4G", "-e", "4G", "-n", str(_rounds(gpus, profile))]
    text = proof.run(
        [tool, *size, "-g", str(gpus.count)], timeout_s=SOAK_TIME_S - 10, accept=(0, 1)
    )
    collective.judge_values(proof, collective.whole_table(text, tool, gpus).wrong)


def _rounds(gpus: GpuPart, profile: Profile) -> int:
    """Of 4 GiB in 300 s; they are run out of place, then in place."""
    gate = profile.gates.get("nccl.all_reduce.busbw")
    if gate is None:
        raise Unknown("no gate: the profile says not how fast all_reduce must be")
    bytes_per_s = gate.fail * 1e9 / (2 * (gpus.count - 1) / gpus.count)
    return max(20, int(300 * bytes_per_s / (4 << 30)))
