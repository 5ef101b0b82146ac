"""Proof of a CUDA-aware Open MPI: buffers in GPU memory go round the ring of the node's GPUs."""

from __future__ import annotations

import pytest

from nodeprep.accept.parsers.osu import parse_osu_bw
from nodeprep.accept.proof import Proof
from nodeprep.accept.session import Unknown
from nodeprep.model.claim import Output
from nodeprep.model.node import Document
from nodeprep.model.profile import GpuPart

CLAIM = "Open MPI for CUDA"
STAGED = (
    "was UCX built with --with-cuda (ucx_info -d: cuda_ipc)? Then look at gpu.p2p of that pair; "
    "without cuda_ipc buffers go through the host"
)


@pytest.mark.proof("openmpi.device_buffers", level="stress", timeout_s=600)
def test_device_buffers_go_round_the_ring(proof: Proof, gpus: GpuPart, document: Document) -> None:
    """`osu_bw D D` from each GPU to the next. Owed only where the site wants MPI for CUDA."""
    claims = document.claims_of("openmpi")
    if not any(isinstance(claim, Output) and claim.name == CLAIM for claim in claims):
        proof.holds(True, wanted="device buffers, where Open MPI is wanted for CUDA",
                    read="it is not (openmpi_cuda)")  # fmt: skip
        return
    if gpus.count < 2:
        proof.not_applicable("one GPU is no ring", profile="parts.gpus.count", values=(1,))
    hops = [(gpu, (gpu + 1) % gpus.count) for gpu in range(gpus.count)]
    hops = hops if gpus.count > 2 else hops[:1]
    rates = {hop: _rate(proof, *hop) for hop in hops}
    slowest = min(rates, key=lambda hop: rates[hop])
    told = ", ".join(f"GPU{a}-GPU{b} {rate:.3g}" for (a, b), rate in rates.items())
    at = f"from GPU{slowest[0]} to GPU{slowest[1]}"
    proof.measured("openmpi.device_bw", rates[slowest], at=at, read=told, action=STAGED)


def _rate(proof: Proof, one: int, other: int) -> float:
    """GB/s. As the admin user: training does not run as root."""
    command = ["mpirun", "-np", "2", "--map-by", ":OVERSUBSCRIBE", "osu_bw", "-d", "cuda", "D", "D"]
    said = proof.run(
        command, sudo=False, timeout_s=60, env={"CUDA_VISIBLE_DEVICES": f"{one},{other}"}
    )
    found = parse_osu_bw(said)
    if not found.on_device:
        raise Unknown("osu_bw does not say that both buffers were in GPU memory",
                      action="build the OSU micro-benchmarks with --enable-cuda")  # fmt: skip
    return found.best
