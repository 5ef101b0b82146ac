"""Proofs of GDRCopy: the CPU writes to and reads from every GPU's memory as fast as it must."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.gdrcopy import parse_gdrcopy_copybw
from nodeprep.accept.proof import Proof
from nodeprep.model.profile import GpuPart

TIME_S = 300
SLOW = "compare the GPU's PCIe link (gpu.pcie); check that gdrdrv maps write-combined"
Rates = dict[int, dict[str, float]]


@pytest.fixture
def rates(proof: Proof, gpus: GpuPart) -> Rates:
    """MB/s of `write` and `read`, by GPU; both proofs share the runs."""
    commands = {index: ["gdrcopy_copybw", "-d", str(index)] for index in range(gpus.count)}
    return {
        index: parse_gdrcopy_copybw(proof.run(command, timeout_s=60, once=True))
        for index, command in commands.items()
    }


@pytest.mark.proof("gdrcopy.write_bw", level="stress", timeout_s=TIME_S)
def test_every_gpu_is_written_fast_enough(proof: Proof, rates: Rates) -> None:
    _slowest(proof, rates, "write")


@pytest.mark.proof("gdrcopy.read_bw", level="stress", timeout_s=TIME_S)
def test_every_gpu_is_read_fast_enough(proof: Proof, rates: Rates) -> None:
    _slowest(proof, rates, "read")


def _slowest(proof: Proof, rates: Rates, way: str) -> None:
    gpu = min(rates, key=lambda index: rates[index][way])
    proof.measured(f"gdrcopy.{way}_bw", rates[gpu][way], at=f"at GPU{gpu}", action=SLOW)
