"""Proofs by nvbandwidth: the slowest path between host and GPUs, and between GPUs."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.nvbandwidth import Bandwidths, parse_nvbandwidth
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

LINK = "compare the slow GPU's PCIe link (gpu.pcie); reseat it or its riser; then RMA"


@pytest.mark.proof("nvbandwidth.host_to_device", timeout_s=180)
def test_host_to_device(proof: Proof, gpus: GpuPart) -> None:
    test = _measure(proof, "host_to_device_memcpy_ce", gpus.count)
    (_, gpu), value = test.slowest
    proof.measured("nvbandwidth.host_to_device", value, at=f"to GPU{gpu}", action=LINK)


@pytest.mark.proof("nvbandwidth.device_to_host", timeout_s=180)
def test_device_to_host(proof: Proof, gpus: GpuPart) -> None:
    test = _measure(proof, "device_to_host_memcpy_ce", gpus.count)
    (_, gpu), value = test.slowest
    proof.measured("nvbandwidth.device_to_host", value, at=f"from GPU{gpu}", action=LINK)


@pytest.mark.proof("nvbandwidth.p2p_read", timeout_s=300)
def test_between_gpus(proof: Proof, gpus: GpuPart) -> None:
    if gpus.board not in ("mesh", "nvswitch"):
        proof.not_applicable(
            "some pairs of GPUs speak through the host, at what the mainboard gives",
            profile="parts.gpus.board", values=("bridge", "pcie", "none"),
        )  # fmt: skip
    count = gpus.count * (gpus.count - 1)
    test = _measure(proof, "device_to_device_memcpy_read_ce", count)
    (a, b), value = test.slowest
    proof.measured(
        "nvbandwidth.p2p_read",
        value,
        at=f"between GPU{a} and GPU{b}",
        action="look at gpu.nvlink and gpu.p2p of that pair; reset; then reseat or RMA",
    )


def _measure(proof: Proof, test: str, cells: int) -> Bandwidths:
    found = parse_nvbandwidth(proof.run(["nvbandwidth", "-t", test], timeout_s=280)).get(test)
    if found is None or len(found.cells) != cells:
        raise Unknown(f"nvbandwidth measured {len(found.cells) if found else 0} of {cells} paths")
    return found
