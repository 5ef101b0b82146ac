"""Proof of GDRCopy: the CPU writes to and reads from every GPU's memory as fast as it must."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.gdrcopy import parse_gdrcopy_copybw
from nodeprep.accept.proof import Proof
from nodeprep.model.profile import GpuPart

SLOW = "compare the GPU's PCIe link (gpu.pcie); check that gdrdrv maps write-combined"


@pytest.mark.proof("gdrcopy.copybw", level="stress", timeout_s=300)
def test_every_gpu_is_written_and_read_fast_enough(proof: Proof, gpus: GpuPart) -> None:
    rates = {
        index: parse_gdrcopy_copybw(proof.run(["gdrcopy_copybw", "-d", str(index)], timeout_s=60))
        for index in range(gpus.count)
    }
    for way in ("write", "read"):
        slowest = min(rates, key=lambda index: rates[index][way])
        value = rates[slowest][way]
        proof.measured(f"gdrcopy.{way}_bw", value, at=f"at GPU{slowest}", action=SLOW)
