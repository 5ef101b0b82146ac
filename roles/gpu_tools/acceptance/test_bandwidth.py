"""Proofs by nvbandwidth: the slowest path between host and GPUs, and between GPUs."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.nvbandwidth import Bandwidths, parse_nvbandwidth
from nodeprep.accept.parsers.topology import parse_topology
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.profile import GpuPart

LINK = "compare the slow GPU's PCIe link (gpu.pcie); reseat it or its riser; then RMA"
PAIR = "look at gpu.nvlink and gpu.p2p of that pair; reset; then reseat or RMA"
Pairs = frozenset[tuple[int, int]]


@pytest.fixture
def joined(proof: Proof, gpus: GpuPart) -> Pairs:
    """The pairs that NVLinks join, both ways; what the others reach is the mainboard's affair."""
    every = frozenset((a, b) for a in range(gpus.count) for b in range(gpus.count) if a != b)
    if gpus.board in ("mesh", "nvswitch"):
        return every
    if gpus.board != "bridge":
        proof.not_applicable(
            "GPUs without NVLink speak through the host, at what the mainboard gives",
            profile="parts.gpus.board", values=("pcie", "none"),
        )  # fmt: skip
    topology = parse_topology(proof.run(["nvidia-smi", "topo", "-m"], once=True))
    linked = frozenset(pair for pair in topology.pairs() if topology.links(*pair))
    # A pair whose bridge is gone must not leave the comparison.
    partners = {gpu: {b for a, b in linked if a == gpu} for gpu in range(gpus.count)}
    alone = [f"GPU{gpu}" for gpu, others in partners.items() if len(others) != 1]
    if alone:
        raise Unknown(f"not joined to one other GPU: {', '.join(alone)}", action=PAIR)
    return linked


@pytest.mark.proof("nvbandwidth.host_to_device", timeout_s=180)
def test_host_to_device(proof: Proof, gpus: GpuPart) -> None:
    test = _with_host(proof, "host_to_device_memcpy_ce", gpus)
    (_, gpu), value = test.slowest
    proof.measured("nvbandwidth.host_to_device", value, at=f"to GPU{gpu}", action=LINK)
    proof.attach(matrix=test.matrix())


@pytest.mark.proof("nvbandwidth.device_to_host", timeout_s=180)
def test_device_to_host(proof: Proof, gpus: GpuPart) -> None:
    test = _with_host(proof, "device_to_host_memcpy_ce", gpus)
    (_, gpu), value = test.slowest
    proof.measured("nvbandwidth.device_to_host", value, at=f"from GPU{gpu}", action=LINK)
    proof.attach(matrix=test.matrix())


@pytest.mark.proof("nvbandwidth.p2p_read", timeout_s=300)
def test_reads_between_gpus(proof: Proof, joined: Pairs) -> None:
    _slowest_pair(proof, "nvbandwidth.p2p_read", "device_to_device_memcpy_read_ce", joined)


@pytest.mark.proof("nvbandwidth.p2p_write", level="stress", timeout_s=300)
def test_writes_between_gpus(proof: Proof, joined: Pairs) -> None:
    _slowest_pair(proof, "nvbandwidth.p2p_write", "device_to_device_memcpy_write_ce", joined)


@pytest.mark.proof("nvbandwidth.p2p_bidirectional", level="stress", timeout_s=300)
def test_both_ways_between_gpus(proof: Proof, joined: Pairs) -> None:
    """Both directions at once, added up: a link whose way back is bad shows only here."""
    test = "device_to_device_bidirectional_memcpy_read_ce"
    _slowest_pair(proof, "nvbandwidth.p2p_bidirectional", test, joined)


def _with_host(proof: Proof, test: str, gpus: GpuPart) -> Bandwidths:
    found = _measure(proof, test)
    if len(found.cells) != gpus.count:
        raise Unknown(f"nvbandwidth measured {len(found.cells)} of {gpus.count} paths")
    return found


def _slowest_pair(proof: Proof, measurement: str, test: str, joined: Pairs) -> None:
    found = _measure(proof, test)
    cells = {pair: value for pair, value in found.cells.items() if pair in joined}
    if len(cells) != len(joined):
        raise Unknown(f"nvbandwidth measured {len(cells)} of {len(joined)} paths", action=PAIR)
    (a, b), value = min(cells.items(), key=lambda cell: cell[1])
    proof.measured(measurement, value, at=f"between GPU{a} and GPU{b}", action=PAIR)
    proof.attach(matrix=found.matrix())


def _measure(proof: Proof, test: str) -> Bandwidths:
    found = parse_nvbandwidth(proof.run(["nvbandwidth", "-t", test], timeout_s=280)).get(test)
    if found is None:
        raise Unknown(f"nvbandwidth did not measure {test}")
    return found
