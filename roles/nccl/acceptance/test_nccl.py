"""Proofs of NCCL: bandwidth and correctness over all GPUs of the node, and its interface."""

from __future__ import annotations

import re

import pytest

from nodeprep.accept import collective
from nodeprep.accept.job import Level
from nodeprep.accept.parsers.nccl_log import NcclLog, parse_nccl_log
from nodeprep.accept.parsers.nccl_tests import NcclTest
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.accept.wanted import file_text
from nodeprep.model.node import Document
from nodeprep.model.profile import GpuPart

TOOL = "all_reduce_perf"
TIME = {"poc": 180, "stress": 900, "burnin": 900}
CONF = "/etc/nccl.conf"


@pytest.fixture
def output(proof: Proof, gpus: GpuPart, level: Level) -> str:
    """One run over all GPUs tells all: the table, and what NCCL says of itself."""
    seconds = TIME[level] - 10
    return collective.run(proof, TOOL, gpus, collective.sizes(level), seconds)


@pytest.fixture
def table(output: str, gpus: GpuPart) -> NcclTest:
    return collective.whole_table(output, TOOL, gpus)


@pytest.fixture
def log(output: str) -> NcclLog:
    return parse_nccl_log(output)


@pytest.mark.proof("nccl.all_reduce.busbw", timeout_s=TIME)
def test_all_reduce_is_fast_enough(proof: Proof, table: NcclTest) -> None:
    collective.judge_speed(proof, "nccl.all_reduce.busbw", table)


@pytest.mark.proof("nccl.all_reduce.correct", timeout_s=TIME)
def test_all_reduce_is_right(proof: Proof, table: NcclTest) -> None:
    collective.judge_values(proof, table.wrong)


@pytest.mark.proof("nccl.interface", timeout_s=TIME)
def test_nccl_uses_the_claimed_interface(proof: Proof, document: Document, log: NcclLog) -> None:
    wanted = _interface(file_text(document, CONF))
    found = log.interfaces or ((log.bootstrap,) if log.bootstrap else ())
    if not found:
        raise Unknown("NCCL does not say which interface it uses")
    proof.equals(
        "NCCL's interface", ", ".join(found), wanted,
        source=CONF, action=f"look for NCCL_SOCKET_IFNAME in the environment, and at {CONF}",
    )  # fmt: skip


@pytest.mark.proof("nccl.transport", timeout_s=TIME)
def test_gpus_of_one_board_speak_directly(proof: Proof, gpus: GpuPart, log: NcclLog) -> None:
    if gpus.board not in ("mesh", "nvswitch"):
        proof.not_applicable(
            "some pairs of GPUs speak through the host",
            profile="parts.gpus.board", values=("bridge", "pcie", "none"),
        )  # fmt: skip
    if not log.transports:
        raise Unknown("NCCL does not say how its channels run")
    slow = sorted(name for name in log.transports if not name.startswith(("P2P", "NVLS")))
    proof.holds(
        not slow,
        wanted="every channel is P2P",
        read=", ".join(f"{name} x{count}" for name, count in sorted(log.transports.items())),
        action="look at gpu.p2p, ACS and the IOMMU, and NCCL_P2P_* in the environment",
    )


def _interface(text: str) -> str:
    """`NCCL_SOCKET_IFNAME==ens5f0`: the first = assigns, the second means exactly this one."""
    found = re.search(r"^NCCL_SOCKET_IFNAME==?(\S+)$", text, re.MULTILINE)
    if not found:
        raise Unknown(f"{CONF} claims no interface")
    return found.group(1)
