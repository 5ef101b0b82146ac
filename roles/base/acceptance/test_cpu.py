"""Proofs of the processors: enough cores for the GPUs, memory that knows where it is and is fast,
and clocks that do not sink while all of them work.
"""

from __future__ import annotations

import inspect
import re

import pytest

from nodeprep.accept import memory_load
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.hardware import Cpu, Hardware
from nodeprep.model.profile import GpuPart, Profile

SECONDS = 10
TIME_S = 120
TOLD = re.compile(r"^memory ([\d.]+)$", re.MULTILINE)
CLOCKS = re.compile(r"^clock (\d+) (\d+)$", re.MULTILINE)


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


@pytest.fixture
def load(proof: Proof, profile: Profile) -> str:
    """What the node's CPUs say while all of them copy memory; both proofs share one run."""
    if not profile.platform.cpufreq:
        proof.not_applicable(profile.platform.why, profile="platform.cpufreq")
    if profile.parts.cpu is None:
        proof.not_applicable("no processors are told of in the order", profile="parts.cpu")
    script = inspect.getsource(memory_load)
    return proof.run(["python3", "-c", script, str(SECONDS)], timeout_s=TIME_S - 10, once=True)


@pytest.mark.proof("memory.bandwidth", level="stress", timeout_s=TIME_S)
def test_memory_is_fast_enough(proof: Proof, load: str) -> None:
    """As STREAM's copy: bytes read and bytes written, by all CPUs, each on its own NUMA node."""
    found = TOLD.search(load)
    proof.measured(
        "memory.bandwidth",
        float(found.group(1)) if found else None,
        action="a memory channel may be empty or dead: hardware/memory, dmidecode -t memory, and "
        "the machine's own event log; then the BIOS: full speed, no sub-NUMA clusters",
    )


@pytest.mark.proof("cpu.clock_under_load", level="stress", timeout_s=TIME_S)
def test_clocks_hold_while_all_cpus_work(proof: Proof, load: str) -> None:
    found = CLOCKS.search(load)
    if not found:
        raise Unknown("the kernel does not tell the CPUs' clocks (/proc/cpuinfo)")
    least, median = map(float, found.groups())
    proof.measured(
        "cpu.clock_under_load",
        median,
        read=f"median of all CPUs, the slowest {least:.0f}",
        action="look at cooling and the power limit (RAPL, BMC), and for the governor performance",
    )
