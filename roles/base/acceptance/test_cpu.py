"""Proofs of the processors: enough cores for the GPUs, and memory that knows where it is."""

from __future__ import annotations

import pytest

from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.hardware import Cpu, Hardware
from nodeprep.model.profile import GpuPart


@pytest.fixture
def cpu(gpus: GpuPart, hardware: Hardware) -> Cpu:
    if hardware.cpu is None:
        raise Unknown("the processors were not read")
    return hardware.cpu


@pytest.mark.proof("cpu.cores_per_gpu", timeout_s=30)
def test_there_are_cores_enough_for_every_gpu(proof: Proof, gpus: GpuPart, cpu: Cpu) -> None:
    """Physical cores: a data loader's threads gain little from the second thread of one."""
    proof.measured(
        "cpu.cores_per_gpu",
        None if cpu.cores is None else cpu.cores / gpus.count,
        read=f"{cpu.cores} cores for {gpus.count} GPUs",
        action="was a processor lost (hardware/cpu)? else this is another offer than was ordered",
    )


@pytest.mark.proof("cpu.numa", timeout_s=30)
def test_each_socket_is_a_numa_node(proof: Proof, cpu: Cpu) -> None:
    nodes, sockets = cpu.numa_nodes, cpu.sockets
    proof.holds(
        None if nodes is None or sockets is None else nodes >= sockets,
        wanted="at least one NUMA node a socket",
        read=f"{nodes} NUMA nodes, {sockets} sockets",
        source="interleaved memory is remote for half of all accesses",
        action="turn node interleaving off, and NUMA on, in the BIOS",
    )
